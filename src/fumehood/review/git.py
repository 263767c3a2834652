"""What git's messages mean for a review. Pure.

git has no stable error codes: the phrases are those of git 2.30 to 2.50, matched without regard to case; what matches
none of them is the target's fault only if git says that it got an answer.
"""

from fumehood.review.plan import NOT_A_COMMIT, Commit
from fumehood.review.states import ReviewEndedError, State

_FILE_TOO_LARGE = 128 + 25  # a shell's word for SIGXFSZ

# phrase → (state, code, words); the first that is found decides
_PHRASES: tuple[tuple[bytes, State, str, str], ...] = (
    (b"file size limit exceeded", State.TARGET_FAILED, "pack_too_large", "a file outgrew the limit of one file"),
    (b"no space left on device", State.HARNESS_ERROR, "disk_full", "the disk is full"),
    (b"could not resolve host", State.HARNESS_ERROR, "forge", "the forge's name cannot be resolved"),
    (b"failed to connect", State.HARNESS_ERROR, "forge", "the forge does not answer"),
    (b"couldn't connect", State.HARNESS_ERROR, "forge", "the forge does not answer"),
    (b"connection refused", State.HARNESS_ERROR, "forge", "the forge does not answer"),
    (b"connection timed out", State.HARNESS_ERROR, "forge", "the forge does not answer"),
    (b"operation timed out", State.HARNESS_ERROR, "forge", "the forge does not answer"),
    (b"empty reply from server", State.HARNESS_ERROR, "forge", "the forge ended the connection"),
    (b"connection reset", State.HARNESS_ERROR, "forge", "the forge ended the connection"),
    (b"certificate", State.HARNESS_ERROR, "forge", "the forge's certificate is not trusted: set review.ca_file"),
    (b"returned error: 5", State.HARNESS_ERROR, "forge", "the forge has a fault of its own"),
    (b"returned error: 429", State.HARNESS_ERROR, "forge", "the forge refuses for now"),
    (b"not our ref", State.TARGET_FAILED, "unknown_commit", "the repository has no such commit"),
    (b"unadvertised object", State.TARGET_FAILED, "unknown_commit", "the repository does not give out this commit"),
    (b"couldn't find remote ref", State.TARGET_FAILED, "unknown_commit", "the repository has no such commit"),
    (b"could not read username", State.TARGET_FAILED, "unknown_repository", "no such public repository"),
    (b"authentication failed", State.TARGET_FAILED, "unknown_repository", "no such public repository"),
    (b"not found", State.TARGET_FAILED, "unknown_repository", "no such public repository"),
    (b"fsck", State.TARGET_FAILED, "bad_object", "an object breaks git's own rules"),
    (b"transport '", State.TARGET_FAILED, "protocol", "the repository asks for another protocol"),
)


def failure(status: int | None, stdout: bytes, stderr: bytes) -> ReviewEndedError:
    """What a failed clone means; `stdout` and `stderr` are those of `plan.CLONE`."""
    if status == NOT_A_COMMIT:
        kind = "tag" if b"type tag" in stdout else "tree" if b"type tree" in stdout else "blob"
        return ReviewEndedError(State.TARGET_FAILED, "not_a_commit", f"the id names a {kind}, not a commit")
    if status == _FILE_TOO_LARGE:
        return ReviewEndedError(State.TARGET_FAILED, "pack_too_large", "a file outgrew the limit of one file")
    text = stderr.lower()
    for phrase, state, code, words in _PHRASES:
        if phrase in text:
            return ReviewEndedError(state, code, f"clone: {words}")
    return ReviewEndedError(State.TARGET_FAILED, "git_failed", f"clone: git ended with status {status}")


def resolved(stdout: bytes) -> Commit | None:
    """The commit that git resolved, from the output of `plan.CLONE`."""
    for line in stdout.splitlines():
        if line.startswith(b"id "):
            return Commit(line[3:].decode("ascii", "replace").strip())
    return None
