"""review.source: SOURCE strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review import request, source

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("npm:package@1.2.3", {"kind": "npm", "name": "package", "version": "1.2.3"}),
        ("npm:@scope/package@1.2.3-rc.1", {"kind": "npm", "name": "@scope/package", "version": "1.2.3-rc.1"}),
        (f"github:owner/repository@{SHA}", {"kind": "git", "repository": "owner/repository", "ref": SHA}),
        ("dir:/some/where", {"kind": "dir", "path": "."}),
    ],
)
def test_a_source_names_one_target_and_becomes_an_accepted_request(text: str, target: dict[str, str]) -> None:
    assert source.is_source(text)
    parsed = source.parse(text)
    assert parsed.target == target
    made = request.convert(source.request(parsed, source.Wishes(entrypoint="index.js")))
    assert made.network_mode == "SINKHOLE"
    assert made.timeout_seconds == 60
    assert {str(kind) for kind in made.evidence} == {"process", "network", "filesystem", "protocol"}


def test_the_path_of_a_dir_is_kept_apart_so_that_the_operator_may_name_any_folder() -> None:
    assert source.parse("dir:../elsewhere").folder == "../elsewhere"
    assert source.parse("npm:a@1.0.0").folder is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "npm:",
        "npm:package",
        "npm:@scope/package",
        "npm:@1.0.0",
        "github:o/r",
        "github:@" + SHA,
        "dir:",
        "dir:a\x00b",
        "package@1.2.3",
        "ftp:x",
        "NPM:x@1.0.0",
        "request.json",
        "pypi:x",
        "pypi:x=1",
        "pypi:==1",
        "pypi:x==",
    ],
)
def test_what_is_no_source_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(source.SourceError) as refused:
        source.parse(text)
    assert "write" in refused.value.remedy
    assert refused.value.exit_status == 2


def test_a_package_of_the_index_becomes_a_request_of_its_adapter_as_of_a_day() -> None:
    named = source.parse("pypi:mcp-server-time==1.0")
    made = request.convert(source.request(named, source.Wishes(as_of="2026-05-31")))
    assert made.adapter == "python_stdio"
    assert made.target == request.PypiTarget(name="mcp-server-time", version="1.0", as_of="2026-05-31")


def test_the_wishes_of_the_command_line_reach_the_request() -> None:
    wishes = source.Wishes(
        entrypoint="dist/cli.js",
        argv=("{workspace}",),
        allow=("api.example.com:443",),
        timeout_seconds=30,
        question="why?",
    )
    made = request.convert(source.request(source.parse("npm:a@1.0.0"), wishes))
    assert made.network_mode == "ALLOWLIST"
    assert made.allow == ("api.example.com:443",)
    assert (made.entrypoint, made.argv, made.timeout_seconds, made.question) == (
        "dist/cli.js",
        ("{workspace}",),
        30,
        "why?",
    )


@pytest.mark.parametrize("wishes", [source.Wishes(timeout_seconds=0), source.Wishes(question="")])
def test_an_empty_wish_is_refused_and_not_taken_for_none(wishes: source.Wishes) -> None:
    with pytest.raises(request.RequestRefusedError):
        request.convert(source.request(source.parse("npm:a@1.0.0"), wishes))


@given(
    st.text(max_size=60).map(lambda text: text.replace("x", "@")),
    st.sampled_from(["npm:", "pypi:", "github:", "dir:", ""]),
)
def test_any_text_is_a_request_or_a_refusal(text: str, scheme: str) -> None:
    try:
        request.convert(source.request(source.parse(scheme + text), source.Wishes(entrypoint="a.js")))
    except (source.SourceError, request.RequestRefusedError) as error:
        assert str(error).isascii()  # noqa: PT017 - either outcome is right; the text must be inert in both
