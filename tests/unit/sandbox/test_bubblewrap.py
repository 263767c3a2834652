import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox import bubblewrap, tracing
from fumehood.sandbox.spec import (
    Bind,
    DataFile,
    Identity,
    Overlay,
    PlainFolder,
    Root,
    Route,
    SandboxSpec,
    Scratch,
    TraceMode,
)

IDENTITY = Identity(uid=10001, user="mira", host="birch-7")
TOOLS = {"setpriv": Path("/usr/bin/setpriv"), "strace": Path("/usr/bin/strace")}
LAYERS = Overlay(lowers=(Path("/run/a"), Path("/run/b")), upper=Path("/run/u"), work=Path("/run/w"))
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAMES = WORDS.filter(lambda name: name != "" and "=" not in name)


def make(**changes: object) -> SandboxSpec:
    values: dict[str, object] = {
        "argv": ("/bin/true",),
        "environment": (("PATH", "/usr/bin"),),
        "workdir": "/home/mira",
        "identity": IDENTITY,
        "overlay": LAYERS,
    }
    return SandboxSpec(**(values | changes))  # type: ignore[arg-type]  # checked by the dataclass's users


def descriptors(spec: SandboxSpec) -> bubblewrap.Descriptors:
    files = tuple(range(100, 100 + len(bubblewrap.data_files(spec))))
    return bubblewrap.Descriptors(files=files, seccomp=90, info=91, block=92)


def options(spec: SandboxSpec, route: Route = Route.USER) -> list[str]:
    return bubblewrap.options(spec, route, descriptors(spec))


def following(words: list[str], option: str, count: int) -> list[tuple[str, ...]]:
    return [tuple(words[i + 1 : i + 1 + count]) for i, word in enumerate(words) if word == option]


@given(pairs=st.lists(st.tuples(NAMES, WORDS), max_size=8))
@pytest.mark.threat("R2")
def test_the_environment_is_exactly_the_specs(pairs: list[tuple[str, str]]) -> None:
    words = options(make(environment=tuple(pairs)))
    start = words.index("--clearenv")
    got = [(words[i + 1], words[i + 2]) for i in range(start + 1, start + 1 + 3 * len(pairs), 3)]
    assert got == pairs
    assert words[start + 1 + 3 * len(pairs)] == "--seccomp"
    assert not any("--setenv" in w for w in words[:start])


def test_nothing_of_the_parents_environment_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    before = options(make())
    monkeypatch.setenv("GITHUB_TOKEN", "planted")
    monkeypatch.setenv("PATH", "/planted")
    assert options(make()) == before
    assert not any("planted" in word for word in before)


@pytest.mark.parametrize("pair", [("", "x"), ("A=B", "x"), ("A", "x\0--bind\0/\0/"), ("A\0B", "x")])
def test_a_name_or_value_that_could_become_an_option_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(bubblewrap.BadSpecError):
        options(make(environment=(pair,)))


@given(words=st.lists(WORDS, max_size=10))
def test_packing_keeps_each_word_apart(words: list[str]) -> None:
    packed = bubblewrap.packed(words)
    assert packed.count(b"\0") == len(words)
    assert [w.decode() for w in packed.split(b"\0")[:-1]] == words


def test_a_path_that_is_not_text_survives_packing() -> None:
    name = os.fsdecode(b"/run/\xff")
    assert bubblewrap.packed([name]) == b"/run/\xff\0"


@pytest.mark.parametrize("route", Route)
def test_every_namespace_is_always_unshared(route: Route) -> None:
    words = options(make(), route)
    assert {"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net"} <= set(words)
    assert {"--die-with-parent", "--new-session"} <= set(words)
    assert "--share-net" not in words
    assert ("--unshare-user" in words) == (route is not Route.ROOT)
    assert ("--disable-userns" in words) == (route is not Route.ROOT)
    spec = make()
    free = bubblewrap.options(spec, route, descriptors(spec), userns_limit=False)
    assert free == [word for word in words if word != "--disable-userns"]
    assert ("--cap-add" in words) == (route is Route.ROOT)


