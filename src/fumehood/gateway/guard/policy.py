"""What one guarded server may see, change, reach and be told: the operator's policy as it is written. Pure.

Invariants: without a policy nothing is allowed; an unknown key or a wrong value is refused with its file, line and key;
flags add to a file and never take away; what a variable holds is in no message.

What the paths in it lead to is judged in `gateway.guard.places`.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from fumehood.core import limits
from fumehood.core.addresses import Endpoint, is_public, parse_address, parse_endpoint
from fumehood.core.errors import RefusedError
from fumehood.sandbox.egress import Mode, Policy, Rule

_Path = Annotated[str, Meta(pattern=r"\A/[^\x00-\x1f\x7f]*\Z", max_length=limits.ARGUMENT_PATH_CHARACTERS)]
_Name = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=limits.GUARD_NAME_CHARACTERS)]
_Places = Annotated[tuple[_Path, ...], Meta(max_length=limits.GUARD_PLACES)]
_Endpoints = Annotated[tuple[str, ...], Meta(max_length=limits.GUARD_ENDPOINTS)]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=limits.GUARD_NAMES)]

_SETTING: Final = "FUMEHOOD_"
_REMEDY: Final = "see docs/reference/guard.md"
_WORDS: Final[Mapping[str, str]] = {
    "allow_read": "is a list of absolute paths",
    "allow_write": "is a list of absolute paths",
    "allow_net": "is a list of HOST:PORT",
    "allow_private_net": "is a list of HOST:PORT",
    "env": "is a list of names of variables",
    "audit_file": "is an absolute path",
}


class GuardPolicyError(RefusedError):
    """A policy, or one flag of it, is refused. Names the file or flag, the key and the rule."""

    code = "guard_policy"


class GuardPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is written in a policy's file, and by flags."""

    allow_read: _Places = ()
    allow_write: _Places = ()
    allow_net: _Endpoints = ()
    allow_private_net: _Endpoints = ()  # names that may resolve to private addresses
    env: _Names = ()
    memory_bytes: Annotated[int, Meta(ge=64 * limits.MIB, le=limits.MEMORY_BYTES)] = limits.MEMORY_BYTES
    processes: Annotated[int, Meta(ge=8, le=limits.PROCESSES)] = limits.PROCESSES
    audit_file: _Path | None = None

    def plus(self, flags: "GuardPolicy") -> "GuardPolicy":
        """With what flags add."""
        return msgspec.structs.replace(
            self,
            allow_read=_joined(self.allow_read, flags.allow_read),
            allow_write=_joined(self.allow_write, flags.allow_write),
            allow_net=_joined(self.allow_net, flags.allow_net),
            env=_joined(self.env, flags.env),
        )

    @property
    def network(self) -> Policy:
        """The way out: none, or the listed hosts and ports.

        A name must resolve to public addresses unless it stands in `allow_private_net`; an address is dialled as it is
        written, for it leaves nothing to whoever answers for a name.
        """
        rules = [_rule(text, private=False) for text in self.allow_net]
        rules += [_rule(text, private=True) for text in self.allow_private_net]
        return Policy(mode=Mode.ALLOWLIST, rules=tuple(rules)) if rules else Policy()


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def parse(text: str, source: str) -> GuardPolicy:
    """The policy that a file's text holds. `source` is its name as asked. Errors: `GuardPolicyError`."""
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more digits than Python reads
        words = ascii(str(error)[:200])[1:-1]
        raise GuardPolicyError(f"{source}: not TOML: {words}", remedy="correct the file") from None

    def place(key: str) -> str:
        line = _line_of(text, key)
        return f"{source}, line {line}: {ascii(key[:80])[1:-1]}" if line else f"{source}: {ascii(key[:80])[1:-1]}"

    return read(tree, place)


def read(tree: Mapping[str, Any], place: Callable[[str], str]) -> GuardPolicy:
    """The policy of a table that holds one; `place` says where a key stands. Errors: `GuardPolicyError`."""
    known = [field.name for field in msgspec.structs.fields(GuardPolicy)]
    for key in tree:
        if key not in known:
            near = difflib.get_close_matches(key[:60], known, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
            raise GuardPolicyError(f"{place(key)}: no such key", remedy=remedy)
    return _checked(tree, place)


def from_flags(flags: Mapping[str, tuple[str, ...]]) -> GuardPolicy:
    """The policy that flags add. Errors: `GuardPolicyError`, which names the flag."""
    return _checked(flags, lambda key: f"--{key.replace('_', '-')}")


def _checked(tree: Mapping[str, Any], place: Callable[[str], str]) -> GuardPolicy:
    made = GuardPolicy()
    for key, value in tree.items():  # one by one, so that the key of a refusal is known
        try:
            made = msgspec.structs.replace(made, **_field(key, value))
        except msgspec.ValidationError as error:
            words = _WORDS.get(key) or str(error).partition(" - at ")[0].replace("`", "").lower()
            raise GuardPolicyError(f"{place(key)} {words}", remedy=_REMEDY) from None
    for key in ("allow_net", "allow_private_net"):
        for text in getattr(made, key):
            if problem := _bad_endpoint(text, private=key == "allow_private_net"):
                raise GuardPolicyError(f"{place(key)}: {text[:80]!a} {problem}", remedy=_REMEDY)
    for name in made.env:
        if name.startswith(_SETTING):
            raise GuardPolicyError(f"{place('env')}: {name} is a setting of fumehood's own", remedy="leave it out")
    return made


def _field(key: str, value: object) -> dict[str, Any]:
    """One key of the policy, converted."""
    return {key: getattr(msgspec.convert({key: value}, GuardPolicy), key)}


def _bad_endpoint(text: str, *, private: bool) -> str:
    """Why this is no place that a server may reach; empty when it is one."""
    found = parse_endpoint(text)
    if found is None:
        return "is not HOST:PORT, an exact name in ASCII or an address, and one port"
    if _is_loopback(found):
        return "is loopback, which is the server's own inside: a service of this machine cannot be reached by it"
    if private and parse_address(found.host) is not None:
        return "is an address: write it into allow_net"
    return ""


def _is_loopback(endpoint: Endpoint) -> bool:
    address = parse_address(endpoint.host)
    if address is None:
        return endpoint.host == "localhost" or endpoint.host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified or address.is_multicast


def _rule(text: str, *, private: bool) -> Rule:
    found = parse_endpoint(text)
    if found is None:
        raise GuardPolicyError(f"{text[:80]!a} is not HOST:PORT", remedy=_REMEDY)
    literal = parse_address(found.host) is not None and not is_public(found.host)
    return Rule(host=found.host, port=found.port, operator=private or literal)


def _line_of(text: str, key: str) -> int | None:
    """The line that seems to set a key at the top of a file, or to begin a table of its name."""
    for number, line in enumerate(text.splitlines(), start=1):
        found = re.match(r"\s*\[{0,2}\s*[\"']?([A-Za-z0-9_-]+)[\"']?\s*(?:=|\.|\])", line)
        if found and found[1] == key:
            return number
    return None
