"""Which observations keep a place in a result whatever floods their list. Pure.

A list of a result holds so many rows of one type in one phase; who makes a thousand files before the one that matters
would push it out. So what is told apart here by *where* it happened has a small room of its own: what a shell, a
package manager, git, an editor or an assistant reads at its start, where credentials lie, the system's own folders,
addresses beyond loopback, programs of the system. The names are a table of ours, so that a target cannot make rooms.

Not promised: that nothing of weight lies elsewhere. A flood inside a room is counted like any other.
"""

import ipaddress
from collections.abc import Mapping

from fumehood.observe.model import Kind, Value

_BELOW_HOME = (  # the longest that fits is the room
    *(".ssh/authorized_keys", ".ssh/config", ".ssh/id_", ".ssh/", ".gnupg/", ".pki/", ".netrc", ".pgpass"),
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".bash_history", ".profile"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".config/fish/", ".inputrc", ".xprofile", ".pam_environment"),
    *(".npmrc", ".yarnrc", ".pnpmrc", ".node_modules/", ".node_libraries/", ".pypirc", ".cargo/", ".gem/"),
    *(".gitconfig", ".git-credentials", ".config/git/", ".config/gh/", ".config/hub", ".gitignore_global"),
    *(".aws/", ".azure/", ".kube/", ".docker/", ".config/gcloud/", ".terraform", ".config/op/", ".password-store/"),
    *(".config/autostart/", ".config/systemd/", ".config/environment.d/", ".config/", ".local/bin/", ".local/share/"),
    *(".claude", ".codex/", ".cursor/", ".gemini/", ".vscode", ".continue/", ".mozilla/", ".thunderbird/", "bin/"),
    *(".env", ".electrum/", ".bitcoin/", ".ethereum/", "snap/", "Desktop/", "Documents/", "Downloads/"),
)
_BELOW_WORKSPACE = (
    *(".git/hooks/", ".git/config", ".git/", ".github/", ".husky/", ".mcp.json", ".claude", ".cursor/", ".vscode/"),
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", ".npmrc", ".env", "AGENTS.md", "CLAUDE.md"),
    *("node_modules/.bin/",),
)
FACTS = frozenset(
    [
        *("initialized", "era", "listed", "inputs", "called", "inputs_not_generated", "not_called", "asked"),
        *("era_difference", "repeat_difference", "call_difference"),
    ]
)
_SYSTEM = frozenset(
    ["etc", "proc", "sys", "dev", "usr", "opt", "root", "run", "boot", "srv", "mnt", "media", "lib", "bin", "sbin"]
)
_PROGRAMS = ("/usr/", "/bin/", "/sbin/", "/opt/")
_FILES = frozenset(
    {Kind.FILE_CREATED, Kind.FILE_CHANGED, Kind.FILE_DELETED, Kind.FILE_READ, Kind.FILE_REFUSED},
)


def of_path(path: str, home: str, workspace: str) -> str:
    """The room of a path as the target sees it; empty for one like any other."""
    for base, names in ((workspace, _BELOW_WORKSPACE), (home, _BELOW_HOME)):
        if path.startswith(f"{base}/"):
            below = path[len(base) + 1 :]
            return max((name for name in names if f"{below}/".startswith(name)), key=len, default="")
    first = path.lstrip("/").partition("/")[0]
    return f"/{first}" if first in _SYSTEM else ""


def of(kind: Kind, detail: Mapping[str, Value], home: str, workspace: str) -> str:
    """The room of an observation; empty for one like any other."""
    if kind in _FILES:
        path = detail.get("path")
        return of_path(path, home, workspace) if isinstance(path, str) else ""
    if kind is Kind.PROCESS_EXEC:
        program = detail.get("program")
        return program if isinstance(program, str) and program.startswith(_PROGRAMS) else ""
    if kind in (Kind.CANARY_READ, Kind.CANARY_SENT):
        return str(detail.get("canary", ""))
    if kind is Kind.NETWORK_CONNECT:
        return "" if _is_loopback(detail.get("address")) else "beyond loopback"
    return ""


def _is_loopback(address: Value) -> bool:
    try:
        return ipaddress.ip_address(str(address)).is_loopback
    except ValueError:
        return True  # a path, or nothing


def of_fact(kind: Kind, detail: Mapping[str, Value]) -> str:
    """The room of a fact of the protocol; none for a definition, of which a server may send any number."""
    fact = detail.get("fact") if kind is Kind.PROTOCOL_FACT else None
    return fact if isinstance(fact, str) and fact in FACTS else ""


def names() -> frozenset[str]:
    """Every room that a path can have."""
    return frozenset({*_BELOW_HOME, *_BELOW_WORKSPACE, *(f"/{name}" for name in _SYSTEM)})
