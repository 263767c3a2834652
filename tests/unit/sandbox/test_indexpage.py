"""sandbox.programs.indexpage: an index is asked once, and what it says is handed on in few words."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.programs import indexpage
from loopback.index import LoopbackIndex
from loopback.server import Response
from loopback.wheels import Wheel


def said(
    capsys: pytest.CaptureFixture[str], index: str, name: str = "unit-server", version: str = "1.0"
) -> dict[str, Any]:
    indexpage.main(f"{index}/simple/", name, version)
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


@pytest.mark.parametrize("html_only", [False, True])
def test_the_files_of_one_version_are_told_whatever_the_index_answers_with(
    capsys: pytest.CaptureFixture[str], *, html_only: bool
) -> None:
    with LoopbackIndex(html_only=html_only) as index:
        index.publish(Wheel(name="unit-server"))
        index.publish(Wheel(name="unit-server", version="2.0"))
        index.publish_sources("unit-server", "1.0")
        told = said(capsys, index.url)
        assert told["api"] == ("html" if html_only else "1.3")
        names = {"unit_server-1.0-py3-none-any.whl", "unit_server-1.0.tar.gz"}
        assert {file["filename"] for file in told["files"]} == names
        assert all(file["origin"] == ["http", "127.0.0.1", index.port] for file in told["files"])
        assert all(len(file["sha256"]) == 64 and not file["attested"] for file in told["files"])


def test_a_project_that_is_not_there_and_an_index_that_does_not_answer_are_told_apart(
    capsys: pytest.CaptureFixture[str], refused_url: str
) -> None:
    with LoopbackIndex() as index:
        assert said(capsys, index.url) == {"status": 404}
        index.publish(Wheel(name="unit-server"))
        index.status = 500
        assert said(capsys, index.url) == {"status": 500}
    assert said(capsys, refused_url.rstrip("/"))["status"] == 0


@pytest.mark.threat("R30")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"files": 1}',
        b'{"files": [1, {"filename": 2}]}',
        b'{"meta": [], "files": []}',
        b"[" * 100_000,
    ],
)
def test_a_page_of_another_form_is_told_and_nothing_is_raised(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    with LoopbackIndex() as index:
        answer = Response(headers=(("Content-Type", "application/json"),), body=body)
        monkeypatch.setattr(index._http, "answer", lambda _: answer)
        told = said(capsys, index.url)
    assert told["status"] == 0 or told["files"] == []


@pytest.mark.threat("R30")
def test_a_page_larger_than_its_bound_is_not_read_further(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexpage, "PAGE_BYTES", 100)
    with LoopbackIndex() as index:
        index.publish(Wheel(name="unit-server"))
        assert said(capsys, index.url) == {"status": 0, "why": "ValueError"}


def attestation(kind: object) -> dict[str, Any]:
    statement = base64.b64encode(json.dumps({"predicateType": kind}).encode()).decode()
    return {"attestation_bundles": [{"attestations": [{"envelope": {"statement": statement}}]}]}


@pytest.mark.parametrize(
    ("provenance", "types"),
    [
        (attestation("https://docs.example/publish/v1"), ["https://docs.example/publish/v1"]),
        ({"attestation_bundles": []}, []),
        ({"attestation_bundles": [{"attestations": [{"envelope": {"statement": "!"}}]}]}, []),
        ([], []),
    ],
)
def test_the_types_of_an_attestation_are_read_where_the_index_has_it(
    capsys: pytest.CaptureFixture[str], provenance: Any, types: list[str]
) -> None:
    with LoopbackIndex() as index:
        index.provenance = provenance
        index.publish(Wheel(name="unit-server"), provenance="../../provenance/x")
        file = said(capsys, index.url)["files"][0]
    assert (file["attested"], file["predicate_types"]) == (True, types)


@pytest.mark.threat("R30")
def test_an_attestation_of_another_host_is_not_asked_for(capsys: pytest.CaptureFixture[str], refused_url: str) -> None:
    with LoopbackIndex() as index:
        index.publish(Wheel(name="unit-server"), provenance=f"{refused_url}/x")
        file = said(capsys, index.url)["files"][0]
    assert (file["attested"], file["predicate_types"]) == (True, [])


@pytest.mark.parametrize(
    ("filename", "version"),
    [
        ("unit_server-1.0-py3-none-any.whl", "1.0"),
        ("Unit.Server-1.0.tar.gz", "1.0"),
        ("unit-server-1.0.zip", "1.0"),
        ("other-1.0.tar.gz", None),
        ("unit_server-1.0.exe", None),
        ("unit_server.whl", None),
        ("unit-server.zip", None),
    ],
)
def test_a_version_is_read_from_the_name_of_a_file(filename: str, version: str | None) -> None:
    assert indexpage.version_of(filename, "unit-server") == version


@pytest.mark.parametrize(("one", "other"), [("1.0", "1.0.0"), ("v1.0", "1"), ("1.0rc1", "1.0.0rc1"), ("1!2.0", "1!2")])
def test_a_version_is_one_however_many_zeros_it_ends_with(one: str, other: str) -> None:
    assert indexpage.release(one) == indexpage.release(other)
    assert indexpage.release(one) != indexpage.release("1.1")


@given(st.text(max_size=60), st.text(max_size=30))
def test_any_name_is_of_a_version_or_of_none(filename: str, name: str) -> None:
    assert isinstance(indexpage._is_of(filename, name, "1.0"), bool)
