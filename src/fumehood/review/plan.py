"""Turn a request into the steps of its review. Pure: the same request and bench give the same specs.

A review is a list of steps, each one confined child with a layer of its own::

    git   clone → fetch → install → (build) → exercise
    npm   lock  → fetch → install → exercise
    pypi  index → (fetch-sources → lock-build → fetch-build → build) → lock → fetch → install → exercise
    dir           fetch → install → (build) → exercise

`install` starts from the sources again, so that it is the run a user would have; what its layer has and `fetch`'s has
not is what the install scripts did.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NewType
from urllib.parse import SplitResult, urlsplit

from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review.node import npm
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.spec import Bind, DataFile, Identity, Overlay, PlainFolder, Profile, SandboxSpec, TraceMode

CACHE = "/mnt"  # npm's cache while it is filled; git's bare repository while it is fetched
TARGETS = frozenset({Phase.INSTALL, Phase.PREPARE, Phase.EXERCISE})  # in which code of the target runs
Commit = NewType("Commit", str)  # an object's forty hex digits in lower case, as git prints them
SEARCH_PATH = ("/usr/bin", "/bin")  # of every step, after Node and npm or uv: git and the system's own tools
UV = "/opt/uv/bin/uv"
CA_FILE = "/etc/ssl/operator.pem"
HIDDEN_HOST = "registry.internal"  # stands in for a loopback registry or forge, which the child could not reach by name

# Every value that is not in the request is a constant of ours. $1 repository, $2 URL, $3 commit, $4 work tree.
CLONE = """
set -eu
git init -q --bare "$1"
cd "$1"
git fetch -q --depth 1 --no-tags --no-recurse-submodules "$2" "$3"
kind=$(git cat-file -t "$3")
echo "type $kind"
[ "$kind" = commit ] || exit 65
echo "id $(git rev-parse --verify "$3^{commit}")"
git --work-tree="$4" checkout -q -f "$3" -- .
"""
NOT_A_COMMIT = 65  # EX_DATAERR of sysexits.h, as CLONE uses it

_GIT_CONFIG = (
    ("transfer.fsckObjects", "true"),
    ("fetch.fsckObjects", "true"),
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("submodule.recurse", "false"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("pack.threads", "1"),
    ("init.defaultBranch", "main"),
    ("advice.detachedHead", "false"),
)

_WRAPPER = '#!/bin/sh\nexec /opt/node/bin/node /opt/node/lib/node_modules/npm/bin/{}-cli.js "$@"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A host that the operator's settings name: the registry, or the forge."""

    url: str  # as the child is given it, with a trailing slash
    rule: Rule
    named: str  # as the settings name it, without a user

    @classmethod
    def parse(cls, url: str) -> "Remote":
        """From a setting. A loopback host gets another name inside, where loopback is the child's own."""
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = named = (parts.hostname or "").lower()
        pins: tuple[str, ...] = ()
        if host == "localhost" or host.startswith("127.") or host == "::1":
            pins = ("127.0.0.1" if host == "localhost" else host,)
            host = HIDDEN_HOST
        shown = f":{port}" if pins or parts.port else ""
        rule = Rule(host=host, port=port, operator=True, pins=pins)
        return cls(url=_url(parts, host, shown), rule=rule, named=_url(parts, named, shown))

    @property
    def plain_http(self) -> bool:
        """Whether what comes from it was not protected on its way."""
        return self.url.startswith("http://")


def _url(parts: SplitResult, host: str, port: str) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}{port}{parts.path}".rstrip("/") + "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the steps of one review share."""

    identity: Identity
    folder: str
    node: Path | None = None  # the program
    node_library: Path | None = None  # lib/node_modules beside it
    uv: Path | None = None
    python: Path | None = None  # the system's, below /usr
    registry: Remote | None = None
    forge: Remote | None = None
    index: Remote | None = None
    variables: tuple[tuple[str, str], ...] = ()  # that a shell here has, in the steps in which the target's code runs
    index_files: tuple[Rule, ...] = ()  # hosts, besides the index, that its files may come from
    ca_file: Path | None = None

    @property
    def installer(self) -> str:
        """The program that installs packages."""
        return "uv" if self.uv else "npm"

    @property
    def search_path(self) -> tuple[str, ...]:
        """PATH of every step."""
        return (*(("/opt/node/bin",) if self.node else ()), *(("/opt/uv/bin",) if self.uv else ()), *SEARCH_PATH)

    @property
    def workspace(self) -> str:
        """The workspace as the child sees it."""
        return f"{self.identity.home}/{self.folder}"

    @property
    def layer_home(self) -> str:
        """The home inside a layer, relative."""
        return f"home/{self.identity.user}"

    @property
    def layer_workspace(self) -> str:
        """The workspace inside a layer, relative."""
        return f"{self.layer_home}/{self.folder}"

    def is_package(self, path: bytes) -> bool:
        """Whether a path of a layer lies in a folder into which npm or uv unpacks packages."""
        prefix = f"{self.layer_workspace}/".encode()
        if self.uv:
            return path == prefix + b".build" or path.startswith((prefix + b".venv/", prefix + b".build/"))
        return path.startswith(prefix) and b"node_modules" in path.removeprefix(prefix).split(b"/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One confined child of a review."""

    name: str  # "clone", "lock", "fetch", "install", "build", "exercise"
    phase: Phase
    argv: tuple[str, ...]
    seconds: float
    network: Policy = Policy()
    trace: TraceMode | None = None
    profile: Profile = Profile.REVIEW
    environment: tuple[tuple[str, str], ...] = ()
    linger_seconds: float = 0.0


