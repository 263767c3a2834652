"""Paths of a target and of its layer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe import paths


@pytest.mark.parametrize(
    ("kernel", "seen", "layer"),
    [
        (b"/var/home/u/x", b"/home/u/x", b"home/u/x"),
        (b"/var/tmp/x", b"/tmp/x", b"tmp/x"),
        (b"/var/home", b"/home", b"home"),
        (b"/var/log/x", b"/var/log/x", b"log/x"),
        (b"/home/u", b"/home/u", b"home/u"),
        (b"/tmp/x", b"/tmp/x", b"tmp/x"),
        (b"/usr/lib", b"/usr/lib", None),
        (b"/var", b"/var", None),
        (b"/var/", b"/var/", None),
        (b"/homestead", b"/homestead", None),
        (b"/var/homestead", b"/var/homestead", b"homestead"),
        (b"home/u", b"home/u", None),
    ],
)
def test_each_path_has_one_name_for_the_target_and_one_in_the_layer(
    kernel: bytes, seen: bytes, layer: bytes | None
) -> None:
    assert paths.as_seen(kernel) == seen
    assert layer is None or paths.from_layer(layer) == seen


@given(st.binary(min_size=1, max_size=30).filter(lambda p: not p.startswith(b"/")))
def test_a_layers_path_has_one_name_for_the_target(path: bytes) -> None:
    seen = paths.from_layer(path)
    assert seen.endswith(path)
    assert paths.as_seen(seen) == seen


def test_names_are_joined_by_words_alone() -> None:
    assert paths.join(b"/a/b", b"../c/./d") == b"/a/c/d"
    assert paths.join(b"/a", b"/x/../y") == b"/y"
    assert paths.join(b"/", b"../../z") == b"/z"


def test_a_name_climbs_when_two_dots_stand_behind_another_name() -> None:
    assert [paths.climbs(n) for n in (b"../../a", b"a/../b", b"./../a", b"/a/..", b"a/b")] == [
        False,
        True,
        False,
        True,
        False,
    ]