def test_layers_are_named_bottom_first_and_everything_is_remounted_last() -> None:
    words = options(make())
    assert following(words, "--overlay-src", 1) == [("/run/a",), ("/run/b",)]
    assert following(words, "--overlay", 3) == [("/run/u", "/run/w", "/var")]
    last_mount = max(i for i, w in enumerate(words) if w in {"--ro-bind-data", "--bind", "--ro-bind", "--overlay"})
    assert last_mount < words.index("--remount-ro")
    assert following(words, "--remount-ro", 1) == [("/proc/1",), ("/dev",), ("/",)]


def test_perms_stand_right_before_each_data_file() -> None:
    words = options(make(files=(DataFile(target="/etc/extra", content=b"x", mode=0o400),)))
    places = [i for i, w in enumerate(words) if w == "--ro-bind-data"]
    assert all(words[i - 2] == "--perms" for i in places)
    assert words[places[-1] - 1 : places[-1] + 3] == ["0400", "--ro-bind-data", words[places[-1] + 1], "/etc/extra"]


def test_each_parent_is_made_before_its_child_and_none_in_the_overlay_or_usr() -> None:
    binds = (
        Bind(source=Path("/x/node"), target="/opt/node/bin"),
        Bind(source=Path("/x/cache"), target="/var/home/mira/.npm", writable=True),
        Bind(source=Path("/x/lib"), target="/usr/lib/thing"),
    )
    words = options(make(binds=binds))
    folders = [w for (w,) in following(words, "--dir", 1)]
    assert "/opt/node" in folders
    assert folders.index("/opt") < folders.index("/opt/node")
    assert not [f for f in folders if f.startswith(("/var/", "/usr"))]
    assert words.index("/opt/node") < words.index("/x/node")
    assert words.index("--overlay") < words.index("/x/cache")
    assert following(words, "--bind", 2) == [("/x/cache", "/var/home/mira/.npm")]


def test_without_layers_tmp_and_home_are_bounded() -> None:
    words = options(make(overlay=None))
    sizes = {words[i + 1]: words[i - 2 : i] for i, w in enumerate(words) if w == "--tmpfs"}
    assert set(sizes) == {"/proc/1", "/dev/shm", "/tmp", "/home/mira"}
    assert all(option == "--size" and int(value) > 0 for option, value in sizes.values())


def test_a_specs_file_replaces_ours() -> None:
    spec = make(files=(DataFile(target="/etc/hosts", content=b"mine"),))
    hosts = [f for f in bubblewrap.data_files(spec) if f.target == "/etc/hosts"]
    assert [f.content for f in hosts] == [b"mine"]


def test_the_identity_is_what_etc_says() -> None:
    files = {f.target: f.content for f in bubblewrap.data_files(make())}
    assert b"mira:x:10001:10001::/home/mira:/bin/sh\n" in files["/etc/passwd"]
    assert b"birch-7" in files["/etc/hosts"]
    assert b"nameserver 127.0.0.1\n" in files["/etc/resolv.conf"]
    assert b"ndots:1" in files["/etc/resolv.conf"]


@pytest.mark.parametrize("target", ["relative", "/a/../b", "/a/", "//a", "/a/./b"])
def test_a_target_that_is_not_a_plain_absolute_path_is_refused(target: str) -> None:
    with pytest.raises(bubblewrap.BadSpecError):
        options(make(binds=(Bind(source=Path("/x"), target=target),)))


def test_too_few_descriptors_are_refused() -> None:
    spec = make()
    with pytest.raises(bubblewrap.BadSpecError):
        bubblewrap.options(spec, Route.USER, bubblewrap.Descriptors(files=(), seccomp=1, info=2, block=3))


@pytest.mark.parametrize("argv", [(), ("true",)])
def test_a_command_is_absolute(argv: tuple[str, ...]) -> None:
    with pytest.raises(bubblewrap.BadSpecError):
        bubblewrap.command(make(argv=argv), Route.USER, "/usr/bin/setpriv")