def clone(bench: Bench, repository: str, commit: Commit) -> Step:
    """Fetch one commit from the forge, check that it is one, and lay out its files."""
    if bench.forge is None:
        message = "a git target needs a forge"
        raise ValueError(message)
    scheme = "http" if bench.forge.plain_http else "https"
    config = tuple(
        pair
        for number, (key, value) in enumerate(_GIT_CONFIG)
        for pair in ((f"GIT_CONFIG_KEY_{number}", key), (f"GIT_CONFIG_VALUE_{number}", value))
    )
    environment = (
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_COUNT", str(len(_GIT_CONFIG))),
        *config,
        ("GIT_ALLOW_PROTOCOL", scheme),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ASKPASS", "/bin/false"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        *((("GIT_SSL_CAINFO", CA_FILE),) if bench.ca_file else ()),
    )
    url = f"{bench.forge.url}{repository}.git" if not repository.endswith(".git") else f"{bench.forge.url}{repository}"
    return Step(
        name="clone",
        phase=Phase.ACQUIRE,
        argv=("/bin/sh", "-c", CLONE, "sh", f"{CACHE}/repository", url, commit, bench.workspace),
        seconds=limits.ACQUIRE_SECONDS,
        network=Policy(mode=Mode.ALLOWLIST, rules=(bench.forge.rule,)),
        trace=TraceMode.NETWORK,
        environment=environment,
    )


def exercise(bench: Bench, entry: str, argv: tuple[str, ...], network: Policy, seconds: float) -> Step:
    """Start the server; `entry` is relative to the workspace, which is the working folder."""
    program = (npm.NODE, entry) if bench.node else (f"{bench.workspace}/{entry}",)
    return Step(
        name="exercise",
        phase=Phase.EXERCISE,
        argv=(*program, *argv),
        # Python would write hundreds of .pyc files at its first start: what is written is the target's own doing.
        environment=(("PYTHONDONTWRITEBYTECODE", "1"),) if bench.python else (),
        seconds=seconds,
        network=network,
        trace=TraceMode.PLAIN,
    )


def environment(bench: Bench, step: Step) -> tuple[tuple[str, str], ...]:
    """The whole environment of a step: built here, taken from nowhere."""
    certificates = (("NODE_EXTRA_CA_CERTS", CA_FILE), ("SSL_CERT_FILE", CA_FILE)) if bench.ca_file else ()
    return (
        ("PATH", ":".join(bench.search_path)),
        ("HOME", bench.identity.home),
        ("USER", bench.identity.user),
        ("LOGNAME", bench.identity.user),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("PWD", bench.workspace),
        *certificates,
        *(bench.variables if step.phase in TARGETS else ()),
        *step.environment,
    )


def spec(bench: Bench, step: Step, overlay: Overlay | PlainFolder, scratch: Path | None) -> SandboxSpec:
    """One step as a sandbox: Node or uv, the operator's certificates, the layers, and nothing else of this host."""
    binds = [
        Bind(source=source, target=target)
        for source, target in (
            (bench.node, npm.NODE),
            (bench.node_library, "/opt/node/lib/node_modules"),
            (bench.uv, UV),
        )
        if source is not None
    ]
    if bench.ca_file:
        binds.append(Bind(source=bench.ca_file, target=CA_FILE))
    if scratch is not None:
        binds.append(Bind(source=scratch, target=CACHE, writable=True, bounded=True))
    return SandboxSpec(
        argv=step.argv,
        environment=environment(bench, step),
        workdir=bench.workspace,
        identity=bench.identity,
        profile=step.profile,
        binds=tuple(binds),
        files=tuple(
            DataFile(target=f"/opt/node/bin/{name}", content=_WRAPPER.format(name).encode(), mode=0o555)
            for name in ("npm", "npx")
            if bench.node
        ),
        overlay=overlay,
        network=step.network,
        trace=step.trace,
    )
