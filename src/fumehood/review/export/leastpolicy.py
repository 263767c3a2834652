"""The least policy of `guard` under which what a result records in EXERCISE would have worked, as TOML. Pure.

Invariants: what is allowed was seen: a host that the server turned to, a file outside its private home that it read or
wrote. What the format cannot say stands in comments, the limits first. Nothing of the target's is more than one quoted
word or one comment; the text is ASCII.

Threats: a result from a stranger, whose words would become keys, lines or hosts of a policy.
Not promised: that the server works under it: what it did not do in the run is not in it, and a name with an escape in
a result is not the name. Somebody reads it before it is used.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from fumehood.core import limits
from fumehood.core.addresses import parse_address, parse_endpoint
from fumehood.observe.model import Kind, Phase
from fumehood.review.behaviour.noise import is_pooled
from fumehood.review.result import ReviewResult, Row

_LIMITS = (
    "What this is: the least policy under which what one review recorded in EXERCISE would have worked.",
    "What it is not: a judgement, or a list of what the server needs. What it did not do in that run is not here;",
    "what it did here may be just what should not be allowed. Read each line before you use it.",
)
# Shown to every guarded server, or its own inside; of the last line nothing can be allowed at all.
_SHOWN = (
    *("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/opt/node/", "/etc/ssl/", "/etc/ld.so.", "/etc/alternatives/"),
    *("/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime"),
    *("/tmp/", "/proc/", "/sys/", "/dev/", "/run/"),  # noqa: S108 - read in a result, never opened
)
_WRITES = frozenset({Kind.FILE_CREATED, Kind.FILE_CHANGED, Kind.FILE_DELETED})
_LISTED = 20  # words in comments about one thing
_PATH = re.compile(r"/[\x20-\x5b\x5d-\x7e]*\Z")  # a backslash is the beginning of an escape of ours
_COMMENT = 300  # characters of one comment


@dataclass(slots=True)
class _Found:
    """What goes into the keys, and what cannot."""

    hosts: dict[str, None] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    notes: dict[str, dict[str, None]] = field(default_factory=dict)

    def note(self, about: str, word: str) -> None:
        """Say in a comment what no key can."""
        self.notes.setdefault(about, {})[word] = None


def text(result: ReviewResult) -> str:
    """The policy with its comments; a file that `guard --policy` reads."""
    found = _Found()
    for row in result.observations.items:
        if row.phase is Phase.EXERCISE:
            _take(row, result.environment.workspace, _home(result), found)
        elif (
            row.phase in {Phase.INSTALL, Phase.PREPARE}
            and row.type is Kind.NETWORK_CONNECT
            and row.collector == "egress"
        ):
            found.note("turned to while it was installed, which guard does not run", _where(row))
    lines = [*_comments(_LIMITS), *_comments(_gaps(result)), *_comments(_notes(found)), ""]
    lines += _key("allow_net", found.hosts, limits.GUARD_ENDPOINTS, "hosts that it turned to, whatever became of it")
    lines += _key("allow_read", found.reads, limits.GUARD_PLACES, "read outside of what every guarded server sees")
    lines += _key("allow_write", found.writes, limits.GUARD_PLACES, "written outside of its home and its folder")
    lines += ["# Which variables a program reads is not recorded: add the names that it needs.", "env = []"]
    return "\n".join(lines) + "\n"


def _home(result: ReviewResult) -> str:
    return f"/home/{result.environment.target_user}" if result.environment.target_user else ""


def _take(row: Row, workspace: str, home: str, found: _Found) -> None:
    if row.type is Kind.NETWORK_CONNECT and row.collector == "egress":
        _host(row, found)
    elif row.type is Kind.NETWORK_OTHER and row.detail.get("decision") is not None:
        found.note("packets that are no TCP connection: no policy lets them out", _where(row))
    elif row.type is Kind.CANARY_READ:
        found.note("planted credentials that it read; a guarded server has none", _word(row.detail.get("path")))
    elif row.type is Kind.FILE_READ and row.detail.get("outcome") in ("done", None) and row.detail.get("how") != "look":
        _path(row, found.reads, (workspace, home), found)
    elif row.type in _WRITES and row.detail.get("outcome") in ("done", None):
        _path(row, found.writes, (workspace, home), found)


def _host(row: Row, found: _Found) -> None:
    name, address, port = (row.detail.get(key) for key in ("name", "address", "port"))
    host = name if isinstance(name, str) and name else address
    where = f"[{host}]:{port}" if isinstance(host, str) and ":" in host else f"{host}:{port}"
    endpoint = parse_endpoint(where) if isinstance(port, int) and not is_pooled(host) else None
    if endpoint is None:
        found.note("hosts that no policy can name", _word(where))
    elif _is_loopback(endpoint.host):
        found.note("its own loopback, which it has without being asked", _word(where))
    else:
        found.hosts[f"[{endpoint.host}]:{port}" if ":" in endpoint.host else f"{endpoint.host}:{port}"] = None


def _is_loopback(host: str) -> bool:
    """Whether guard refuses a host because it is the server's own inside, or a group."""
    address = parse_address(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified or address.is_multicast


def _path(row: Row, places: dict[str, None], own: tuple[str, str], found: _Found) -> None:
    path = row.detail.get("path")
    if not isinstance(path, str):
        return
    workspace, home = own
    if workspace and f"{path}/".startswith(f"{workspace}/"):
        if places is found.writes:
            found.note(
                "written in its own folder: start guard in a folder that may be changed", _below(path, workspace)
            )
    elif home and f"{path}/".startswith(f"{home}/"):
        verb = "written to" if places is found.writes else "read from"
        found.note(f"{verb} its home; a guarded home is empty at the start and gone at the end", _below(path, home))
    elif not f"{path}/".startswith(_SHOWN) and path not in _SHOWN and path != "/":
        if _PATH.match(path) and len(path) <= limits.ARGUMENT_PATH_CHARACTERS and "/../" not in f"{path}/":
            places[path] = None
        else:
            found.note("paths that no policy can name", _word(path))


def _gaps(result: ReviewResult) -> Iterator[str]:
    """What the result itself could not see, as far as it concerns a policy."""
    yield f"Recorded with network mode {result.request.network_mode.value} and profile {result.request.action_profile}."
    states = {(c.name, c.state.value, c.lost > 0) for c in result.collectors if c.phase is Phase.EXERCISE}
    for name in ("strace", "egress", "layer"):
        mine = {(state, lossy) for known, state, lossy in states if known == name}
        if mine != {("active", False)}:
            how = ", ".join(sorted(state for state, _ in mine)) or "missing"
            yield f"Not whole: the sensor {name} was {how} or lost some."
    for lost in result.observations.lost:
        yield f"Not whole: {lost.count} of {lost.type.value} in {lost.phase.value} are not in the result."


def _notes(found: _Found) -> Iterator[str]:
    for about, words in found.notes.items():
        more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
        yield f"Not in the policy, {about}: {', '.join(sorted(words)[:_LISTED])}{more}."


def _comments(texts: Iterable[str]) -> Iterator[str]:
    for words in texts:
        inert = ascii(words)[1:-1]
        yield f"# {inert if len(inert) <= _COMMENT else inert[:_COMMENT] + '...'}"


def _key(name: str, words: Iterable[str], most: int, why: str) -> Iterator[str]:
    listed = sorted(words)
    yield f"# {why}"
    if len(listed) > most:
        yield f"# {len(listed) - most} more do not fit: a policy takes {most}"
    if not listed:
        yield f"{name} = []"
        return
    yield f"{name} = ["
    yield from (f"  {json.dumps(word)}," for word in listed[:most])
    yield "]"


def _where(row: Row) -> str:
    host = row.detail.get("name") or row.detail.get("address")
    return _word(f"{host}:{row.detail.get('port')}")


def _below(path: str, folder: str) -> str:
    return _word(path[len(folder) + 1 :] or ".")


def _word(value: object) -> str:
    return ascii(str(value)[:120])[1:-1]
