"""uv as far as a review needs it: what it is told, and what its errors mean. Pure.

Source: uv's documentation of its environment variables, and the sentences that `uv pip compile` and `uv pip sync`
of the locked version print. uv has no codes of errors: a sentence that is not known ends as a failure of the step.
"""

import re

from fumehood.review.states import NO_SIGN, ReviewEndedError, State

VENV = ".venv"
# Of a user's own configuration, of the target's, and of what else uv would look for or fetch, nothing counts.
CONSTANT = (
    ("UV_NO_CONFIG", "1"),
    ("UV_NO_ENV_FILE", "1"),
    ("UV_PYTHON_DOWNLOADS", "never"),
    ("UV_PYTHON_PREFERENCE", "only-system"),
    ("UV_KEYRING_PROVIDER", "disabled"),
    ("UV_LINK_MODE", "copy"),  # the cache lies on another mount
    ("UV_NO_PROGRESS", "1"),
    ("UV_HTTP_TIMEOUT", "20"),
    ("UV_HTTP_RETRIES", "1"),  # as npm's: a dead network otherwise holds it for long
    ("UV_SYSTEM_CERTS", "1"),
    ("UV_CONCURRENT_DOWNLOADS", "16"),
    ("NO_COLOR", "1"),
)

_NO_SUCH = re.compile(rb"was not found in the (?:package registry|provided package locations|cache)")
_NO_VERSION = re.compile(rb"there (?:is|are) no versions? of")
_NO_WHEEL = re.compile(rb"has no (?:usable )?wheels|no wheels (?:with|for)|Wheels are required for|has no wheel")
_PYTHON = re.compile(
    rb"does not satisfy Python|Requires-Python|requires Python|the current Python version|only .{0,40}supports Python"
)
_UNSATISFIABLE = re.compile(rb"requirements are unsatisfiable")
_HASH = re.compile(rb"[Hh]ash mismatch|no hashes were provided|hashes? .{0,60}(?:missing|mismatch)")
_ABSENT = re.compile(rb"network(?:ing| connectivity)? (?:is|was) disabled|not (?:found )?in the cache")
_NETWORK = re.compile(
    rb"error sending request|Failed to fetch|error decoding response|[Tt]imed? ?out|dns error|certificate"
    rb"|HTTP status (?:client|server) error|connection (?:closed|reset)"
)
_FULL = re.compile(rb"No space left|Disk quota exceeded")
_WHEEL = re.compile(
    rb"[Ii]nvalid wheel|wheel is invalid|[Ii]nvalid `?(?:WHEEL|RECORD|METADATA|entry_points)|zip|Reserved script"
    rb"|[Ff]ailed to (?:unzip|extract|read|parse|install)|outside|absolute path|path traversal"
)


def failure(step: str, status: int | None, stderr: bytes, *, refused_hosts: tuple[str, ...] = ()) -> ReviewEndedError:
    """What a failed step of uv means. `refused_hosts`: names that it asked for and the policy refused."""
    if refused_hosts:
        hosts = ", ".join(refused_hosts[:5])
        message = f"{step} needs hosts that are not the index: {hosts}; review.index_files may name them. {NO_SIGN}"
        return ReviewEndedError(State.RUNTIME_UNSUPPORTED, "dependency_elsewhere", message)
    for pattern, state, code, words in _MEANINGS:
        if pattern.search(stderr):
            more = f". {NO_SIGN}" if state is State.RUNTIME_UNSUPPORTED else ""
            return ReviewEndedError(state, code, f"{step}: {words}{more}")
    return ReviewEndedError(State.TARGET_FAILED, "uv_failed", f"{step} ended with status {status}")


_MEANINGS = (
    (_FULL, State.HARNESS_ERROR, "disk_full", "the disk of this host is full"),
    (_HASH, State.TARGET_FAILED, "integrity_mismatch", "a package does not have the hash that its lock names"),
    (
        _NO_WHEEL,
        State.RUNTIME_UNSUPPORTED,
        "no_wheel",
        "a package has no wheel for this Python and platform, and nothing is built from sources",
    ),
    (_PYTHON, State.RUNTIME_UNSUPPORTED, "engine", "a package asks for another Python than the one of this host"),
    (_NO_SUCH, State.TARGET_FAILED, "unknown_package", "the index has no package that is asked for"),
    (_NO_VERSION, State.TARGET_FAILED, "unknown_version", "the index has no version that fits"),
    (_UNSATISFIABLE, State.TARGET_FAILED, "dependency_conflict", "the dependencies cannot be resolved"),
    (_ABSENT, State.TARGET_FAILED, "undeclared_dependency", "something is needed that the lock did not name"),
    (
        _NETWORK,
        State.HARNESS_ERROR,
        "registry",
        "the index did not answer as an index does: no evidence about the target",
    ),
    (_WHEEL, State.TARGET_FAILED, "bad_wheel", "a wheel is not one that can be installed"),
)
