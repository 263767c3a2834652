"""review.request and review.rules: each rule of a request, met and broken."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import jsonio, limits
from fumehood.core.addresses import Endpoint
from fumehood.core.errors import RefusedError
from fumehood.review import request, rules
from fumehood.review.request import RequestRefusedError
from fumehood.sandbox.egress import Mode

SHA = "0123456789abcdef0123456789abcdef01234567"
MISSING = object()


def version1(**changes: Any) -> dict[str, Any]:
    return _with(
        {
            "schema_version": 1,
            "target": {"kind": "git", "repository": "owner/repository", "ref": SHA},
            "adapter": "node_stdio",
            "action_profile": "mcp_initialize",
            "network_mode": "OPEN",
            "credentials": "NONE",
            "question": "what does it do on start?",
            "entrypoint": "dist/index.js",
            "evidence": ["process", "network", "filesystem", "protocol"],
            "timeout_seconds": 120,
        },
        changes,
    )


def version2(**changes: Any) -> dict[str, Any]:
    base = version1(schema_version=2, network_mode="NONE", target={"kind": "npm", "name": "@s/p", "version": "1.2.3"})
    return _with(base, changes)


def _with(value: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in {**value, **changes}.items() if entry is not MISSING}


def git(**changes: Any) -> dict[str, Any]:
    return _with({"kind": "git", "repository": "owner/repository", "ref": SHA}, changes)


def npm(**changes: Any) -> dict[str, Any]:
    return _with({"kind": "npm", "name": "package", "version": "1.2.3"}, changes)


def pypi(**changes: Any) -> dict[str, Any]:
    return {"kind": "pypi", "name": "x", "version": "1.0", **changes}


def refused(value: Any) -> dict[str, str]:
    """Path → rule and remedy of everything that is refused."""
    with pytest.raises(RequestRefusedError) as error:
        request.parse(json.dumps(value).encode())
    return {refusal.path: f"{refusal.rule} ({refusal.remedy})" for refusal in error.value.refusals}


# --- version 1, as the requirements have it


def test_the_example_of_version_1_is_accepted_and_means_what_it_says() -> None:
    made = request.parse(
        json.dumps(version1(prepare_profile="NONE", argv=[], stop_conditions=["output_capture_limit"])).encode()
    )
    assert isinstance(made, request.RequestVersion1)
    assert made.schema_version == 1
    assert made.target == request.GitTarget(repository="owner/repository", ref=SHA)
    assert made.network_mode == "OPEN"
    assert made.entrypoint == "dist/index.js"
    assert made.stop_conditions == ("output_capture_limit",)
    assert (made.allow, made.linger_seconds, made.protocol_era) == ((), limits.LINGER_SECONDS_DEFAULT, "legacy")


def test_three_fields_of_version_1_may_be_left_out() -> None:
    made = request.convert(version1())
    assert made.prepare_profile == "NONE"
    assert made.argv == ()
    assert made.stop_conditions == ()


REQUIRED = sorted(set(version1()) - {"schema_version"})


@pytest.mark.parametrize("name", REQUIRED)
def test_every_other_field_is_required(name: str) -> None:
    told = refused(version1(**{name: MISSING}))
    assert list(told) == [name]
    assert told[name].startswith("is required (add it: ")


ACCEPTED_1: list[tuple[str, Any]] = [
    ("target", git(ref=SHA.upper())),
    ("target", git(repository="a/b.c-d_e")),
    ("target", git(repository="Owner-1/.github")),
    ("prepare_profile", "npm_build"),
    ("question", "x"),
    ("question", "x" * 1000),
    ("question", "日" * 1000),
    ("entrypoint", "./index.js"),
    ("entrypoint", "a/..b/...c/.d.js"),
    ("entrypoint", "x" * 500),
    ("entrypoint", "with space/and\\backslash.js"),
    ("argv", ["--flag", "", "x" * 1000, "line\nend"]),
    ("argv", ["x"] * 32),
    ("evidence", ["protocol"]),
    ("timeout_seconds", 5),
    ("timeout_seconds", 120),
    ("stop_conditions", []),
]


@pytest.mark.parametrize(("name", "value"), ACCEPTED_1)
def test_what_version_1_allows_is_accepted(name: str, value: Any) -> None:
    assert isinstance(request.convert(version1(**{name: value})), request.RequestVersion1)


REFUSED_1: list[tuple[str, Any, str, str]] = [
    ("schema_version", 3, "schema_version", "not a version"),
    ("schema_version", "1", "schema_version", "not a version"),
    ("schema_version", True, "schema_version", "not a version"),
    ("schema_version", MISSING, "schema_version", "is required"),
    ("target", "owner/repository", "target", "must be an object"),
    ("target", git(kind=MISSING), "target.kind", "is required"),
    ("target", npm(), "target.kind", 'write "schema_version": 2'),
    ("target", {"kind": "svn"}, "target.kind", "version 1 does not know"),
    ("target", git(ref=SHA[:-1]), "target.ref", "40 hex digits"),
    ("target", git(ref=SHA + "0"), "target.ref", "40 hex digits"),
    ("target", git(ref=SHA + "\n"), "target.ref", "40 hex digits"),
    ("target", git(ref="main"), "target.ref", "40 hex digits"),
    ("target", git(ref="g" * 40), "target.ref", "40 hex digits"),
    ("target", git(ref=MISSING), "target.ref", "is required"),
    ("target", git(repository="owner"), "target.repository", "form"),
    ("target", git(repository="owner/a/b"), "target.repository", "form"),
    ("target", git(repository="owner/.."), "target.repository", "form"),
    ("target", git(repository="owner/."), "target.repository", "form"),
    ("target", git(repository="-owner/x"), "target.repository", "form"),
    ("target", git(repository="../x"), "target.repository", "form"),
    ("target", git(repository="https://forge.example/owner/x"), "target.repository", "form"),
    ("target", git(repository="owner/x?y"), "target.repository", "form"),
    ("target", git(repository="owner/repository\n"), "target.repository", "form"),
    ("target", git(branch="main"), "target.branch", "is no field"),
    ("target", git(command="id"), "target.command", "carries no commands"),
    ("adapter", "python_stdio", "adapter", "version 1 does not know"),
    ("adapter", "node_http", "adapter", "use node_stdio"),
    ("action_profile", "mcp_list", "action_profile", "use mcp_initialize"),
    ("prepare_profile", "make", "prepare_profile", "use NONE or npm_build"),
    ("prepare_profile", "npm run build", "prepare_profile", "use NONE or npm_build"),
    ("prepare_profile", None, "prepare_profile", "version 1 does not know"),
    ("prepare_profile", "python_build", "prepare_profile", "version 1 does not know"),
    ("network_mode", "NONE", "network_mode", "use OPEN"),
    ("network_mode", "SINKHOLE", "network_mode", "use OPEN"),
    ("network_mode", "ALLOWLIST", "network_mode", "use OPEN"),
    ("network_mode", "open", "network_mode", "use OPEN"),
    ("credentials", "TOKEN", "credentials", "use NONE"),
    ("credentials", {"token": "x"}, "credentials", "is an object"),
    ("question", "", "question", "at least 1"),
    ("question", "x" * 1001, "question", "at most 1000"),
    ("question", 7, "question", "must be a string"),
    ("entrypoint", "", "entrypoint", "form"),
    ("entrypoint", "/usr/bin/id", "entrypoint", "relative"),
    ("entrypoint", "../outside.js", "entrypoint", "relative"),
    ("entrypoint", "a/../../outside.js", "entrypoint", "relative"),
    ("entrypoint", "a/..", "entrypoint", "relative"),
    ("entrypoint", "a//b.js", "entrypoint", "form"),
    ("entrypoint", "a/./b.js", "entrypoint", "form"),
    ("entrypoint", "a/", "entrypoint", "form"),
    ("entrypoint", "nul\0.js", "entrypoint", "form"),
    ("entrypoint", "line\n", "entrypoint", "form"),
    ("entrypoint", "x" * 501, "entrypoint", "at most 500"),
    ("argv", ["x"] * 33, "argv", "at most 32"),
    ("argv", ["x" * 1001], "argv[0]", "at most 1000"),
    ("argv", ["ok", "nul\0"], "argv[1]", "NUL"),
    ("argv", "--flag", "argv", "must be a list"),
    ("argv", [["nested"]], "argv[0]", "must be a string"),
    ("evidence", [], "evidence", "at least 1"),
    ("evidence", ["process", "process"], "evidence", "twice"),
    ("evidence", ["memory"], "evidence[0]", "version 1 does not know"),
    ("timeout_seconds", 4, "timeout_seconds", "at least 5"),
    ("timeout_seconds", 121, "timeout_seconds", "at most 120"),
    ("timeout_seconds", 5.5, "timeout_seconds", "whole number"),
    ("timeout_seconds", 5.0, "timeout_seconds", "expected `int`"),
    ("timeout_seconds", True, "timeout_seconds", "whole number"),
    ("timeout_seconds", "60", "timeout_seconds", "whole number"),
    ("stop_conditions", ["when it looks odd"], "stop_conditions[0]", "use output_capture_limit"),
    ("stop_conditions", ["output_capture_limit"] * 2, "stop_conditions", "twice"),
    ("build_command", "make", "build_command", "carries no commands"),
    ("command", "id", "command", "carries no commands"),
    ("install_script", "x", "install_script", "carries no commands"),
    ("env", {"A": "b"}, "env", "carries no commands"),
    ("entry_point", "x.js", "entry_point", "did you mean entrypoint?"),
    ("colour", "blue", "colour", "is no field of version 1"),
    ("allow", [], "allow", "field of version 2"),
    ("linger_seconds", 2, "linger_seconds", "field of version 2"),
]


@pytest.mark.threat("R1")
@pytest.mark.parametrize(("name", "value", "path", "words"), REFUSED_1)
def test_what_version_1_forbids_is_refused_with_its_field_and_the_next_step(
    name: str, value: Any, path: str, words: str
) -> None:
    told = refused(version1(**{name: value}))
    assert list(told) == [path]
    assert words in told[path]


# --- version 2


ACCEPTED_2: list[dict[str, Any]] = [
    {},
    {"entrypoint": MISSING},
    {"target": git()},
    {"target": {"kind": "dir", "path": "."}},
    {"target": {"kind": "dir", "path": "fixtures/server/"}, "prepare_profile": "npm_build"},
    {"target": npm(name="@modelcontextprotocol/server-everything", version="2026.8.31")},
    {"target": npm(version="1.0.0-rc.1+build.5")},
    {"target": pypi(), "adapter": "python_stdio", "entrypoint": MISSING, "prepare_profile": "python_build"},
    {"network_mode": "OPEN"},
    {"network_mode": "ALLOWLIST", "allow": ["api.example.com:443", "[2606:4700::1111]:853", "1.1.1.1:53"]},
    {"network_mode": "ALLOWLIST", "allow": [f"h{n}.example.com:443" for n in range(32)]},
    {"allow": []},
    {"linger_seconds": 0},
    {"linger_seconds": 60},
    {"linger_seconds": 2.5},
    {"protocol_era": "legacy", "canaries": True, "repeat": 1},
    {"action_profile": "mcp_list", "protocol_era": "both", "repeat": 3},
    {"action_profile": "mcp_call"},
    {"protocol_era": "modern", "repeat": 2},
]


@pytest.mark.parametrize("changes", ACCEPTED_2)
def test_what_version_2_allows_is_accepted(changes: dict[str, Any]) -> None:
    made = request.convert(version2(**changes))
    assert isinstance(made, request.RequestVersion2)
    assert made.schema_version == 2
    assert made.entrypoint == (None if "entrypoint" in changes else "dist/index.js")


def test_the_endpoints_of_a_request_are_canonical() -> None:
    allow = ["API.Example.com.:443", "[2606:4700:0:0::1111]:853"]
    made = request.convert(version2(network_mode="ALLOWLIST", allow=allow))
    assert request.endpoints(made) == (
        Endpoint(host="api.example.com", port=443),
        Endpoint(host="2606:4700::1111", port=853),
    )
    assert request.endpoints(request.convert(version1())) == ()


PYTHON: dict[str, Any] = {"adapter": "python_stdio", "entrypoint": MISSING}
REFUSED_2: list[tuple[dict[str, Any], str, str]] = [
    ({"target": pypi(), **PYTHON, "adapter": "node_stdio"}, "adapter", "a pypi target needs python_stdio"),
    ({"adapter": "python_stdio"}, "adapter", "a npm target needs node_stdio"),
    ({"target": pypi(version="1.0.*"), **PYTHON}, "target.version", "form"),
    ({"target": pypi(version=">=1"), **PYTHON}, "target.version", "form"),
    ({"target": pypi(version="v1.0"), **PYTHON}, "target.version", "form"),
    ({"target": pypi(version="1.0-1"), **PYTHON}, "target.version", "form"),
    ({"target": pypi(name="x[extra]"), **PYTHON}, "target.name", "form"),
    ({"target": pypi(name="x @ file:///y"), **PYTHON}, "target.name", "form"),
    ({"target": pypi(name="-r"), **PYTHON}, "target.name", "form"),
    ({"target": pypi(as_of="yesterday"), **PYTHON}, "target.as_of", "form"),
    ({"target": pypi(as_of="2026-02-30"), **PYTHON}, "target.as_of", "no day of the calendar"),
    ({"target": npm(as_of="2026-13-01T00:00:00Z")}, "target.as_of", "no day of the calendar"),
    ({"target": git(as_of="2026-01-01")}, "target.as_of", "is no field"),
    ({"target": pypi(), **PYTHON, "entrypoint": "bin/x"}, "entrypoint", "names a console script"),
    ({"target": npm(), "prepare_profile": "python_build"}, "prepare_profile", "python_build is for pypi"),
    ({"target": git(), "prepare_profile": "python_build"}, "prepare_profile", "python_build is for pypi"),
    ({"target": pypi(), **PYTHON, "prepare_profile": "npm_build"}, "prepare_profile", "a published package is built"),
    ({"target": {"kind": "tarball"}}, "target.kind", "use one of: git, npm, pypi, dir"),
    ({"target": npm(version="^1.2.3")}, "target.version", "neither a range nor a tag"),
    ({"target": npm(version="latest")}, "target.version", "neither a range nor a tag"),
    ({"target": npm(version="1.2")}, "target.version", "form"),
    ({"target": npm(version="v1.2.3")}, "target.version", "form"),
    ({"target": npm(version="01.2.3")}, "target.version", "form"),
    ({"target": npm(version="1.2.3\n")}, "target.version", "form"),
    ({"target": npm(version="file:../x")}, "target.version", "form"),
    ({"target": npm(name="-g")}, "target.name", "form"),
    ({"target": npm(name="../x")}, "target.name", "form"),
    ({"target": npm(name="@scope")}, "target.name", "form"),
    ({"target": npm(name="@a/b/c")}, "target.name", "form"),
    ({"target": npm(name="a@1")}, "target.name", "form"),
    ({"target": npm(name="https://x.example/y.tgz")}, "target.name", "form"),
    ({"target": npm(name="x" * 215)}, "target.name", "at most 214"),
    ({"target": npm(registry="https://x.example")}, "target.registry", "is no field"),
    ({"target": {"kind": "dir", "path": "/etc"}}, "target.path", "neither absolute"),
    ({"target": {"kind": "dir", "path": "a/../.."}}, "target.path", "neither absolute"),
    ({"target": {"kind": "dir", "path": ".."}}, "target.path", "neither absolute"),
    ({"target": {"kind": "dir", "path": ""}}, "target.path", "form"),
    ({"target": {"kind": "dir", "path": "a\0b"}}, "target.path", "form"),
    ({"target": {"kind": "dir", "path": "x" * 1001}}, "target.path", "at most 1000"),
    ({"target": git(), "entrypoint": MISSING}, "entrypoint", "required for git"),
    ({"target": {"kind": "dir", "path": "."}, "entrypoint": MISSING}, "entrypoint", "required for dir"),
    ({"entrypoint": None}, "entrypoint", "must be a string"),
    ({"prepare_profile": "npm_build"}, "prepare_profile", "a published package is built"),
    ({"action_profile": "fuzz"}, "action_profile", "version 2 does not know"),
    ({"network_mode": MISSING}, "network_mode", "is required"),
    ({"network_mode": "HOST"}, "network_mode", "version 2 does not know"),
    ({"network_mode": "ALLOWLIST"}, "allow", "is empty"),
    ({"network_mode": "ALLOWLIST", "allow": []}, "allow", "is empty"),
    ({"network_mode": "NONE", "allow": ["x.example:443"]}, "allow", "no meaning with NONE"),
    ({"network_mode": "OPEN", "allow": ["x.example:443"]}, "allow", "no meaning with OPEN"),
    ({"network_mode": "SINKHOLE", "allow": ["x.example:443"]}, "allow", "no meaning with SINKHOLE"),
    ({"network_mode": "ALLOWLIST", "allow": ["x.example"]}, "allow[0]", "neither host:port"),
    ({"network_mode": "ALLOWLIST", "allow": ["x.example:0"]}, "allow[0]", "neither host:port"),
    ({"network_mode": "ALLOWLIST", "allow": ["x.example:65536"]}, "allow[0]", "neither host:port"),
    ({"network_mode": "ALLOWLIST", "allow": ["*.example:443"]}, "allow[0]", "neither host:port"),
    ({"network_mode": "ALLOWLIST", "allow": ["https://x.example:443"]}, "allow[0]", "neither host:port"),
    ({"network_mode": "ALLOWLIST", "allow": ["127.0.0.1:80"]}, "allow[0]", "not a public address"),
    ({"network_mode": "ALLOWLIST", "allow": ["169.254.169.254:80"]}, "allow[0]", "not a public address"),
    ({"network_mode": "ALLOWLIST", "allow": ["[::ffff:10.0.0.1]:80"]}, "allow[0]", "not a public address"),
    ({"network_mode": "ALLOWLIST", "allow": ["x.example:443"] * 2}, "allow", "twice"),
    ({"network_mode": "ALLOWLIST", "allow": [f"h{n}.example:443" for n in range(33)]}, "allow", "at most 32"),
    ({"network_mode": "ALLOWLIST", "allow": [443]}, "allow[0]", "must be a string"),
    ({"network_mode": "ALLOWLIST", "allow": "x.example:443"}, "allow", "must be a list"),
    ({"linger_seconds": -1}, "linger_seconds", "at least 0"),
    ({"linger_seconds": 60.5}, "linger_seconds", "at most 60"),
    ({"linger_seconds": "2"}, "linger_seconds", "must be a number"),
    ({"protocol_era": "ancient"}, "protocol_era", "version 2 does not know"),
    ({"canaries": 1}, "canaries", "must be true or false"),
    ({"repeat": 0}, "repeat", "at least 1"),
    ({"repeat": 4}, "repeat", "at most 3"),
    ({"post_install_command": "x"}, "post_install_command", "carries no commands"),
]


@pytest.mark.threat("R1")
@pytest.mark.parametrize(("changes", "path", "words"), REFUSED_2)
def test_what_version_2_forbids_is_refused_with_its_field_and_the_next_step(
    changes: dict[str, Any], path: str, words: str
) -> None:
    told = refused(version2(**changes))
    assert list(told) == [path]
    assert words in told[path]


# --- all at once, and inert


def test_every_broken_rule_is_told_at_once() -> None:
    told = refused(
        version1(target=git(ref="x", command="y"), question="", timeout_seconds=1, credentials=MISSING, shell="sh")
    )
    assert set(told) == {"target.ref", "target.command", "question", "timeout_seconds", "credentials", "shell"}


def test_a_target_of_an_unknown_kind_does_not_hide_other_broken_rules() -> None:
    assert set(refused(version2(target={"kind": "oci"}, question=""))) == {"target.kind", "question"}


def test_a_flood_of_unknown_fields_is_cut_and_counted() -> None:
    with pytest.raises(RequestRefusedError) as error:
        request.convert(version1(**{f"x{n}": 1 for n in range(1000)}))
    assert len(error.value.refusals) == limits.REFUSALS
    assert error.value.lost == 1000 - limits.REFUSALS
    assert f"and {error.value.lost} more" in str(error.value)


@pytest.mark.threat("R1")
def test_foreign_text_is_cut_and_inert_in_a_refusal() -> None:
    hostile = "\x1b]0;x\x07" + "\u202e" + "k" * 5000
    with pytest.raises(RequestRefusedError) as error:
        request.convert(version2(**{hostile: 1, "adapter": hostile, "target": git(repository=hostile, **{hostile: 1})}))
    text = str(error.value)
    assert text.isascii()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert max(map(len, text.split("\n"))) < 400


def test_a_refused_request_has_the_status_of_a_refusal_and_says_that_nothing_ran() -> None:
    with pytest.raises(RefusedError) as error:
        request.convert([])
    assert error.value.exit_status == 2
    assert "nothing was fetched or run" in str(error.value)


@pytest.mark.parametrize("name", ["question", "argv", "entrypoint", "\udcff"])
def test_text_that_is_not_utf_8_is_refused(name: str) -> None:
    changes: dict[str, Any] = {name: ["\udcff"] if name == "argv" else "\udcff"}
    with pytest.raises(RequestRefusedError, match="not UTF-8"):
        request.convert(version2(**changes))


@pytest.mark.parametrize("data", [b"", b'{"schema_version": 1, "schema_version": 2}', b"[" * 100, b"\xff"])
def test_what_is_not_strict_json_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(jsonio.JsonError):
        request.parse(data)


def test_a_request_with_every_field_at_its_maximum_fits_the_bound_on_bytes() -> None:
    largest = version2(
        question="日" * 1000,
        entrypoint="x" * 500,
        argv=["x" * 1000] * 32,
        network_mode="ALLOWLIST",
        allow=[f"{n:02}." + "a" * 60 + ".example.com:65535" for n in range(32)],
    )
    assert request.parse(json.dumps(largest, ensure_ascii=False).encode()).entrypoint == "x" * 500


# --- properties


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 130) | st.text(max_size=6) | st.sampled_from(["NONE", "OPEN", "."]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({*version1(), "allow", "linger_seconds", "argv", "stop_conditions", "canaries", "repeat", "other"})


@given(st.sampled_from([1, 2]), st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4))
def test_whatever_a_field_holds_the_answer_is_a_request_or_a_refusal(number: int, changes: dict[str, Any]) -> None:
    value = {**(version1() if number == 1 else version2()), **changes}
    try:
        made = request.convert(value)
    except RequestRefusedError:
        return
    assert request.convert(request.to_value(made)) == made


@given(st.text(max_size=40).map(lambda text: text.replace("x", "/").replace("y", "..")))
def test_an_accepted_entrypoint_never_leads_outside(path: str) -> None:
    try:
        made = request.convert(version1(entrypoint=path))
    except RequestRefusedError:
        return
    steps = made.entrypoint.split("/") if made.entrypoint else []
    assert not path.startswith("/")
    assert ".." not in steps
    assert "" not in steps
    assert "\0" not in path


@pytest.mark.parametrize("value", [version1(), version2(), version2(entrypoint=MISSING), version2(target=git())])
def test_a_request_written_again_is_the_same_request(value: dict[str, Any]) -> None:
    made = request.convert(value)
    again = request.to_value(made)
    assert {**again, **value} == again
    assert request.convert(again) == made


def test_a_commit_is_kept_in_the_lower_case_that_git_prints() -> None:
    made = request.convert(version1(target=git(ref=SHA.upper())))
    assert isinstance(made.target, request.GitTarget)
    assert made.target.ref == SHA


def test_version_1_cannot_be_made_with_another_network_mode_by_hand() -> None:
    made = request.convert(version1())
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    with pytest.raises(ValueError, match="OPEN only"):
        request.RequestVersion1(**{**fields, "network_mode": Mode.NONE})


# --- the schema


def test_each_field_of_the_schema_is_described() -> None:
    for version in (1, 2):
        for name, part in request.schema_of(version)["properties"].items():
            assert name == "schema_version" or part.get("description"), name


def test_a_dotted_path_reads_as_people_write_it() -> None:
    assert rules.dotted(("target", "ref")) == "target.ref"
    assert rules.dotted(("argv", 3)) == "argv[3]"
    assert rules.dotted(("a b",)) == "'a b'"
