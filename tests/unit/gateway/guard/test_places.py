"""Paths are judged as they resolve: the system, the host's services and fumehood itself are never shown."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.gateway.guard import places
from fumehood.gateway.guard.places import Kind, Own, Place
from fumehood.gateway.guard.policy import GuardPolicyError
from fumehood.sandbox.spec import Bind

OWN = Own(
    kept=("/home/me/.config/fumehood", "/var/lib/runs", "/home/me/policy.toml"),
    programs=("/opt/fumehood/lib",),
    homes=("/home/me", "/root"),
)


def place(asked: str, resolved: str = "", *, kind: Kind = "folder", writable: bool = False, shut: str = "") -> Place:
    return Place(asked=asked, resolved=resolved or asked, kind=kind, writable=writable, unreachable=shut)


def test_a_folder_is_shown_at_its_own_place() -> None:
    binds = places.binds([place("/srv/docs"), place("/srv/out", writable=True)], OWN)
    assert [(str(one.source), one.target, one.writable) for one in binds] == [
        ("/srv/docs", "/srv/docs", False),
        ("/srv/out", "/srv/out", True),
    ]


def test_a_link_is_shown_as_what_it_resolves_to_and_said() -> None:
    found = [place("/srv/link", "/srv/real")]
    assert [(str(one.source), one.target) for one in places.binds(found, OWN)] == [("/srv/real", "/srv/link")]
    assert places.notes(found) == ["--allow-read /srv/link is /srv/real"]


def test_a_deeper_place_is_mounted_after_the_one_around_it() -> None:
    binds = places.binds([place("/srv/a/b", writable=True), place("/srv/a")], OWN)
    assert [one.target for one in binds] == ["/srv/a", "/srv/a/b"]


def test_of_one_path_the_right_to_write_counts() -> None:
    (bind,) = places.binds([place("/srv/a", writable=True), place("/srv/a")], OWN)
    assert bind.writable


def test_what_every_server_sees_is_not_mounted_again() -> None:
    assert places.binds([place("/usr/share/dict")], OWN) == ()


@pytest.mark.threat("G2")
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (place("/"), "is the whole system"),
        (place("/srv/all", "/"), "is the whole system"),
        (place("/proc/1"), "/proc is the host's own"),
        (place("/srv/p", "/proc"), "/proc is the host's own"),
        (place("/sys/fs"), "/sys is the host's own"),
        (place("/dev/sda", kind="file"), "/dev is the host's own"),
        (place("/var/run", "/run"), "/run is the host's own"),
        (place("/etc"), "is the whole configuration"),
        (place("/srv/gone", kind="missing"), "there is nothing"),
        (place("/srv/socket", kind="other"), "is neither a file nor a folder"),
        (place("/home/me/.config/fumehood"), "what fumehood itself is configured by"),
        (place("/home/me/.config/fumehood/fumehood.toml", kind="file"), "what fumehood itself is configured by"),
        (place("/home/me/.config"), "what fumehood itself is configured by"),
        (place("/srv/link", "/home/me/.config/fumehood"), "what fumehood itself is configured by"),
        (place("/var/lib"), "what fumehood itself is configured by"),
        (place("/home/me/policy.toml", kind="file", writable=True), "what fumehood itself is configured by"),
        (place("/root", writable=True), "is a home as a whole"),
        (place("/home", writable=True), "is a home as a whole, or holds one"),
        (place("/usr/local/share", writable=True), "is the system's own"),
        (place("/etc/cron.d", writable=True), "is the system's own"),
        (place("/opt/fumehood", writable=True), "what fumehood runs or goes by"),
        (place("/srv/../etc"), "is not a plain absolute path"),
        (place("//srv"), "is not a plain absolute path"),
        (place("/srv/closed", shut="may not enter /srv"), "may not enter /srv"),
    ],
)
def test_what_no_server_gets_is_refused_with_the_rule(found: Place, said: str) -> None:
    with pytest.raises(GuardPolicyError) as refused:
        places.binds([found], OWN)
    assert said in str(refused.value)
    assert found.flag in str(refused.value)


@pytest.mark.parametrize(
    "found",
    [
        place("/etc/hosts", kind="file"),
        place("/opt/fumehood"),
        place("/root"),
        place("/home/me/docs", writable=True),
        place("/process"),
    ],
)
def test_what_lies_beside_is_not_refused(found: Place) -> None:
    assert places.refusal(found, OWN) is None


def test_what_is_below_a_mount_is_shown_and_what_begins_likewise_is_not() -> None:
    binds = [Bind(source=Path("/srv/a"), target="/srv/a")]
    assert places.is_shown("/srv/a", binds)
    assert places.is_shown("/srv/a/b", binds)
    assert places.is_shown("/usr/bin/node", [])
    assert not places.is_shown("/srv/ab", binds)
    assert not places.is_shown("/etc/passwd", binds)


@given(st.lists(st.sampled_from(["a", "b", "etc", "proc", "home", "me"]), max_size=4), st.booleans())
def test_no_mount_ever_holds_or_is_a_kept_place(words: list[str], writable: bool) -> None:
    path = "/" + "/".join(words)
    own = Own(kept=("/a/b", "/home/me/a"), programs=("/b/b",), homes=("/home/me",))
    found = place(path, writable=writable)
    if places.refusal(found, own) is None:
        assert not any(places.within(kept, path) or places.within(path, kept) for kept in own.kept)
        assert not writable or not places.within("/home/me", path)
        assert not path.startswith("/proc/")
