import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.node import npm
from fumehood.review.states import EXIT_STATUS, ReviewEndedError, State

INTEGRITY = "sha512-" + "A" * 86 + "=="


def lock(**entry: object) -> dict[str, object]:
    return {"packages": {"": {}, "node_modules/thing": {"version": "1.0.0", "integrity": INTEGRITY} | entry}}


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("EINTEGRITY", State.TARGET_FAILED),
        ("ETARGET", State.TARGET_FAILED),
        ("E404", State.TARGET_FAILED),
        ("EUSAGE", State.TARGET_FAILED),
        ("EBADENGINE", State.RUNTIME_UNSUPPORTED),
        ("EBADPLATFORM", State.RUNTIME_UNSUPPORTED),
        ("EAI_AGAIN", State.HARNESS_ERROR),
        ("ECONNREFUSED", State.HARNESS_ERROR),
        ("ENOSPC", State.HARNESS_ERROR),
        ("E503", State.HARNESS_ERROR),
        ("SELF_SIGNED_CERT_IN_CHAIN", State.HARNESS_ERROR),
        ("ELIFECYCLE", State.TARGET_FAILED),
    ],
)
def test_each_error_of_npm_leads_to_its_state(code: str, state: State) -> None:
    ended = npm.failure("fetch", 1, b"noise\nnpm error code " + code.encode() + b"\nmore")
    assert ended.state is state
    assert code in ended.message


def test_a_failure_without_a_code_is_the_targets() -> None:
    assert npm.failure("install", 7, b"\xff\x00").state is State.TARGET_FAILED


def test_a_refused_host_says_that_the_dependency_lies_elsewhere() -> None:
    ended = npm.failure("fetch", 1, b"npm error code ECONNRESET", refused_hosts=("other.example",))
    assert (ended.state, ended.code) == (State.RUNTIME_UNSUPPORTED, "dependency_elsewhere")
    assert "other.example" in ended.message


def test_the_last_code_counts_and_a_target_cannot_invent_a_strange_one() -> None:
    assert npm.error_code(b"npm error code E1\nnpm error code ETARGET\n") == "ETARGET"
    assert npm.error_code(b"npm error code e-vil;\x1b[0m") is None


def test_the_engines_npm_warned_of_are_found() -> None:
    text = b"npm warn EBADENGINE Unsupported engine {\nnpm warn EBADENGINE   package: 'thing@1.0.0',\n"
    assert npm.bad_engines(text) == {"thing@1.0.0"}


def test_the_integrity_stands_in_the_lock() -> None:
    assert npm.lock_entry(lock(), "thing", "1.0.0").integrity == INTEGRITY


@pytest.mark.parametrize("bad", [{"version": "1.0.1"}, {"integrity": None}, {"integrity": "md5-x"}])
def test_a_lock_without_version_or_integrity_ends_the_review(bad: dict[str, object]) -> None:
    with pytest.raises(ReviewEndedError) as caught:
        npm.lock_entry(lock(**bad), "thing", "1.0.0")
    assert caught.value.state is State.TARGET_FAILED


@given(st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_shape_of_a_lock_or_manifest_breaks_the_reader(value: object) -> None:
    for read in (npm.hooks, npm.package_count):
        assert read(value) is None or isinstance(read(value), int)
    with pytest.raises(ReviewEndedError):
        npm.lock_entry(value, "thing", "1.0.0")
    with pytest.raises(ReviewEndedError):
        npm.only_bin(value if not isinstance(value, dict) else {**value, "bin": None}, "thing")


def test_hooks_and_packages_are_counted() -> None:
    value = {"packages": {"": {}, "node_modules/a": {"hasInstallScript": True}, "node_modules/b": {}}}
    assert (npm.hooks(value), npm.package_count(value)) == (1, 2)


@pytest.mark.parametrize(
    ("manifest", "entry"),
    [({"bin": "./dist/index.js"}, "dist/index.js"), ({"bin": {"a": "x.js", "b": "x.js"}}, "x.js")],
)
def test_a_single_bin_is_the_entrypoint(manifest: object, entry: str) -> None:
    assert npm.only_bin(manifest, "thing") == entry


def test_several_bins_are_listed() -> None:
    with pytest.raises(ReviewEndedError, match=r"one, two") as caught:
        npm.only_bin({"bin": {"one": "a.js", "two": "b.js"}}, "thing")
    assert caught.value.state is State.RUNTIME_UNSUPPORTED


def test_every_state_has_its_exit_status() -> None:
    assert set(EXIT_STATUS) == set(State)
