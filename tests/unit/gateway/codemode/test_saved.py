"""What of a saved tool is pinned, and that it is withheld while anything of it differs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.jsonio import JsonValue
from fumehood.gateway import lockfile, pins
from fumehood.gateway.codemode import saved
from fumehood.gateway.codemode.saved import Loaded
from fumehood.gateway.lockfile import Lock
from fumehood.gateway.topology.model import Gateway, Saved, Server, Topology

TIME = "2026-01-01T00:00:00.000Z"
READ: JsonValue = {"name": "read", "description": "Reads.", "inputSchema": {"type": "object"}}
SEND: JsonValue = {"name": "send", "description": "Sends.", "inputSchema": {"type": "object"}}
FILES = Server(workspace="/w", trust="trusted")
MAIL = Server(url="https://mail.invalid/mcp", reads=("list*",))


def topology(**gateway: str) -> Topology:
    return Topology(gateway=msgspec.convert(gateway, Gateway), servers={"files": FILES, "mail": MAIL})


def loaded(*tools: str, name: str = "report", program: str = "return 1", **more: str) -> Loaded:
    fields = {"program": "/p.ts", "description": "Report.", "tools": list(tools), **more}
    return Loaded(name=name, saved=msgspec.convert(fields, Saved), program=program)


def accepted(lock: Lock, server: str, *definitions: JsonValue) -> Lock:
    return lockfile.accepted(lock, server, pins.pin(definitions), time=TIME, command="test")


@pytest.fixture
def lock() -> Lock:
    return accepted(accepted(Lock(servers={}), "files", READ), "mail", SEND)


def held(one: Loaded, lock: Lock, *, accept: Lock | None = None) -> dict[str, str]:
    """What is withheld of it, where it was accepted with the pins of `accept`."""
    before = lock if accept is None else accept
    pinned = accepted(before, "code", *saved.definitions(topology(), [loaded("files__read")], before))
    whole = Lock(servers=lock.servers | {"code": pinned.servers["code"]})
    return saved.withheld(saved.definitions(topology(), [one], whole), whole)


def test_what_is_as_it_was_accepted_is_not_withheld(lock: Lock) -> None:
    assert held(loaded("files__read"), lock) == {}


@pytest.mark.threat("G4")
@pytest.mark.parametrize(
    ("one", "fields"),
    [
        (loaded("files__read", program="return 2"), "program"),
        (loaded("files__read", description="Report it."), "description"),
        (loaded("files__read", title="A report"), "title"),
        (loaded("files__read", "mail__send"), "definitions, tools"),
        (loaded(), "definitions, tools"),
    ],
)
def test_whatever_else_it_is_now_it_is_withheld(lock: Lock, one: Loaded, fields: str) -> None:
    assert held(one, lock) == {"code__report": f"it is not what was accepted: {fields}"}


@pytest.mark.threat("G4")
def test_a_schema_of_its_own_that_is_another_one_withholds_it(lock: Lock) -> None:
    whole = msgspec.structs.replace(loaded("files__read").saved, input_schema={"type": "object"})
    one = Loaded(name="report", saved=whole, program="return 1")
    assert held(one, lock) == {"code__report": "it is not what was accepted: inputSchema"}


@pytest.mark.threat("G4")
def test_a_tool_of_its_manifest_that_was_accepted_anew_withholds_it(lock: Lock) -> None:
    later = accepted(lock, "files", {"name": "read", "description": "Reads it.", "inputSchema": {"type": "object"}})
    assert held(loaded("files__read"), later, accept=lock) == {
        "code__report": "it is not what was accepted: definitions"
    }


@pytest.mark.threat("G4")
def test_one_under_another_name_and_a_new_one_are_withheld(lock: Lock) -> None:
    assert held(loaded("files__read", name="other"), lock) == {"code__other": "it was not accepted"}


def test_where_nothing_was_accepted_everything_is_new(lock: Lock) -> None:
    found = saved.definitions(topology(), [loaded("files__read")], lock)
    assert saved.withheld(found, lock) == {"code__report": "it was not accepted"}


def test_a_tool_that_nobody_accepted_is_told(lock: Lock) -> None:
    one = loaded("files__read", "files__never", "mail__send")
    assert saved.unpinned(topology(), one, lock) == ("files__never",)
    assert saved.unpinned(topology(), one, Lock(servers={})) == one.saved.tools


@pytest.mark.threat("G20")
@pytest.mark.parametrize(
    ("tools", "writes", "sends"),
    [
        ((), False, False),
        (("files__read",), False, False),
        (("files__read", "mail__list_all"), False, True),
        (("files__read", "mail__send"), True, True),
        (("nobody__x",), True, True),
    ],
)
def test_it_writes_and_sends_as_the_tools_of_its_manifest_do(
    tools: tuple[str, ...], *, writes: bool, sends: bool
) -> None:
    offered = saved.offered(topology(), loaded(*tools))
    assert (offered.name, offered.server, offered.writes, offered.egress) == ("code__report", "code", writes, sends)
    assert offered.definition["annotations"] == {
        "readOnlyHint": not writes,
        "destructiveHint": writes,
        "openWorldHint": sends,
    }


def test_its_definition_is_the_operators(lock: Lock) -> None:
    definition = saved.offered(topology(), loaded("files__read", title="A report")).definition
    assert definition["title"] == "A report"
    assert str(definition["description"]).startswith("Report. ")
    assert "title" not in saved.offered(topology(), loaded()).definition
    assert lock.servers


def test_plain_names_lead_to_the_only_server_that_has_them(lock: Lock) -> None:
    plain = topology(names="plain")
    assert saved.unpinned(plain, loaded("read", "send"), lock) == ()
    assert saved.unpinned(plain, loaded("read"), accepted(lock, "mail", READ, SEND)) == ("read",)
    assert saved.offered(plain, loaded("read")).writes  # two servers: only their lists can tell
    off = msgspec.structs.replace(MAIL, enabled=False)
    one = Topology(gateway=plain.gateway, servers={"files": FILES, "mail": off})
    assert not saved.offered(one, loaded("read")).writes
    assert saved.unpinned(one, loaded("read"), lock) == ()


@given(st.text(max_size=50), st.text(max_size=50))
def test_no_two_programs_have_one_pin(one: str, other: str) -> None:
    found = [pins.pin(saved.definitions(topology(), [loaded(program=text)], Lock(servers={}))) for text in (one, other)]
    assert (found[0] == found[1]) is (one == other)
