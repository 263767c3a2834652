from typing import TYPE_CHECKING

import pytest

from fumehood.sandbox.egress import Mode, Policy, Rule

if TYPE_CHECKING:
    from escape.egress.conftest import Hood

pytestmark = [pytest.mark.sandbox]
ALLOW = Policy(mode=Mode.ALLOWLIST, rules=(Rule(host="public.example", port=80),))
OPEN = Policy(mode=Mode.OPEN)


def test_a_listed_host_is_reached_by_its_name(hood: "Hood") -> None:
    done = hood.run(ALLOW, "say(got=get('public.example', 80))")
    assert done.said == {"got": "outer:GET / HTTP/1.1"}
    assert hood.outer.dialled == [("93.184.216.34", 80)]
    (record,) = done.records("tcp", decision="relayed")
    assert (record.name, record.port, record.peer) == ("public.example", 80, "93.184.216.34")
    assert (record.hello, record.server_name, record.request_line) == ("http", "public.example", "GET / HTTP/1.1")
    assert (record.end, record.down_bytes) == ("closed", len("outer:GET / HTTP/1.1"))
    assert done.records("dns", name="public.example", decision="answered", why="listed")
    assert done.notes == ()
