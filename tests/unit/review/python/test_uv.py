"""review.python.uv: what it is told, and what its sentences mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.python import uv
from fumehood.review.states import State

SENTENCES = [
    (
        b"Because there is no version of x==99 and you require x==99 your requirements are unsatisfiable.",
        "unknown_version",
    ),
    (b"Because x was not found in the package registry and you require x==1.0", "unknown_package"),
    (b"Because x==3.5.0 has no usable wheels and you require x==3.5.0", "no_wheel"),
    (b"Because x==2.0.0 has no wheels with a matching Python ABI tag (e.g., `cp311`)", "no_wheel"),
    (b"Because the current Python version (3.11.2) does not satisfy Python>=3.14 and x==1 depends on it", "engine"),
    (b"Because a==1 depends on c<1 and b==1 depends on c>1 your requirements are unsatisfiable", "dependency_conflict"),
    (b"error: Request failed\n cause: error sending request for url (x)\n cause: Connection refused", "registry"),
    (b"Hash mismatch for `x==1.0`\n\nExpected:\n  sha256:aa\n\nComputed:\n  sha256:bb", "integrity_mismatch"),
    (b"failed to write: No space left on device (os error 28)", "disk_full"),
    (b"Failed to install: x-1.0-py3-none-any.whl (x==1.0)", "bad_wheel"),
    (b"something else altogether", "uv_failed"),
]


@pytest.mark.parametrize(("said", "code"), SENTENCES)
def test_a_sentence_of_uv_has_its_code(said: bytes, code: str) -> None:
    ended = uv.failure("lock", 1, said)
    assert ended.code == code
    assert ended.message.startswith("lock")
    if ended.state is State.RUNTIME_UNSUPPORTED:
        assert "no sign of anything unsafe" in ended.message


def test_a_host_that_was_refused_is_named_with_the_setting_that_may_open_it() -> None:
    ended = uv.failure("fetch", 2, b"error sending request", refused_hosts=("files.example",))
    assert (ended.state, ended.code) == (State.RUNTIME_UNSUPPORTED, "dependency_elsewhere")
    assert "files.example" in ended.message
    assert "review.index_files" in ended.message


@given(st.binary(max_size=400))
def test_no_text_of_uv_reaches_a_message(said: bytes) -> None:
    ended = uv.failure("fetch", 1, said)
    assert ended.message.isascii()
    assert len(ended.message) < 300
