"""review.python.lock: what uv wrote, and nothing that it could not have written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.python import lock
from fumehood.review.states import ReviewEndedError

A, B = "a" * 64, "b" * 64
LOCK = f"""my-server==1.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{B}
"""


def test_a_lock_is_packages_with_their_hashes() -> None:
    packages = lock.parse(LOCK.encode())
    assert packages == (
        lock.Locked(name="my-server", version="1.0", sha256=(A, B)),
        lock.Locked(name="colorama", version="0.4.6", sha256=(B,)),
    )
    assert lock.entry(packages, "My_Server").version == "1.0"


@pytest.mark.threat("R30")
@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://x.example/simple",
        "-e .",
        "my-server @ file:///x",
        "my-server>=1.0",
        "    --hash=md5:" + "a" * 32,
        "    --hash=sha256:" + "A" * 64,
    ],
)
def test_a_line_that_is_no_package_and_no_hash_ends_the_review(line: str) -> None:
    with pytest.raises(ReviewEndedError) as ended:
        lock.parse(f"{LOCK}{line}\n".encode())
    assert ended.value.code == "bad_lock"


@pytest.mark.threat("R30")
def test_a_package_without_a_hash_ends_the_review() -> None:
    with pytest.raises(ReviewEndedError) as ended:
        lock.entry(lock.parse(b"my-server==1.0\n"), "my-server")
    assert ended.value.code == "no_integrity"


def test_a_lock_without_the_package_ends_the_review() -> None:
    with pytest.raises(ReviewEndedError) as ended:
        lock.entry(lock.parse(LOCK.encode()), "other")
    assert ended.value.code == "unknown_version"


@given(st.binary(max_size=400))
def test_any_bytes_are_a_lock_or_end_the_review(data: bytes) -> None:
    try:
        packages = lock.parse(data)
    except ReviewEndedError as ended:
        assert ended.code == "bad_lock"  # noqa: PT017 - either outcome is right
    else:
        assert all(one.version and one.name for one in packages)


def test_a_wheel_that_was_built_here_is_a_package_with_its_hash_and_the_version_of_its_name() -> None:
    built = "unit-server @ file://${PROJECT_ROOT}/.build/dist/unit_server-1.0-py3-none-any.whl \\\n"
    assert lock.parse(f"{built}    --hash=sha256:{A}\n".encode()) == (
        lock.Locked(name="unit-server", version="1.0", sha256=(A,)),
    )
    with pytest.raises(ReviewEndedError):
        lock.parse(built.replace(".build/dist", "../elsewhere").encode())
