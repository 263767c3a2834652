"""review.export: results as others read them, with facts only, and signed where a key is given."""

import base64
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jcs
from fumehood.observe.model import Kind, Phase
from fumehood.review import result
from fumehood.review.behaviour import canonical
from fumehood.review.export import intoto, sarif, signing
from fumehood.review.result import ReviewResult
from recorded import made, rows

PUBLISHED = Path(__file__).parents[3] / "fixtures/published"
SCHEMA = json.loads((PUBLISHED / "sarif-2.1.0-rtm.5.json").read_bytes())
for _part in ("run", "toolComponent"):  # no pattern of ECMA 262: a bracket too many
    del SCHEMA["definitions"][_part]["properties"]["language"]["pattern"]
SARIF = jsonschema_rs.validator_for(SCHEMA)
TRACE = jsonschema_rs.Draft202012Validator(
    json.loads((PUBLISHED / "runtime-trace-v0.2.json").read_bytes()), validate_formats=True
)
FORBIDDEN = ("verdict", "score", "severity", "risk", "safe", "unsafe", "malicious", "benign")
INTEGRITY = "sha512-" + base64.b64encode(bytes(64)).decode()


def whole(*more: tuple[Kind, dict[str, Any]], **provenance: Any) -> ReviewResult:
    listed = [*rows("max", 5), *((kind, Phase.EXERCISE, "exercise", detail) for kind, detail in more)]
    one = made(rows=listed)
    moments = msgspec.structs.replace(
        one.execution, started_at="2026-11-30T07:45:18.940Z", ended_at="2026-11-30T07:45:29.183Z"
    )
    items = tuple(msgspec.structs.replace(row, collector="egress") for row in one.observations.items)
    found = {"name": "@scope/package", "version": "1.2.3", "integrity": INTEGRITY, **provenance}
    return msgspec.structs.replace(
        one,
        execution=moments,
        observations=result.Observations(items=items, total=len(items)),
        provenance=msgspec.structs.replace(one.provenance, **found),
    )


def stated(one: ReviewResult) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(intoto.statement(one))
    return value


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for entry in value.values() for key in keys(entry)}
    return {key for entry in value for key in keys(entry)} if isinstance(value, list) else set()


def test_a_statement_is_one_of_the_published_predicate() -> None:
    assert [error.message for error in TRACE.iter_errors(stated(whole()))] == []


@pytest.mark.parametrize("member", ["subject", "predicate", "predicateType"])
def test_the_schema_of_the_predicate_is_none_that_takes_everything(member: str) -> None:
    broken = stated(whole())
    broken[member] = {}
    assert not TRACE.is_valid(broken)


def test_a_statement_is_about_what_was_reviewed_and_canonical() -> None:
    one = whole()
    data = intoto.statement(one)
    value = json.loads(data)
    assert data == jcs.encode(value)
    assert value["subject"] == [{"name": "npm:@scope/package@1.2.3", "digest": {"sha512": "00" * 64}}]
    assert value["predicate"]["fumehood"]["behaviour"]["sha256"] == canonical.behaviour(one).sha256
    assert value["predicate"]["fumehood"]["limitations"][0] == result.FIRST_LIMITATION


@pytest.mark.parametrize(
    ("provenance", "digest"),
    [
        ({"integrity": None, "commit": "ab" * 20}, {"gitCommit": "ab" * 20}),
        ({"integrity": None, "digest": "cd" * 32}, {"sha256": "cd" * 32}),
        ({"integrity": "md5-AAAA sha256-!! sha384-AAAA"}, {"sha384": "000000"}),
    ],
)
def test_the_digest_of_a_subject_is_named_as_in_toto_names_it(
    provenance: dict[str, Any], digest: dict[str, str]
) -> None:
    assert stated(whole(**provenance))["subject"][0]["digest"] == digest


def test_a_result_without_a_digest_of_its_target_is_no_statement() -> None:
    with pytest.raises(intoto.NoSubjectError):
        intoto.statement(whole(integrity=None))


