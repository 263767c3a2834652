"""What layers make together, and how trees differ."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe import layers
from fumehood.observe.layers import Change, EntryLike, State, View, compare
from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase


@dataclass(frozen=True, kw_only=True)
class Entry:
    path: bytes
    kind: str = "file"
    mode: int = 0o644
    size: int = 1
    link: bytes | None = None
    marks: tuple[str, ...] = ()
    content: str = "a"

    @property
    def opaque(self) -> bool:
        return "user.overlay.opaque" in self.marks


asked: list[bytes] = []


def digest(entry: EntryLike) -> str | None:
    asked.append(entry.path)
    assert isinstance(entry, Entry)
    return None if entry.content == "unreadable" else f"sha of {entry.content}"


def folder(path: bytes, *marks: str, mode: int = 0o755) -> Entry:
    return Entry(path=path, kind="folder", mode=mode, marks=marks)


def gone(path: bytes) -> Entry:
    return Entry(path=path, kind="whiteout", mode=0, size=0)


def view(*stack: Iterable[Entry]) -> View:
    made = View()
    for entries in stack:
        made = made.with_layer(entries, digest)
    return made


def changed(lower: list[Entry], upper: list[Entry]) -> list[tuple[bytes, str]]:
    """Each change as a path and a word."""
    below = view(lower)
    return [
        (c.path, "deleted" if c.after is None else "created" if c.before is None else "changed")
        for c in compare(below, below.with_layer(upper, digest))
    ]


BASE = [folder(b"d"), Entry(path=b"d/a"), Entry(path=b"d/b"), folder(b"d/e"), Entry(path=b"d/e/f"), Entry(path=b"g")]


def test_a_folder_that_was_only_copied_up_is_no_change_and_a_new_file_in_it_is_created() -> None:
    assert changed(BASE, [folder(b"d"), Entry(path=b"d/new")]) == [(b"d/new", "created")]


def test_a_file_that_was_only_touched_is_no_change() -> None:
    assert changed(BASE, [folder(b"d"), Entry(path=b"d/a")]) == []


@pytest.mark.parametrize(
    "entry",
    [
        Entry(path=b"g", content="other"),
        Entry(path=b"g", size=2),
        Entry(path=b"g", mode=0o755),
        Entry(path=b"g", kind="link", link=b"/etc"),
        Entry(path=b"g", kind="other"),
        folder(b"g"),
        Entry(path=b"g", content="unreadable"),
        Entry(path=b"g", marks=("user.overlay.overlay.opaque",)),
    ],
)
def test_any_difference_of_a_file_is_a_change_with_both_states(entry: Entry) -> None:
    below = view(BASE)
    (change,) = compare(below, below.with_layer([entry], digest))
    assert change.before == State(kind="file", mode=0o644, size=1, sha256="sha of a")
    assert change.after is not None
    assert (change.after.kind, change.after.mode) == (entry.kind, entry.mode)
    assert bool(change.note) == bool(entry.marks)


def test_a_deleted_folder_is_one_change_that_says_how_much_it_held() -> None:
    below = view(BASE)
    assert compare(below, below.with_layer([gone(b"d")], digest)) == [
        Change(path=b"d", before=State(kind="folder", mode=0o755, size=0), after=None, holds=4)
    ]


def test_deletions_inside_a_remade_folder_are_found_although_no_whiteout_says_so() -> None:
    remade = [folder(b"d", "user.overlay.opaque"), Entry(path=b"d/a"), Entry(path=b"d/new")]
    assert changed(BASE, remade) == [(b"d/b", "deleted"), (b"d/e", "deleted"), (b"d/new", "created")]


@pytest.mark.threat("R4")
def test_marks_that_the_kernel_did_not_write_hide_nothing_and_are_noted() -> None:
    forged = [folder(b"d", "user.overlay.overlay.opaque", "trusted.overlay.opaque")]
    below = view(BASE)
    (change,) = compare(below, below.with_layer(forged, digest))
    assert change.note == "overlay marks: user.overlay.overlay.opaque, trusted.overlay.opaque"
    assert len(below.with_layer(forged, digest)) == len(below)


@pytest.mark.threat("R4")
def test_a_whiteout_for_which_nothing_lay_below_is_a_fact() -> None:
    below = view(BASE)
    (change,) = compare(below, below.with_layer([gone(b"d/never")], digest))
    assert (change.path, change.note) == (b"d/never", layers.FORGED)


def test_a_file_in_the_place_of_a_folder_deletes_what_the_folder_held() -> None:
    assert changed(BASE, [Entry(path=b"d")]) == [
        (b"d", "changed"),
        (b"d/a", "deleted"),
        (b"d/b", "deleted"),
        (b"d/e", "deleted"),
    ]
    assert changed(BASE, [folder(b"g"), Entry(path=b"g/x")]) == [(b"g", "changed"), (b"g/x", "created")]


def test_a_rename_is_a_deletion_and_a_creation() -> None:
    assert changed(BASE, [gone(b"g"), Entry(path=b"h")]) == [(b"g", "deleted"), (b"h", "created")]


def test_two_layers_over_the_same_sources_differ_by_what_only_one_of_them_did() -> None:
    sources = view(BASE)
    package = [folder(b"m"), Entry(path=b"m/index.js", content="package"), Entry(path=b"m/bin", mode=0o644)]
    fetch = sources.with_layer(package, digest)
    hooks = [Entry(path=b"m/built"), Entry(path=b"m/bin", mode=0o755), gone(b"m/index.js"), Entry(path=b".bashrc")]
    installed = [e for e in package if e.path not in (b"m/index.js", b"m/bin")] + hooks
    install = sources.with_layer(installed, digest)
    assert [(c.path, c.after is not None) for c in compare(fetch, install)] == [
        (b".bashrc", True),
        (b"m/bin", True),
        (b"m/built", True),
        (b"m/index.js", False),
    ]


def test_content_is_asked_for_only_where_it_can_differ() -> None:
    below = view(BASE)
    asked.clear()
    after = below.with_layer([folder(b"n"), Entry(path=b"n/x"), Entry(path=b"g")], digest)
    assert compare(below, after, digests=False) != []
    assert sorted(asked) == [b"g", b"g"]
    asked.clear()
    assert compare(below, below.with_layer([], digest)) == []
    assert asked == []


def test_observations_show_the_path_as_the_target_sees_it_and_who_wrote_it() -> None:
    below = view([folder(b"home"), Entry(path=b"home/.bashrc", mode=0o600), Entry(path=b"home/old")])
    after = below.with_layer(
        [
            Entry(path=b"home/.bashrc", mode=0o600, content="b"),
            Entry(path=b"home/l\n", kind="link", link=b"/etc/\xff"),
            gone(b"home/old"),
            gone(b"home/never"),
            folder(b"log"),
        ],
        digest,
    )
    made = layers.observations(
        compare(below, after),
        (Phase.INSTALL, "ci", layers.LAYER),
        lambda text: ascii(text.decode("utf-8", "backslashreplace"))[1:-1],
        {b"/home/.bashrc": (3, 1.5)},
    )
    assert [(o.kind, o.detail) for o in made] == [
        (
            Kind.FILE_CHANGED,
            {
                "path": "/home/.bashrc",
                "kind": "file",
                "mode": "0600",
                "size": 1,
                "sha256": "sha of b",
                "before": {"kind": "file", "mode": "0600", "size": 1, "sha256": "sha of a"},
                "process": 3,
            },
        ),
        (Kind.FILE_CREATED, {"path": "/home/l\\n", "kind": "link", "link": "/etc/\\\\xff"}),
        (Kind.FILE_CREATED, {"path": "/home/never", "kind": "whiteout", "note": layers.FORGED}),
        (
            Kind.FILE_DELETED,
            {"path": "/home/old", "before": {"kind": "file", "mode": "0644", "size": 1, "sha256": "sha of a"}},
        ),
        (Kind.FILE_CREATED, {"path": "/var/log", "kind": "folder", "mode": "0755"}),
    ]
    assert [o.moment for o in made] == [1.5, None, None, None, None]
    assert {(o.phase, o.step, o.collector, o.fidelity) for o in made} == {
        (Phase.INSTALL, "ci", "layer", Fidelity.SNAPSHOTTED)
    }


def test_a_deleted_folder_says_how_much_it_held_in_its_observation() -> None:
    below = view(BASE)
    changes = compare(below, below.with_layer([gone(b"d")], digest))
    (made,) = layers.observations(changes, (Phase.INSTALL, "ci", layers.LAYER), lambda t: t.decode(), {})
    assert made.detail["holds"] == 4


def test_a_collector_says_what_the_walk_lost() -> None:
    whole = layers.collector(layers.LAYER, Phase.INSTALL, {}, {"entries": 3})
    assert (whole.state, whole.lost, whole.counts) == (CollectorState.ACTIVE, 0, {"entries": 3})
    cut = layers.collector(layers.SNAPSHOT, Phase.INSTALL, {"depth": 2, "sparse": 1}, {})
    assert (cut.state, cut.lost, cut.why) == (CollectorState.DEGRADED, 3, "depth: 2, sparse: 1")
    assert len(cut.limitations) > len(whole.limitations)


# --- a small overlay, to hold the views against: what a phase does to a plain dictionary, and the layer it would leave

NAMES = st.sampled_from([b"a", b"b", b"c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
ACTS = st.lists(st.tuples(st.sampled_from(["write", "mkdir", "delete"]), PATHS, st.sampled_from("xyz")), max_size=12)
Tree = dict[bytes, Entry]


def act(tree: Tree, what: str, path: bytes, content: str) -> None:
    """What a process does to a merged tree; impossible acts do nothing."""
    above = path.rpartition(b"/")[0]
    if above and (above not in tree or tree[above].kind != "folder"):
        return
    here = tree.get(path)
    if what == "write" and (here is None or here.kind == "file"):
        tree[path] = Entry(path=path, content=content)
    elif what == "mkdir" and here is None:
        tree[path] = folder(path)
    elif what == "delete":
        for below in [p for p in tree if p == path or p.startswith(path + b"/")]:
            del tree[below]


def layer_of(lower: Tree, upper: Tree, remade: set[bytes]) -> list[Entry]:
    """The layer that overlayfs would leave between two trees."""
    made: list[Entry] = []
    for path in sorted({*lower, *upper}):
        above = path.rpartition(b"/")[0]
        if path in upper:
            entry = upper[path]
            made.append(dataclasses.replace(entry, marks=("user.overlay.opaque",)) if path in remade else entry)
        elif not above or (above in upper and upper[above].kind == "folder" and not hidden(above, lower, remade)):
            made.append(gone(path))
    return made


def hidden(path: bytes, lower: Tree, remade: set[bytes]) -> bool:
    """Whether a folder of the lower tree does not show through: remade, or a file there."""
    parts = path.split(b"/")
    folders = [b"/".join(parts[: n + 1]) for n in range(len(parts))]
    return any(f in remade or f not in lower or lower[f].kind != "folder" for f in folders)


@given(first=ACTS, second=ACTS)
def test_a_layer_on_a_view_is_the_tree_that_was_there(
    first: list[tuple[str, bytes, str]], second: list[tuple[str, bytes, str]]
) -> None:
    lower: Tree = {}
    for what, path, content in first:
        act(lower, what, path, content)
    upper = dict(lower)
    remade: set[bytes] = set()
    for what, path, content in second:
        before = path in upper
        act(upper, what, path, content)
        if what == "mkdir" and not before and path in upper and path in lower:
            remade.add(path)
    remade = {p for p in remade if p in upper and upper[p].kind == "folder"}
    below = view(lower.values())
    after = below.with_layer(layer_of(lower, upper, remade), digest)
    assert {p: placed.entry.kind for p in after if (placed := after.get(p))} == {p: e.kind for p, e in upper.items()}
    assert compare(after, view(upper.values())) == []
    by_layer = {(c.path, c.before, c.after, c.holds) for c in compare(below, after)}
    by_snapshot = {(c.path, c.before, c.after, c.holds) for c in compare(below, view(upper.values()))}
    assert by_layer == by_snapshot


@given(first=ACTS, second=ACTS)
def test_the_difference_of_two_listings_is_a_layer_that_tells_the_same(
    first: list[tuple[str, bytes, str]], second: list[tuple[str, bytes, str]]
) -> None:
    lower: Tree = {}
    for what, path, content in first:
        act(lower, what, path, content)
    upper = dict(lower)
    for what, path, content in second:
        act(upper, what, path, content)
    below, listed = view(lower.values()), view(upper[path] for path in sorted(upper))
    after = below.with_layer(layers.difference(below, listed), digest)
    assert compare(after, listed) == []
    assert after.strays == []
    assert {*after} == {*listed}
    assert compare(below, after) == compare(below, listed)


def test_a_file_whose_content_cannot_be_read_on_either_side_is_a_change_that_says_so() -> None:
    below = view([Entry(path=b"holes", content="unreadable")])
    [change] = compare(below, view([Entry(path=b"holes", content="unreadable")]))
    assert change.note == layers.UNREAD


def test_what_was_left_out_and_lost_is_counted_in_words() -> None:
    assert layers.counted(["other", "other", "changed"], {"depth": 2}) == ("changed: 1", "depth: 2", "other: 2")