def test_only_the_root_route_drops_inside() -> None:
    inside = bubblewrap.command(make(), Route.ROOT, "/usr/bin/setpriv")
    assert inside[:3] == ["/usr/bin/setpriv", "--reuid=10001", "--regid=10001"]
    assert inside[-2:] == ["--", "/bin/true"]
    assert "--no-new-privs" in inside
    assert bubblewrap.command(make(), Route.USER, "/usr/bin/setpriv") == ["/bin/true"]


@pytest.mark.parametrize("route", Route)
@pytest.mark.parametrize("traced", [True, False])
def test_the_outermost_process_dies_with_us(route: Route, *, traced: bool) -> None:
    trace = tracing.words(TOOLS["strace"], TraceMode.PLAIN, "/run/fifo") if traced else []
    words = bubblewrap.chain(route, 10001, TOOLS, ["/bwrap", "--args", "5"], trace)
    assert words[0] == "/usr/bin/setpriv"
    first = words[: words.index("--")]
    assert first[first.index("--pdeathsig") + 1] == "KILL"
    assert words[-3:] == ["/bwrap", "--args", "5"]
    assert words.count("--reuid=10001") == (1 if route is Route.DROPPED else 0)
    if traced and route is Route.DROPPED:  # the tracer stays root: the target must not be able to signal it
        assert words.index("/usr/bin/strace") < words.index("--reuid=10001")


@pytest.mark.parametrize("mode", TraceMode)
def test_every_mode_follows_children_and_says_kernel_paths_and_outer_pids(mode: TraceMode) -> None:
    words = tracing.words("/usr/bin/strace", mode, "/run/fifo")
    assert {"-f", "-y", "--decode-pids=pidns"} <= set(words)
    assert words[-1] == "--"
    assert words[words.index("-o") + 1] == "/run/fifo"
    assert ("--seccomp-bpf" in words) == (mode is not TraceMode.PLAIN)
    assert "signal=!SIGCHLD" in words
    assert not any("%process" in word or "wait" in word for word in words)  # each pid shown costs a walk through /proc


@pytest.mark.parametrize("route", list(Route))
def test_a_plain_folder_takes_the_place_of_the_overlay_and_nothing_else_changes(route: Route) -> None:
    by_overlay = options(make(), route)
    by_folder = options(make(overlay=PlainFolder(upper=Path("/run/u"))), route)
    at = by_overlay.index("--overlay-src")
    mounted = ["--overlay-src", "/run/a", "--overlay-src", "/run/b", "--overlay", "/run/u", "/run/w", "/var"]
    assert by_overlay[at : at + 8] == mounted
    assert by_folder == [*by_overlay[:at], "--bind", "/run/u", "/var", *by_overlay[at + 8 :]]


def test_a_root_of_files_has_nothing_but_what_the_spec_names() -> None:
    spec = make(
        root=Root.FILES,
        overlay=None,
        workdir="/",
        binds=(Bind(source=Path("/usr/lib/a.so"), target="/lib/a.so"),),
        files=(DataFile(target="/etc/x/y", content=b""),),
        scratch=(Scratch(target="/s", size_bytes=4096),),
    )
    words = options(spec)
    shown = words[words.index("--hostname") + 2 : words.index("--clearenv")]
    assert shown == [
        *("--dir", "/lib", "--dir", "/etc", "--dir", "/etc/x"),
        *("--perms", "0777", "--size", "4096", "--tmpfs", "/s"),
        *("--ro-bind", "/usr/lib/a.so", "/lib/a.so", "--perms", "0444", "--ro-bind-data", "100", "/etc/x/y"),
        *("--chdir", "/", "--remount-ro", "/"),
    ]


@pytest.mark.parametrize(
    "changes", [{}, {"overlay": None, "binds": (Bind(source=Path("/a"), target="/a", writable=True),)}]
)
def test_a_root_of_files_has_nowhere_to_write_but_its_scratch(changes: dict[str, object]) -> None:
    with pytest.raises(bubblewrap.BadSpecError):
        options(make(root=Root.FILES, **changes))


def test_the_systems_root_takes_no_scratch() -> None:
    with pytest.raises(bubblewrap.BadSpecError):
        options(make(scratch=(Scratch(target="/s", size_bytes=4096),)))