def test_processes_hosts_and_files_stand_where_the_predicate_has_them() -> None:
    log = stated(whole())["predicate"]["monitorLog"]
    assert {one["processBinary"] for one in log["process"] if "processBinary" in one} == {
        "/opt/node/bin/node",
        "/bin/sh",
    }
    hosts = [(one.get("hostname"), one.get("ip"), one.get("port"), one["protocol"]) for one in log["network"]]
    assert ("mail.example", "x", 443, "tcp") in hosts
    assert (None, "192.0.2.1", 53, "udp") in hosts
    assert not any(str(ip).startswith("198.18.") for _, ip, _, _ in hosts)
    assert {one["annotations"]["act"] for one in log["fileAccess"]} == {"created", "changed", "read"}


@given(st.text(max_size=40), st.integers(), st.floats())
def test_whatever_stands_in_a_result_both_formats_are_what_they_should_be(word: str, number: int, real: float) -> None:
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: no document that is read has one
        return
    number = min(max(number, -(2**63)), 2**63 - 1)
    detail = {"path": word, "name": word, "program": word, "argv": [word], "port": number, "address": word, "x": real}
    one = whole(*((kind, detail) for kind in Kind))
    data = intoto.statement(one)
    assert [error.message for error in TRACE.iter_errors(json.loads(data))] == []
    assert data.decode().isprintable() or "\\u" in data.decode() or not word.isprintable()
    log = json.loads(json.dumps(sarif.log(one)).replace("NaN", "0").replace("-Infinity", "0").replace("Infinity", "0"))
    assert [error.message for error in SARIF.iter_errors(log)] == []


def test_a_log_is_one_of_sarif() -> None:
    log = json.loads(json.dumps(sarif.log(whole())))
    assert [error.message for error in SARIF.iter_errors(log)] == []
    assert not SARIF.is_valid({**log, "runs": [{}]})


def test_each_result_of_a_log_is_informational_and_judges_nothing() -> None:
    log = sarif.log(whole())
    results = log["runs"][0]["results"]
    assert {(one["kind"], one["level"]) for one in results} == {("informational", "none")}
    assert {one["ruleId"] for one in results} == {row.type.value for row in whole().observations.items}
    assert [word for word in FORBIDDEN if word in keys(log) | keys(stated(whole()))] == []
    words = " ".join(sarif.RULES.values()).lower().split()
    assert [word for word in FORBIDDEN if word in words] == []


def test_every_type_of_observation_is_a_rule() -> None:
    assert set(sarif.RULES) == set(Kind)
    rules = sarif.log(whole())["runs"][0]["tool"]["driver"]["rules"]
    for one in sarif.log(whole())["runs"][0]["results"]:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]


def test_a_text_of_the_targets_is_no_placeholder_and_no_link_of_a_message() -> None:
    log = sarif.log(whole((Kind.FILE_CREATED, {"path": "/a{0}[b](http://x.example)"})))
    texts = [one["message"]["text"] for one in log["runs"][0]["results"]]
    assert any(r"/a{{0}}\[b\](" in text for text in texts)


def pem(key: Any, password: bytes | None = None) -> bytes:
    encryption: Any = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password)
    data: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return data


def test_an_envelope_holds_the_statement_and_a_signature_over_its_encoding() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    statement = intoto.statement(whole())
    value = json.loads(intoto.envelope(statement, *signing.sign(intoto.pae(statement), pem(key))))
    assert value["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(value["payload"], validate=True)
    assert payload == statement
    signature = base64.b64decode(value["signatures"][0]["sig"], validate=True)
    head = b"DSSEv1 28 application/vnd.in-toto+json %d " % len(payload)
    key.public_key().verify(signature, head + payload)
    with pytest.raises(InvalidSignature):
        key.public_key().verify(signature, head + payload + b" ")


def test_the_encoding_is_that_of_the_example_of_dsse() -> None:
    assert intoto.pae(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_another_key_an_encrypted_one_and_no_key_are_refused_without_a_word_of_it() -> None:
    wrong = [pem(ec.generate_private_key(ec.SECP256R1())), pem(ed25519.Ed25519PrivateKey.generate(), b"x"), b"no key"]
    for data in wrong:
        with pytest.raises(signing.SigningKeyError) as refused:
            signing.sign(b"m", data)
        assert data.decode() not in str(refused.value)
