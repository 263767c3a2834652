"""review.behaviour.canonical and review.behaviour.facts: one digest of what was recorded, whatever the run drew."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.model import Kind, Phase
from fumehood.review import request, result, source
from fumehood.review.behaviour import canonical, facts
from fumehood.review.behaviour.noise import Noise
from fumehood.review.states import State
from recorded import BODY, made, rows


def sha256(one: result.ReviewResult) -> str:
    return canonical.behaviour(one).sha256


BASE = sha256(made())


@given(st.sampled_from(["anna", "will", "sam"]), st.integers(2, 10**5), st.integers(0, 99))
def test_neither_order_nor_times_nor_names_nor_numbers_of_a_run_change_the_digest(
    user: str, salt: int, order: int
) -> None:
    assert sha256(made(user, salt, order=order)) == BASE


def test_how_often_a_thing_was_seen_is_not_told() -> None:
    assert sha256(made(rows=rows("max", 5) * 2)) == BASE


@pytest.mark.parametrize(
    ("kind", "detail"),
    [
        (Kind.NETWORK_DNS, {"name": "other.example", "query_type": 1}),
        (Kind.NETWORK_CONNECT, {"name": "mail.example", "port": 444, "decision": "relayed"}),
        (Kind.NETWORK_CONNECT, {"name": "mail.example", "port": 443, "decision": "refused"}),
        (Kind.NETWORK_HTTP, {"name": "mail.example", "port": 80, "method": "POST", "target": "/other", "body": BODY}),
        (Kind.PROCESS_EXEC, {"process": 1, "program": "/bin/sh", "argv": ["sh", "-c", "id"]}),
        (Kind.PROCESS_REFUSED, {"process": 1, "call": "ptrace", "error": "EPERM"}),
        (Kind.FILE_CREATED, {"path": "/home/max/.bashrc", "kind": "file", "mode": "0644"}),
        (Kind.FILE_CREATED, {"path": "/home/max/.x", "kind": "file", "mode": "0600"}),
        (Kind.FILE_CHANGED, {"path": "/home/max/max-app/a.js", "kind": "file", "mode": "0644", "sha256": "c" * 64}),
        (Kind.FILE_READ, {"process": 1, "path": "/home/max/.netrc", "how": "read", "outcome": "ENOENT"}),
        (Kind.PROTOCOL_FACT, {"fact": "definition", "what": "tool", "name": "post", "sha256": "c" * 64}),
        (Kind.PROTOCOL_FRAME, {"direction": "received", "kind": "request", "method": "sampling/createMessage"}),
        (Kind.PROTOCOL_NOISE, {"lines": 3}),
        (Kind.CANARY_SENT, {"canary": "npm", "encoding": "plain", "where": "body", "name": "mail.example"}),
    ],
)
def test_one_more_fact_changes_the_digest(kind: Kind, detail: dict[str, Any]) -> None:
    more = [*rows("max", 5), (kind, Phase.EXERCISE, "exercise/tools/call:5", detail)]
    assert sha256(made(rows=more)) != BASE


@pytest.mark.parametrize("kind", [Kind.OUTPUT_TEXT, Kind.PROCESS_EXIT])
def test_what_is_not_compared_does_not(kind: Kind) -> None:
    more = [*rows("max", 5), (kind, Phase.EXERCISE, "exercise", {"text": "another", "status": 9})]
    assert sha256(made(rows=more)) == BASE


@pytest.mark.parametrize(
    "changes",
    [
        {"collectors": ()},
        {"errors": (result.ErrorRecord(code="exited", message="m"),)},
        {"execution": result.Execution(status=State.TIMEOUT, started_at="", ended_at="")},
        {"request": request.convert({**source.request(source.parse("npm:package@1.2.3")), "network_mode": "OPEN"})},
    ],
)
def test_another_end_sensor_or_condition_changes_the_digest(changes: dict[str, Any]) -> None:
    assert sha256(made(**changes)) != BASE


def test_a_list_that_overflowed_says_so() -> None:
    lost = (result.Lost(phase=Phase.EXERCISE, type=Kind.FILE_READ, count=7),)
    overflowed = made(observations=result.Observations(lost=lost))
    assert canonical.form(overflowed)["incomplete"] == [{"phase": "EXERCISE", "type": "filesystem.read"}]


def test_the_registry_of_the_operators_is_no_behaviour_of_the_target_while_it_is_fetched() -> None:
    def fetching(salt: int, phase: Phase) -> str:
        detail = {"name": f"r{salt}.example", "port": 443, "decision": "relayed"}
        return sha256(made(salt=salt, rows=[(Kind.NETWORK_CONNECT, phase, "fetch", detail)]))

    assert fetching(1, Phase.FETCH) == fetching(2, Phase.FETCH)
    assert fetching(1, Phase.EXERCISE) != fetching(2, Phase.EXERCISE)


def test_the_order_of_a_form_is_that_of_its_values() -> None:
    made_form = canonical.form(made())
    assert made_form["version"] == canonical.VERSION == "behaviour/1"
    hosts = made_form["hosts"]
    assert isinstance(hosts, list)
    assert {"type": "network.connect", "phase": "EXERCISE", "step": "exercise", "host": "mail.example", "port": 443,
            "decision": "relayed"} in hosts  # fmt: skip
    assert {"host": "mail.example", "program": "/opt/node/bin/node"}.items() <= next(
        h for h in hosts if isinstance(h, dict) and "program" in h and h["host"] == "mail.example"
    ).items()


def test_every_type_of_observation_has_its_place() -> None:
    assert set(facts.SECTIONS) == set(Kind)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (BODY, ("deep.list[].x: null", "deep.list[]: number", "flag: truth", "to: text")),
        ("a=1&b=", ("a: text", "b: text")),
        ("[]", ()),
        ("7", ("$: number",)),
        ("hello there", ()),
        ("[" * 100_000, ()),
        ("a=b\nc", ()),
    ],
)
def test_the_fields_of_a_body_are_named_not_their_values(body: str, named: tuple[str, ...]) -> None:
    assert facts.fields(body) == named


@given(st.text(max_size=200))
def test_any_body_has_bounded_fields(body: str) -> None:
    assert len(facts.fields(body)) <= 64


@pytest.mark.parametrize("headers", [{"Host": "x", "X-A": "1"}, [["Host", "x"], ["x-a", "2"]], ["host: y", "X-A: 3"],
                                     [{"name": "host"}, {"name": "x-a"}, {"value": 3}, 7]])  # fmt: skip
def test_the_fields_of_a_request_are_named_in_any_form(headers: Any) -> None:
    detail = {"name": "mail.example", "headers": headers, "body_bytes": 4}
    listed = canonical.form(made(rows=[(Kind.NETWORK_HTTP, Phase.EXERCISE, "exercise", detail)]))["requests"]
    assert isinstance(listed, list)
    assert isinstance(listed[0], dict)
    assert (listed[0]["headers"], listed[0]["body"]) == (["host", "x-a"], ["<bytes>"])


def test_a_number_that_not_every_reader_holds_is_text_wherever_it_stands() -> None:
    detail = {"path": "/a.js", "sha256": 2**60, "mode": 2.5, "port": 2**60, "members": {"x": 0.5}, "fact": "definition"}
    one = made(rows=[(kind, Phase.EXERCISE, "exercise", detail) for kind in Kind])
    assert len(sha256(one)) == 64
    assert facts.clean([True, {"sha256": "1234567"}, "1234567"], Noise()) == [True, {"sha256": "1234567"}, "<number>"]


def test_the_digest_of_a_result_that_was_written_and_read_is_the_same() -> None:
    one = msgspec.structs.replace(made(), behaviour=canonical.behaviour(made()))
    again = msgspec.json.decode(result.encode(one), type=result.ReviewResult)
    assert again.behaviour == canonical.behaviour(again)
