import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review import git
from fumehood.review.plan import NOT_A_COMMIT
from fumehood.review.states import State


@pytest.mark.parametrize(
    ("stderr", "state", "code"),
    [
        (b"fatal: remote error: upload-pack: not our ref aaaa", State.TARGET_FAILED, "unknown_commit"),
        (b"error: Server does not allow request for unadvertised object", State.TARGET_FAILED, "unknown_commit"),
        (b"fatal: could not read Username for 'https://x': No such device", State.TARGET_FAILED, "unknown_repository"),
        (b"fatal: repository 'https://x/' not found", State.TARGET_FAILED, "unknown_repository"),
        (b"error: object abc: hasDotgit: contains '.git'\nfatal: fsck error in packed object", None, "bad_object"),
        (b"fatal: unable to access 'x': Could not resolve host: y", State.HARNESS_ERROR, "forge"),
        (b"fatal: unable to access 'x': Failed to connect to y port 443", State.HARNESS_ERROR, "forge"),
        (b"fatal: unable to access 'x': The requested URL returned error: 502", State.HARNESS_ERROR, "forge"),
        (b"server certificate verification failed", State.HARNESS_ERROR, "forge"),
        (b"fatal: write error: No space left on device", State.HARNESS_ERROR, "disk_full"),
        (b"File size limit exceeded", State.TARGET_FAILED, "pack_too_large"),
        (b"fatal: transport 'ext' not allowed", State.TARGET_FAILED, "protocol"),
        (b"something new", State.TARGET_FAILED, "git_failed"),
    ],
)
def test_each_message_of_git_leads_to_its_state(stderr: bytes, state: State | None, code: str) -> None:
    ended = git.failure(128, b"", stderr)
    assert ended.code == code
    assert ended.state is (state or State.TARGET_FAILED)


def test_a_tag_is_not_a_commit() -> None:
    ended = git.failure(NOT_A_COMMIT, b"type tag\n", b"")
    assert (ended.state, ended.code) == (State.TARGET_FAILED, "not_a_commit")
    assert "tag" in ended.message


def test_a_shell_that_saw_the_file_limit_says_so() -> None:
    assert git.failure(153, b"", b"").code == "pack_too_large"


def test_the_resolved_commit_is_read_from_its_own_line() -> None:
    assert git.resolved(b"type commit\nid " + b"a" * 40 + b"\n") == "a" * 40
    assert git.resolved(b"type tag\n") is None


@given(st.integers() | st.none(), st.binary(), st.binary())
def test_no_output_of_git_breaks_the_reader(status: int | None, stdout: bytes, stderr: bytes) -> None:
    assert git.failure(status, stdout, stderr).message
    git.resolved(stdout)
