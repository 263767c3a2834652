"""A topology that is written as a person could write it is read as what it was."""

import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.topology import read, toml
from fumehood.gateway.topology.model import Gateway, Role, Saved, Server, Topology

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}(_[a-z0-9]{1,3})?", fullmatch=True).filter(lambda name: name != "code")
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
PATHS = st.from_regex(r"/[a-zäé\\\"' ][a-z\"\\]{0,6}(/[a-z]{1,4}){0,2}", fullmatch=True)
VARIABLES = st.from_regex(r"[A-EG-Z_][A-Z0-9_]{0,8}", fullmatch=True)
PATTERNS = st.lists(st.from_regex(r"\*?[a-z]{1,4}[*_]?[a-z*]{0,4}", fullmatch=True), max_size=3).map(tuple)
ENDPOINTS = st.lists(st.from_regex(r"[a-z]{1,6}\.example:[1-9][0-9]{0,3}", fullmatch=True), max_size=2).map(tuple)
URLS = st.sampled_from(["https://mcp.example.com/mcp", "http://127.0.0.1:9000/", "https://[2001:db8::1]/x?y=z"])
POLICIES = st.builds(
    GuardPolicy,
    allow_read=st.lists(PATHS, max_size=2).map(tuple),
    allow_write=st.lists(PATHS, max_size=2).map(tuple),
    allow_net=ENDPOINTS,
    allow_private_net=ENDPOINTS,
    env=st.lists(VARIABLES, max_size=2).map(tuple),
    memory_bytes=st.integers(64 * limits.MIB, limits.MEMORY_BYTES),
    processes=st.integers(8, limits.PROCESSES),
)
COMMON: Mapping[str, st.SearchStrategy[Any]] = {
    "trust": st.sampled_from(["trusted", "untrusted"]),
    "reads": st.none() | PATTERNS,
    "egress": st.none() | PATTERNS,
    "enabled": st.booleans(),
    "call_seconds": st.floats(0.001, 600),
}
SERVERS = st.one_of(
    st.builds(
        Server,
        command=st.tuples(st.from_regex(r"[a-z/]{1,9}", fullmatch=True), WORDS, WORDS),
        folder=PATHS,
        policy=POLICIES,
        **COMMON,
    ),
    st.builds(Server, workspace=PATHS, **COMMON),
    st.builds(
        Server,
        url=URLS,
        token_env=st.none() | VARIABLES,
        headers_env=st.dictionaries(st.from_regex(r"X-[a-z]{1,5}", fullmatch=True), VARIABLES, max_size=3),
        allow_private=st.booleans(),
        **COMMON,
    ),
)
SCHEMAS = st.fixed_dictionaries(
    {"type": st.just("object")},
    optional={"required": st.lists(WORDS, unique=True, max_size=2), "properties": st.dictionaries(WORDS, st.just({}))},
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """One that keeps every rule."""
    servers = draw(st.dictionaries(NAMES, SERVERS, max_size=4))
    known = [*servers, "code"]
    roles = draw(
        st.dictionaries(
            NAMES,
            st.builds(
                Role,
                servers=st.lists(st.sampled_from(["*", *known]), max_size=3).map(tuple),
                tools=st.lists(st.sampled_from(["*", *(f"{name}__*" for name in known)]), max_size=3).map(tuple),
                access=st.sampled_from(["read", "write"]),
            ),
            max_size=3,
        )
    )
    manifest = st.lists(st.sampled_from([f"{name}__x" for name in servers] or [""]), unique=True, max_size=3)
    saved = st.builds(
        Saved,
        program=PATHS,
        description=WORDS.filter(lambda text: bool(text.strip())),
        title=st.none() | WORDS,
        input_schema=SCHEMAS,
        tools=manifest.map(tuple) if servers else st.just(()),
    )
    gateway = Gateway(
        show=draw(st.sampled_from(["both", "direct", "code"])),
        local_role=draw(st.none() | st.sampled_from(sorted(roles))) if roles else None,
        lock_file=draw(PATHS),
        audit_file=draw(st.none() | PATHS),
    )
    return Topology(
        gateway=gateway, servers=servers, roles=roles, tools=draw(st.dictionaries(NAMES, saved, max_size=2))
    )


def written(topology: Topology) -> str:
    """As tables within each other; what is nothing, and what only another kind of server has, is left out."""
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(topology))
    return "\n".join(lines((), {key: value for key, value in tree.items() if value}))


def lines(keys: tuple[str, ...], table: Mapping[str, Any]) -> list[str]:
    kept = {key: value for key, value in table.items() if value is not None}
    if keys[:1] == ("servers",) and len(keys) == 2:
        kept.pop("policy" if table["command"] is None else "", None)
        for key in ("headers_env", "allow_private") if table["url"] is None else ():
            kept.pop(key)
    if keys[-1:] == ("policy",):
        kept.pop("audit_file", None)
    flat = [f"{toml.key(key)} = {toml.value(value)}" for key, value in kept.items() if not isinstance(value, dict)]
    inner = [lines((*keys, key), value) for key, value in kept.items() if isinstance(value, dict)]
    return [f"[{toml.keys(keys)}]" if keys else "", *flat, *(line for one in inner for line in one)]


@given(topologies())
def test_what_is_written_is_read_as_it_was(topology: Topology) -> None:
    assert read.parse(written(topology), "gateway.toml", "/etc/gw") == topology


@given(st.one_of(WORDS, st.booleans(), st.integers(), st.floats(allow_nan=False), st.lists(WORDS)))
def test_a_value_is_read_as_it_was_written(value: object) -> None:
    assert tomllib.loads(f"a = {toml.value(value)}") == {"a": value}
    assert toml.value(value).isascii()


@given(st.lists(WORDS, min_size=1, max_size=3))
def test_a_key_is_read_as_it_was_written(names: list[str]) -> None:
    expected: dict[str, Any] = {}
    for name in reversed(names):
        expected = {name: expected}
    assert tomllib.loads(f"[{toml.keys(tuple(names))}]") == expected


@pytest.mark.parametrize("value", [None, {}, b"x"])
def test_nothing_else_is_written(value: object) -> None:
    with pytest.raises(ValueError, match="not a value that is written here"):
        toml.value(value)
