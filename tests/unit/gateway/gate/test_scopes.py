"""What somebody may use is decided once, and in the same way for lists and for calls."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.gate import scopes
from fumehood.gateway.gate.model import EVERYTHING, Offered, Rights
from fumehood.gateway.gate.scopes import Allow, Deny, Granted, Nothing
from fumehood.gateway.topology.model import Gateway, Role, Topology
from fumehood.wire.published import LOCAL, Caller

READER = Role(servers=("files",), tools=("files__read*",))
WRITER = Role(servers=("notes",), access="write")
ROLES = Topology(roles={"reader": READER, "writer": WRITER}, gateway=Gateway(local_role="reader"))
OPEN = Topology()


def token(*words: str) -> Caller:
    return Caller(principal="token abc", scopes=frozenset(words) or None)


def tool(name: str, *, writes: bool = False) -> Offered:
    server, _, own = name.partition("__")
    return Offered(name=name, server=server, tool=own, definition={"name": name}, writes=writes)


def rights(topology: Topology, caller: Caller) -> Rights:
    found = scopes.decide(topology, caller)
    assert isinstance(found, Granted), found
    return found.rights


def test_without_roles_everybody_may_use_everything() -> None:
    for caller in (LOCAL, Caller(principal="local 127.0.0.1"), token()):
        assert rights(OPEN, caller) == EVERYTHING
        assert scopes.may_use(rights(OPEN, caller), tool("a__b", writes=True)) == Allow()
        assert scopes.may_see_server(rights(OPEN, caller), "a")
        assert not scopes.is_limited(rights(OPEN, caller))


@pytest.mark.threat("G14")
def test_a_token_for_some_tools_is_good_for_these_only() -> None:
    found = rights(OPEN, token("tool:a__b"))
    assert scopes.may_use(found, tool("a__b", writes=True)) == Allow()
    assert scopes.may_use(found, tool("a__c")) == Deny(rule="scope")
    assert not scopes.may_see_server(found, "a")
    assert scopes.is_limited(found)


@pytest.mark.threat("G14")
def test_a_token_for_reading_changes_nothing() -> None:
    found = rights(OPEN, token("tools:read"))
    assert scopes.may_use(found, tool("a__b")) == Allow()
    assert scopes.may_use(found, tool("a__b", writes=True)) == Deny(rule="scope")
    assert scopes.may_see_server(found, "a")


@pytest.mark.threat("G14")
def test_scopes_that_mean_nothing_here_give_nothing() -> None:
    for caller in (Caller(principal="oauth x", scopes=frozenset()), token("role:admin")):
        assert isinstance(scopes.decide(OPEN, caller), Nothing)


@pytest.mark.threat("G14")
def test_with_roles_who_comes_without_a_token_has_the_local_role() -> None:
    for caller in (LOCAL, Caller(principal="local 127.0.0.1")):
        found = rights(ROLES, caller)
        assert scopes.may_use(found, tool("files__read_file")) == Allow()
        assert scopes.may_use(found, tool("files__read_file", writes=True)) == Deny(rule="role_read")
        assert scopes.may_use(found, tool("files__write_file")) == Deny(rule="role_tool")
        assert scopes.may_use(found, tool("notes__read")) == Deny(rule="role_server")
        assert scopes.may_see_server(found, "files")
        assert not scopes.may_see_server(found, "notes")


@pytest.mark.threat("G14")
@pytest.mark.parametrize(
    ("topology", "caller"),
    [
        (Topology(roles={"reader": READER}), LOCAL),
        (Topology(roles={"reader": READER}, gateway=Gateway(local_role="other")), LOCAL),
        (ROLES, token()),
        (ROLES, token("tools:read")),
        (ROLES, token("tool:files__read_file")),
        (ROLES, token("role:nobody")),
        (ROLES, token("role:reader*")),
        (ROLES, Caller(principal="local", scopes=frozenset())),
        (ROLES, Caller(principal="localhost")),
    ],
)
def test_with_roles_nobody_may_use_anything_without_one(topology: Topology, caller: Caller) -> None:
    found = scopes.decide(topology, caller)
    assert isinstance(found, Nothing)
    assert found.reason.isprintable()


@pytest.mark.threat("G14")
def test_several_roles_add_up_without_mixing() -> None:
    found = rights(ROLES, token("role:reader", "role:writer", "role:unknown"))
    assert scopes.may_use(found, tool("files__read_file")) == Allow()
    assert scopes.may_use(found, tool("notes__write", writes=True)) == Allow()
    assert scopes.may_use(found, tool("files__read_file", writes=True)) == Deny(rule="role_read")
    assert scopes.may_see_server(found, "files")
    assert scopes.may_see_server(found, "notes")


@pytest.mark.threat("G14")
def test_other_scopes_of_a_token_narrow_its_role() -> None:
    found = rights(ROLES, token("role:writer", "tools:read", "tool:notes__write"))
    assert scopes.may_use(found, tool("notes__write", writes=True)) == Deny(rule="scope")
    assert scopes.may_use(found, tool("notes__write")) == Allow()
    assert scopes.may_use(found, tool("notes__other")) == Deny(rule="scope")


NAMES = st.sampled_from(["files", "notes", "code", "fil", "x"])
PATTERNS = st.lists(st.sampled_from(["*", "files", "f*", "*s", "notes", "files__*", "*__read*"]), max_size=3).map(tuple)
MADE_ROLES = st.builds(Role, servers=PATTERNS, tools=PATTERNS, access=st.sampled_from(["read", "write"]))
TOOLS = st.builds(
    tool, st.builds("{}__{}".format, NAMES, st.sampled_from(["read", "write", "read_x"])), writes=st.booleans()
)
WORDS = st.sets(
    st.sampled_from(["role:a", "role:b", "role:c", "tools:read", "tool:files__read", "tool:notes__write"]), max_size=4
)


def usable(topology: Topology, words: set[str], offered: list[Offered]) -> set[tuple[Any, ...]]:
    found = scopes.decide(topology, Caller(principal="token x", scopes=frozenset(words)))
    if isinstance(found, Nothing):
        return set()
    return {(one.name, one.writes) for one in offered if scopes.may_use(found.rights, one) == Allow()}


@pytest.mark.threat("G14")
@given(st.dictionaries(st.sampled_from("abc"), MADE_ROLES), WORDS, st.lists(TOOLS))
def test_a_token_is_worth_what_its_roles_are_worth_one_by_one(
    roles: dict[str, Role], words: set[str], offered: list[Offered]
) -> None:
    topology = Topology(roles=roles)
    named = {word for word in words if word.startswith("role:")}
    if roles:
        one_by_one = [usable(topology, {role} | (words - named), offered) for role in named]
        assert usable(topology, words, offered) == set(itertools.chain.from_iterable(one_by_one))


@pytest.mark.threat("G14")
@given(st.dictionaries(st.sampled_from("abc"), MADE_ROLES), WORDS, st.lists(TOOLS))
def test_taking_a_role_away_or_adding_a_narrowing_scope_never_allows_more(
    roles: dict[str, Role], words: set[str], offered: list[Offered]
) -> None:
    topology = Topology(roles={**roles, "z": READER})
    whole = usable(topology, words, offered)
    for word in words:
        if word.startswith("role:"):
            assert usable(topology, words - {word}, offered) <= whole
    assert usable(topology, words | {"tools:read"}, offered) <= whole
    if not any(word.startswith("tool:") for word in words):
        assert usable(topology, words | {"tool:files__read"}, offered) <= whole


@pytest.mark.threat("G14")
@given(MADE_ROLES, st.lists(TOOLS), st.data())
def test_a_narrower_role_never_allows_more(role: Role, offered: list[Offered], data: st.DataObject) -> None:
    narrower = Role(
        servers=tuple(data.draw(st.lists(st.sampled_from(role.servers))) if role.servers else ()),
        tools=tuple(data.draw(st.lists(st.sampled_from(role.tools))) if role.tools else ()),
        access="read",
    )
    for one in offered:
        if scopes.may_use(Rights(roles=(narrower,)), one) == Allow():
            assert scopes.may_use(Rights(roles=(role,)), one) == Allow()
            assert scopes.may_see_server(Rights(roles=(role,)), one.server)


@given(st.sets(st.text(max_size=20), max_size=5), st.text(max_size=10))
def test_any_caller_is_answered(words: set[str], principal: str) -> None:
    found = scopes.decide(ROLES, Caller(principal=principal, scopes=frozenset(words)))
    assert isinstance(found, Granted | Nothing)
