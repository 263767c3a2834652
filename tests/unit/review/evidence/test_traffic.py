import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.review.evidence import traffic
from fumehood.review.show import show as control
from fumehood.sandbox.egress import EgressRecord, EgressReport, EgressRequest, Mode


def show(data: bytes) -> str:
    return ascii(data.decode("latin-1"))[1:-1]


def observed(*records: EgressRecord) -> list[tuple[str, dict[str, object]]]:
    report = EgressReport(records=records)
    seen = list(traffic.observations(report, Phase.EXERCISE, "exercise", show))
    assert {o.collector for o in seen} <= {"egress"}
    return [(o.kind.value, dict(o.detail)) for o in seen]


def test_a_relayed_connection_says_where_it_went_and_how_much() -> None:
    (connect, greeting) = observed(
        EgressRecord(
            kind="tcp",
            at_seconds=0.1,
            name="mail.example",
            address="198.18.1.0",
            port=443,
            decision="relayed",
            peer="127.0.0.1",
            hello="tls",
            server_name="mail.example",
            up_bytes=10,
            down_bytes=20,
        )
    )
    assert connect[0] == Kind.NETWORK_CONNECT
    assert (connect[1]["decision"], connect[1]["up_bytes"], connect[1]["down_bytes"]) == ("relayed", 10, 20)
    assert greeting == (
        Kind.NETWORK_TLS,
        {"at_seconds": 0.1, "name": "mail.example", "port": 443, "decision": "relayed"},
    )


def test_a_refused_request_keeps_its_first_line() -> None:
    seen = observed(
        EgressRecord(
            kind="tcp",
            at_seconds=0,
            name="a.example",
            port=80,
            decision="refused",
            why="not_listed",
            hello="http",
            server_name="a.example",
            request_line="POST /steal HTTP/1.1",
        )
    )
    assert seen[1][0] == Kind.NETWORK_HTTP
    assert seen[1][1]["request"] == "POST /steal HTTP/1.1"


def test_questions_and_stray_packets_have_their_own_types() -> None:
    seen = observed(
        EgressRecord(kind="dns", at_seconds=0, name="x.example", query_type=1, response_code=3),
        EgressRecord(kind="packet", at_seconds=0, address="10.0.0.1", port=9, protocol="udp", first=b"\x1b[2J"),
    )
    assert [kind for kind, _ in seen] == [Kind.NETWORK_DNS, Kind.NETWORK_OTHER]
    assert "\x1b" not in str(seen[1][1]["first"])


@given(st.text(), st.binary(max_size=64))
def test_whatever_the_target_chose_is_shown_inert(name: str, first: bytes) -> None:
    record = EgressRecord(
        kind="tcp", at_seconds=0, name=name, hello="http", server_name=name, request_line=name, why=name, first=first
    )
    for _, detail in observed(record):
        for value in detail.values():
            assert not isinstance(value, str) or value.isascii()


def test_names_that_were_refused_are_listed_once() -> None:
    refused = EgressRecord(kind="tcp", at_seconds=0, name="b.example", decision="refused")
    kept = EgressRecord(kind="tcp", at_seconds=0, name="c.example", decision="relayed")
    assert traffic.refused_names(EgressReport(records=(refused, kept, refused))) == ("b.example",)


def test_an_engine_that_lacks_a_part_is_degraded_and_says_why() -> None:
    whole = traffic.collector(EgressReport(), Phase.FETCH, Mode.ALLOWLIST)
    part = traffic.collector(EgressReport(notes=("nft: missing",), lost={"tcp refused": 3}), Phase.FETCH, Mode.OPEN)
    assert (whole.state, whole.lost) == (CollectorState.ACTIVE, 0)
    assert (part.state, part.lost, part.why) == (CollectorState.DEGRADED, 3, "nft: missing")
    assert whole.limitations
    assert not traffic.collector(EgressReport(), Phase.FETCH, Mode.NONE).limitations


