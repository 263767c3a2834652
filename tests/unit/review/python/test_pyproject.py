"""review.python.pyproject: what sources say of their build is data, and what uv is handed of it is names alone."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.python import pyproject
from fumehood.review.states import ReviewEndedError, State

NAME = "unit_server-1.0-py3-none-any.whl"


def project(requires: str = "[]", more: str = "") -> bytes:
    return f'[build-system]\nrequires = {requires}\nbuild-backend = "hatchling.build"\n{more}'.encode()


def test_a_build_system_is_read_and_has_the_standard_s_default() -> None:
    told = pyproject.build_system(
        project('["hatchling>=1.20 ; python_version < \'4\'", "x[y]"]', 'backend-path = ["."]')
    )
    assert told.requires == ("hatchling>=1.20 ; python_version < '4'", "x[y]")
    assert (told.backend, told.in_tree) == ("hatchling.build", True)
    for nothing in (None, b"", b"[project]\nname = 'x'\n"):
        told = pyproject.build_system(nothing)
        assert told.requires == ("setuptools>=40.8.0",)
        assert (told.backend, told.in_tree) == ("setuptools.build_meta:__legacy__", False)


@pytest.mark.threat("R34")
@pytest.mark.parametrize(
    "hostile",
    [
        project('["--index-url https://x.example/"]'),
        project('["-r /etc/passwd"]'),
        project('["leaf @ file:///etc/passwd"]'),
        project('["leaf @ git+https://x.example/y"]'),
        project('["https://x.example/y.whl"]'),
        project('["./local"]'),
        project('["leaf\\n--extra-index-url=https://x.example"]'),
        project('["leaf ${HOME}"]'),
        project('["leaf # note"]'),
        project("[1]"),
        project('"leaf"'),
        project(json.dumps(["leaf"] * 65)),
        b"build-system = 1",
        b"[build-system]\nbuild-backend = 'os; x'",
        b"[build-system]\nbuild-backend = 1",
        b"\xff",
        b"= nothing",
        b"a = " + b"[" * 60_000,
    ],
)
def test_what_is_no_plain_requirement_or_no_file_of_its_kind_ends_the_review(hostile: bytes) -> None:
    with pytest.raises(ReviewEndedError) as caught:
        pyproject.build_system(hostile)
    assert (caught.value.state, caught.value.code) == (State.TARGET_FAILED, "bad_sources")


@given(st.text(max_size=80))
def test_no_requirement_that_is_let_through_is_an_option_a_path_or_a_line_of_its_own(text: str) -> None:
    quoted = json.dumps(text)
    try:
        told = pyproject.build_system(project(f"[{quoted}]"))
    except ReviewEndedError:
        return
    for one in told.requires:
        assert one[0] in string.ascii_letters + string.digits
        assert not set(one) & set("@/\\#$\n\r:")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_build_system_or_end_the_review(data: bytes) -> None:
    try:
        told = pyproject.build_system(data)
    except ReviewEndedError as error:
        told = None
        code = error.code
    assert (code == "bad_sources") if told is None else (len(told.requires) <= pyproject.REQUIRES)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b'{"said": "hash"}', "integrity_mismatch"),
        (b'{"said": "bad", "why": "a link or a device"}', "bad_sources"),
        (b'{"said": "bad", "why": "\\u001b[2J"}', "bad_sources"),
        (b'{"said": "network", "why": "status 404"}', "registry"),
        (b'{"said": "network", "why": "<b>"}', "registry"),
        (b"nothing", "registry"),
        (b"[]", "registry"),
    ],
)
def test_sources_that_were_not_unpacked_end_the_review_in_words_of_ours(said: bytes, code: str) -> None:
    with pytest.raises(ReviewEndedError) as caught:
        pyproject.demand_unpacked(said)
    assert caught.value.code == code
    assert "\x1b" not in caught.value.message
    assert "<" not in caught.value.message


def test_sources_that_were_unpacked_have_their_number_of_files() -> None:
    assert pyproject.demand_unpacked(b'{"said": "ok", "files": 3}') == 3


@pytest.mark.threat("R34")
@pytest.mark.parametrize(
    ("filename", "fits"),
    [
        (NAME, True),
        ("Unit.Server-1.0.0-cp311-cp311-linux_x86_64.whl", True),
        ("unit_server-1.0-1-py3-none-any.whl", True),
        ("unit_server-1.1-py3-none-any.whl", False),
        ("other-1.0-py3-none-any.whl", False),
        ("unit_server-1.0.tar.gz", False),
        ("unit_server-1.0-py3-none-any.whl\n--pre", False),
        ("unit_server-1.0-$(id).whl", False),
    ],
)
def test_the_wheel_of_a_build_has_the_target_s_name_and_version(filename: str, fits: bool) -> None:
    assert pyproject.is_wheel(filename, "unit-server", "1.0") is fits


@pytest.mark.parametrize("left", [[], ["x.whl"], [NAME, NAME.replace("any", "linux_x86_64")]])
def test_a_build_that_leaves_no_wheel_or_two_has_failed(left: list[str]) -> None:
    with pytest.raises(ReviewEndedError) as caught:
        pyproject.wheel(left, "unit-server", "1.0")
    assert (caught.value.state, caught.value.code) == (State.TARGET_FAILED, "build_failed")
    assert pyproject.wheel([NAME, ".gitignore"], "unit-server", "1.0") == NAME
