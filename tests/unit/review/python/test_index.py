"""review.python.index: what the index is said to have answered is bounded, checked, and never believed further."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.python import index
from fumehood.review.states import ReviewEndedError, State

WHEEL = "my_server-1.0-py3-none-any.whl"


def file(**changes: Any) -> dict[str, Any]:
    return {"filename": WHEEL, "origin": ["https", "files.example", 443], "sha256": "a" * 64, **changes}


def page(*files: dict[str, Any], api: str = "1.3", **changes: Any) -> index.Page:
    return index.parse(json.dumps({"status": 200, "api": api, "files": files, "more": 0, **changes}).encode())


def test_a_page_has_the_files_of_the_version_and_where_they_are() -> None:
    said = page(file(), file(filename="my_server-1.0.tar.gz", origin=["https", "sources.example", 443]))
    assert said.hosts == (("files.example", 443),)
    assert said.wheel(WHEEL) is not None
    assert said.wheel("my_server-1.0.tar.gz") is None


@pytest.mark.threat("R30")
@pytest.mark.parametrize(
    "origin",
    [
        ["http", "files.example", 80],
        ["file", "", 443],
        ["https", "files.example\n", 443],
        ["https", "files.example/..", 443],
        ["https", "files.example", 0],
        ["https", "a@b", 443],
        ["https", "x" * 300, 443],
    ],
)
def test_only_a_host_with_https_and_a_plain_name_is_opened_for_its_files(origin: list[Any]) -> None:
    assert page(file(origin=origin)).hosts == ()


@pytest.mark.threat("R30")
def test_a_page_opens_no_more_hosts_than_a_few() -> None:
    many = [file(filename=f"x-{n}-py3-none-any.whl", origin=["https", f"h{n}.example", 443]) for n in range(50)]
    assert len(page(*many).hosts) == index.HOSTS


@pytest.mark.parametrize(
    ("answer", "state", "code"),
    [
        (b'{"status": 404}', State.TARGET_FAILED, "unknown_package"),
        (b'{"status": 410}', State.TARGET_FAILED, "unknown_package"),
        (b'{"status": 503}', State.HARNESS_ERROR, "registry"),
        (b'{"status": 0, "why": "timeout"}', State.HARNESS_ERROR, "registry"),
        (b'{"status": 0, "why": "<b>\\u001b[31m"}', State.HARNESS_ERROR, "registry"),
        (b"", State.HARNESS_ERROR, "registry"),
        (b"[]", State.HARNESS_ERROR, "registry"),
        (b'{"status": 200, "files": [{"filename": 1}]}', State.HARNESS_ERROR, "registry"),
    ],
)
def test_an_index_that_answers_otherwise_ends_the_review(answer: bytes, state: State, code: str) -> None:
    with pytest.raises(ReviewEndedError) as ended:
        index.parse(answer)
    assert (ended.value.state, ended.value.code) == (state, code)
    assert "\x1b" not in ended.value.message


def test_an_attestation_is_present_absent_or_not_known() -> None:
    present = page(file(attested=True, predicate_types=["https://docs.example/publish/v1", "bad type", "x" * 201]))
    said = index.attestation(present, present.wheel(WHEEL))
    assert (said.state, said.predicate_types) == ("present", ("https://docs.example/publish/v1",))
    assert "not verified" in said.why
    absent = page(file())
    assert index.attestation(absent, absent.wheel(WHEEL)).state == "absent"


@pytest.mark.parametrize("api", ["1.0", "1.2", "html", "2.0", ""])
def test_an_index_that_could_not_say_it_leaves_the_attestation_unknown(api: str) -> None:
    said = page(file(), api=api)
    assert index.attestation(said, said.wheel(WHEEL)).state == "unknown"
    assert index.attestation(said, None).state == "unknown"


def test_what_has_not_the_form_that_it_must_have_is_left_out() -> None:
    said = page(file(sha256="A" * 64, uploaded="yesterday"), file(filename="../x.whl"), file(filename="a\nb.whl"))
    assert [f.filename for f in said.files] == [WHEEL]
    assert (said.files[0].sha256, said.files[0].uploaded) == (None, None)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_page_or_end_the_review(data: bytes) -> None:
    with pytest.raises(ReviewEndedError):
        index.parse(b"{" + data)


def test_sources_are_found_with_their_place_and_their_host_is_opened_for_a_build_alone() -> None:
    made = {"filename": "my_server-1.0.tar.gz", "origin": ["https", "sources.example", 443]}
    said = page(file(), file(**made, url="https://sources.example/x.tar.gz"))
    assert said.sources is not None
    assert said.sources.url == "https://sources.example/x.tar.gz"
    assert dataclasses.replace(said, builds=True).hosts == (("sources.example", 443),)
    odd = page(file(**made, url="file:///etc/passwd")).sources
    assert odd is not None
    assert odd.url == ""
    assert page(file()).sources is None