def test_each_row_has_its_moment_on_the_wall_clock_where_the_engine_knows_when_it_began() -> None:
    record = EgressRecord(
        kind="tcp",
        at_seconds=1.0,
        hello="tls",
        requests=(EgressRequest(method="GET", target="/", at_seconds=2.5),),
    )
    for started_at, moments in ((100.0, [101.0, 101.0, 102.5]), (None, [None] * 3)):
        report = EgressReport(records=(record,), started_at=started_at)
        rows = traffic.observations(report, Phase.EXERCISE, "exercise", show)
        assert [row.moment for row in rows] == moments


def test_each_request_is_an_observation_with_its_body() -> None:
    request = EgressRequest(
        method="POST",
        target="/collect",
        host="a.example",
        headers=((b"user-agent", b"node"), (b"x-odd", b"\x1b[2J")),
        headers_lost=2,
        body=b"a=1\x1b",
        body_bytes=5000,
        body_sha256="ab" * 32,
        complete=False,
        note="ended",
        at_seconds=1.23456,
    )
    plain = EgressRequest(method="GET", target="/")
    record = EgressRecord(
        kind="tcp",
        at_seconds=1,
        name="a.example",
        port=80,
        decision="answered",
        hello="http",
        requests=(request, plain),
    )
    connect, first, second = observed(record)
    assert connect[1]["decision"] == "answered"
    assert first == (
        Kind.NETWORK_HTTP,
        {
            "at_seconds": 1.235,
            "name": "a.example",
            "port": 80,
            "decision": "answered",
            "request": "POST /collect",
            "method": "POST",
            "target": "/collect",
            "host": "a.example",
            "headers": ["user-agent: node", "x-odd: \\x1b[2J"],
            "headers_lost": 2,
            "body": "a=1\\x1b",
            "body_bytes": 5000,
            "body_sha256": "ab" * 32,
            "complete": False,
            "note": "ended",
        },
    )
    assert {"name": "a.example", "body_bytes": 0, "complete": True}.items() <= second[1].items()
    assert not {"host", "body", "note", "headers_lost"} & second[1].keys()


@pytest.mark.threat("R17")
def test_no_credential_of_a_request_stands_in_a_result() -> None:
    secret = "hunter2-" + "x7" * 8
    headers = tuple(
        (name, b"token " + secret.encode())
        for name in (b"authorization", b"proxy-authorization", b"cookie", b"set-cookie", b"x-api-key")
    )
    request = EgressRequest(method="GET", target="/", headers=headers, body=f"password={secret}".encode())
    report = EgressReport(records=(EgressRecord(kind="tcp", at_seconds=0, hello="http", requests=(request,)),))
    (_, row) = traffic.observations(report, Phase.EXERCISE, "exercise", control)
    assert secret not in str(row.detail)
    assert "cookie: [redacted:header] 30 bytes" in str(row.detail)


def test_the_first_bytes_of_an_unknown_protocol_are_shown_and_those_of_tls_are_not() -> None:
    ((_, other),) = observed(EgressRecord(kind="tcp", at_seconds=0, hello="other", first=b"SSH-2.0"))
    ((_, tls), _) = observed(EgressRecord(kind="tcp", at_seconds=0, hello="tls", first=b"\x16\3\1"))
    assert other["first"] == "SSH-2.0"
    assert "first" not in tls


def test_a_sinkhole_says_what_it_cannot_show() -> None:
    sinkhole = traffic.collector(EgressReport(), Phase.EXERCISE, Mode.SINKHOLE).limitations
    assert set(sinkhole) > set(traffic.LIMITATIONS)


def test_a_step_that_failed_on_an_answer_of_ours_says_who_was_asked() -> None:
    answered = [
        EgressRecord(kind="tcp", at_seconds=0, name=f"h{n}.example", decision="answered") for n in (1, 1, 2, 3, 4, 5, 6)
    ]
    said = traffic.starved(EgressReport(records=tuple(answered)), "install")
    assert said.startswith("install failed after h1.example, h2.example, h3.example, h4.example, h5.example and 1 more")
    assert (
        traffic.starved(EgressReport(records=(EgressRecord(kind="tcp", at_seconds=0, decision="answered"),)), "x") == ""
    )
