import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import landlock
from fumehood.sandbox.containment import WallState
from fumehood.sandbox.landlock import NOTHING, Ruleset

_NAMES = landlock.MAKE_REG | landlock.REMOVE_FILE  # what making and renaming a regular file takes
abis = st.integers(0, 9)
rulesets = st.builds(Ruleset, tcp_connect=st.booleans(), tcp_bind=st.booleans(), scoped=st.booleans())


@pytest.mark.parametrize(
    ("abi", "files", "tcp", "scopes"),
    [(1, 13, 0, 0), (2, 14, 0, 0), (3, 15, 0, 0), (4, 15, 3, 0), (5, 16, 3, 0), (6, 16, 3, 3), (7, 16, 3, 3)],
)
def test_each_version_refuses_all_that_it_knows(abi: int, files: int, tcp: int, scopes: int) -> None:
    assert landlock.handled(NOTHING, abi) == (2**files - 1, tcp, scopes)


@pytest.mark.parametrize(("abi", "length"), [(1, 8), (3, 8), (4, 16), (5, 16), (6, 24), (7, 24), (99, 24)])
def test_the_kernels_structure_is_as_long_as_its_version_knows(abi: int, length: int) -> None:
    assert len(landlock.attributes(NOTHING, abi)) == length


@given(rulesets, abis)
def test_the_structure_says_what_is_handled(ruleset: Ruleset, abi: int) -> None:
    words = landlock.attributes(ruleset, abi)
    assert struct.unpack(f"<{len(words) // 8}Q", words) == landlock.handled(ruleset, abi)[: len(words) // 8]


def test_what_is_asked_for_is_not_refused() -> None:
    assert landlock.handled(Ruleset(tcp_connect=True), 7)[1] == landlock.BIND_TCP
    assert landlock.handled(Ruleset(tcp_bind=True), 7)[1] == landlock.CONNECT_TCP
    assert landlock.handled(Ruleset(scoped=False), 7)[2] == 0


def test_a_rule_gives_reading_or_starting_and_writing_to_devices_and_kept_folders_alone() -> None:
    ruleset = Ruleset(readable=("/a", 7), executable=("/b",), devices=("/dev/null",), kept=(8,))
    assert landlock.rules(ruleset) == (
        ("/a", landlock.READ_FILE | landlock.READ_DIR),
        (7, landlock.READ_FILE | landlock.READ_DIR),
        ("/b", landlock.READ_FILE | landlock.EXECUTE),
        ("/dev/null", landlock.READ_FILE | landlock.WRITE_FILE),
        (8, landlock.READ_FILE | landlock.READ_DIR | landlock.WRITE_FILE | landlock.TRUNCATE | _NAMES),
    )


@given(st.integers(0, 2**16 - 1), st.integers(1, 9))
def test_a_rule_names_only_rights_that_are_handled_and_for_a_file_only_those_of_files(rights: int, abi: int) -> None:
    known = landlock.handled(NOTHING, abi)[0]
    assert landlock.allowed(rights, abi, folder=True) == rights & known
    of_file = landlock.allowed(rights, abi, folder=False)
    assert of_file & ~known == 0
    assert of_file & landlock.READ_DIR == 0


def test_a_rule_is_packed_as_the_kernel_reads_it() -> None:
    assert landlock.beneath(5, 3) == b"\x05" + b"\0" * 7 + b"\x03\0\0\0"


@given(rulesets, abis)
def test_each_wall_is_told_once_with_its_reason(ruleset: Ruleset, abi: int) -> None:
    walls = landlock.walls(ruleset, abi)
    assert tuple(wall.name for wall in walls) == landlock.WALLS
    for wall in walls:
        assert bool(wall.how) == (wall.state is WallState.ENFORCED)
        assert bool(wall.why) == bool(wall.remedy) == (wall.state is WallState.UNAVAILABLE)


@given(rulesets, abis)
def test_a_wall_is_told_to_stand_only_where_the_kernel_was_asked_for_it(ruleset: Ruleset, abi: int) -> None:
    state = {wall.name: wall.state for wall in landlock.walls(ruleset, abi)}
    files, tcp, scopes = landlock.handled(ruleset, abi) if abi else (0, 0, 0)
    truths = {
        "outside_reading": files & landlock.READ_FILE,
        "writing": files & landlock.WRITE_FILE,
        "executing": files & landlock.EXECUTE,
        "truncating": files & landlock.TRUNCATE,
        "device_control": files & landlock.IOCTL_DEV,
        "tcp_connect": tcp & landlock.CONNECT_TCP,
        "tcp_bind": tcp & landlock.BIND_TCP,
        "abstract_sockets": scopes & landlock.SCOPE_ABSTRACT_SOCKETS,
        "signals": scopes & landlock.SCOPE_SIGNALS,
    }
    assert {name: state[name] is WallState.ENFORCED for name in truths} == {k: bool(v) for k, v in truths.items()}


def test_without_landlock_no_wall_of_files_stands_and_a_newer_kernel_is_named() -> None:
    walls = {wall.name: wall for wall in landlock.walls(NOTHING, 0)}
    assert all(walls[name].state is WallState.UNAVAILABLE for name in landlock.FILE_WALLS)
    assert "no Landlock" in walls["outside_reading"].why
    assert "is 2, and 3" in {wall.name: wall.why for wall in landlock.walls(NOTHING, 2)}["truncating"]
