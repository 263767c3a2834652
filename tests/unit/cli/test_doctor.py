import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import jsonschema_rs
import msgspec
import pytest
from click.testing import CliRunner

from fumehood.cli import codereport, doctorreport
from fumehood.cli.codereport import Code, as_lines
from fumehood.cli.doctor import doctor
from fumehood.cli.doctorreport import DoctorReport, Proof, as_table, report
from fumehood.code import attest, attestation, statefile
from fumehood.code.run import prepare
from fumehood.core.clock import SystemClock
from fumehood.sandbox.containment import Containment, Wall, WallState
from fumehood.sandbox.hostfacts import CgroupFacts, HostFacts, Probe, Tool
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.probe import runtime
from fumehood.sandbox.probe.libraries import LibraryError
from fumehood.sandbox.probe.standing import foresee
from fumehood.sandbox.probe.tools import Candidate
from fumehood.sandbox.proof import matrix as proof
from fumehood.sandbox.proof.proving import Proven
from fumehood.sandbox.spec import Root, Route
from fumehood.serve import standing
from fumehood.serve.invariants import Broken
from fumehood.serve.standing import Standing

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "src" / "fumehood" / "data" / "schemas" / "doctor.json"


def host(*routes: Route, probes: tuple[Probe, ...] = ()) -> HostFacts:
    return HostFacts(
        system="Linux",
        machine="x86_64",
        kernel="6.18",
        uid=0,
        routes=routes,
        tools={"git": Tool(name="git", path=Path("/usr/bin/git"), version="2.39", sha256="ab", origin="system")},
        cgroups=CgroupFacts(version=1, roots={"memory": Path("/m"), "pids": Path("/p")}),
        landlock_abi=7,
        run_root=Path("/r"),
        probes=probes,
    )


NO_LANDLOCK = Wall(name="writing", state=WallState.UNAVAILABLE, why="no Landlock", remedy="a newer kernel")
SECCOMP = Wall(name="seccomp", state=WallState.ENFORCED, how="profile")


def serving(result: str = "", *, walls: tuple[Wall, ...] = (SECCOMP,)) -> Standing:
    """What is found of serving; with a result, its one wall is proven so."""
    shown = Proven(wall="seccomp", result=result, with_wall={"fork": "EPERM"}, without_wall={"fork": "worked"})
    return Standing(
        containments=(Containment(route="serving", walls=walls),),
        programs=(Candidate(name="git", path=Path("/usr/bin/git"), origin="system", version="2.39"),),
        checks=(Probe(name="starter", ok=False, detail="it ended", remedy="look at the log"),),
        warnings=(Broken(name="redaction", problem="redaction is off", remedy="unset it"),),
        proofs=(("serving", (shown,)),) if result else None,
    )


CODE = Code(
    runs=True, route="user", deno="2.9.8", why="", remedy="", self_test=codereport.self_test(None), runner_url=""
)
SECTION = doctorreport.Jobs(
    serve=doctorreport.serve(
        doctorreport.Serving(stands=True, containments=(), programs=(), checks=(), warnings=(), proofs=None)
    ),
    code=CODE,
)


def run(
    monkeypatch: pytest.MonkeyPatch, facts: HostFacts, *words: str, programs: HostFacts | None = None
) -> tuple[str, object]:
    def probed(
        choices: Mapping[str, Path], *, quick: bool, run_root: Path | None, root: Root = Root.SYSTEM
    ) -> HostFacts:
        assert not choices
        assert not quick
        assert run_root is None
        return (programs or facts) if root is Root.FILES else facts

    monkeypatch.setattr(probe, "probe_host", probed)
    monkeypatch.setattr(standing, "look", lambda _, *, prove: serving("held" if prove else ""))
    result = CliRunner().invoke(doctor, list(words), standalone_mode=False)
    assert result.exception is None, result.output
    return result.stdout, result.return_value


def test_the_published_schema_is_that_of_the_document() -> None:
    text = json.dumps(doctorreport.schema(), indent=2) + "\n"
    assert PUBLISHED.read_text() == text
    assert (ROOT / "docs" / "reference" / "doctor.schema.json").read_text() == text


@pytest.mark.parametrize("routes", [(), (Route.USER,), (Route.DROPPED, Route.ROOT)])
def test_json_is_one_document_that_fits_the_published_schema(
    monkeypatch: pytest.MonkeyPatch, routes: tuple[Route, ...]
) -> None:
    stdout, status = run(monkeypatch, host(*routes), "--json")
    document = json.loads(stdout)
    jsonschema_rs.validate(json.loads(PUBLISHED.read_text()), document)
    assert status == 0
    assert document["route"] == (routes[0] if routes else None)
    assert msgspec.json.decode(stdout, type=DoctorReport).host.kernel == "6.18"


def test_full_is_required_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, host(), "--require", "full")[1] == 3
    assert run(monkeypatch, host())[1] == 0
    assert run(monkeypatch, host(Route.USER), "--require", "full")[1] == 0


def test_a_person_reads_what_stands_what_fails_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Probe(name="nft", ok=False, detail="no nat", remedy="modprobe nft_redir")
    stdout, _ = run(monkeypatch, host(Route.DROPPED, Route.ROOT, probes=(failed,)))
    assert "route dropped" in stdout
    assert "also possible: root" in stdout
    assert "/usr/bin/git" in stdout
    assert "remedy: modprobe nft_redir" in stdout
    assert "full containment: yes" in stdout


def test_a_host_without_a_route_says_that_nothing_can_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = Probe(name="route user", ok=False, detail="AppArmor", remedy="a profile")
    stdout, _ = run(monkeypatch, host(probes=(failed,)))
    assert "nothing can be confined" in stdout
    assert "why: no route works: route user: AppArmor" in stdout
    assert "full containment: no" in stdout


def proven(monkeypatch: pytest.MonkeyPatch, result: str) -> None:
    async def prove(facts: HostFacts, route: Route) -> list[Proven]:
        assert route in facts.routes
        return [Proven(wall="seccomp", result=result, with_wall={"mount": "EPERM"}, without_wall={"mount": "mounted"})]

    monkeypatch.setattr(proof, "prove", prove)


@pytest.mark.parametrize(("result", "status"), [("held", 0), ("not_proven", 0), ("not_held", 3)])
def test_a_wall_that_does_not_hold_ends_with_3(monkeypatch: pytest.MonkeyPatch, result: str, status: int) -> None:
    proven(monkeypatch, result)
    stdout, ended = run(monkeypatch, host(Route.USER), "--prove", "--json")
    assert ended == status
    document = json.loads(stdout)
    jsonschema_rs.validate(json.loads(PUBLISHED.read_text()), document)
    assert document["proofs"][0]["result"] == result


def test_nothing_is_proven_where_nothing_can_be_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout, status = run(monkeypatch, host(), "--prove", "--json")
    assert (json.loads(stdout)["proofs"], status) == ([], 3)


def test_the_operators_programs_and_place_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def probed(
        choices: Mapping[str, Path], *, quick: bool, run_root: Path | None, root: Root = Root.SYSTEM
    ) -> HostFacts:
        asked.extend([dict(choices), quick, run_root, root])
        return host(Route.USER)

    monkeypatch.setattr(probe, "probe_host", probed)
    monkeypatch.setattr(standing, "look", lambda *_, **__: serving())
    monkeypatch.setenv("FUMEHOOD_SANDBOX__BWRAP", "/mine/bwrap")
    monkeypatch.setenv("FUMEHOOD_SANDBOX__RUN_ROOT", "/mine/runs")
    result = CliRunner().invoke(doctor, ["--json"], standalone_mode=False)
    assert result.exception is None
    mine = [{"bwrap": Path("/mine/bwrap")}, False, Path("/mine/runs")]
    assert asked == [*mine, Root.SYSTEM, *mine, Root.FILES]


def test_proofs_are_shown_with_both_sides() -> None:
    facts = host(Route.USER)
    shown = Proof(
        wall="pid_namespace", result="held", why="", with_wall={"signal": "ESRCH"}, without_wall={"signal": "sent"}
    )
    text = as_table(report(facts, foresee(facts), [shown], SECTION, "0"))
    assert "signal: ESRCH / without: sent" in text


def test_serving_is_told_with_what_is_missing_and_what_production_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout, status = run(monkeypatch, host(Route.USER))
    assert "its walls stand here" not in stdout  # the starter did not answer
    assert "serving    1 of 1 walls can stand" in stdout
    assert "production refuses: redaction is off" in stdout
    assert "remedy: look at the log" in stdout
    assert status == 0
    found = doctorreport.Serving(
        stands=False,
        containments=serving(walls=(NO_LANDLOCK, SECCOMP)).containments,
        programs=(),
        checks=(),
        warnings=(),
        proofs=None,
    )
    jobs = doctorreport.Jobs(serve=doctorreport.serve(found), code=CODE)
    text = as_table(report(host(Route.USER), foresee(host(Route.USER)), None, jobs, "0"))
    assert "serving    1 of 2 walls can stand\n      writing cannot\n      why: no Landlock" in text


@pytest.mark.parametrize(("result", "status"), [("held", 0), ("not_proven", 0), ("not_held", 3)])
def test_a_wall_of_serving_that_does_not_hold_ends_with_3(
    monkeypatch: pytest.MonkeyPatch, result: str, status: int
) -> None:
    proven(monkeypatch, "held")
    monkeypatch.setattr(probe, "probe_host", lambda *_, **__: host(Route.USER))
    monkeypatch.setattr(standing, "look", lambda _, *, prove: serving(result if prove else ""))
    ended = CliRunner().invoke(doctor, ["--prove"], standalone_mode=False)
    assert ended.exception is None
    assert ended.return_value == status
    assert "Proofs of serving" in ended.stdout
    assert "fork: EPERM / without: worked" in ended.stdout


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[HostFacts], None]:
    """Remember a self test of a host and the Deno of this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def remember(facts: HostFacts) -> None:
        found = runtime.find({}).runtime
        file = attest.file({"XDG_STATE_HOME": str(tmp_path)})
        assert found
        assert file
        now = int(SystemClock().now().timestamp())
        record = attestation.Attestation(passed_at=now, trials=28, facts=attest.facts(prepare(facts, found)))
        assert statefile.write(file, attestation.encode(record)) == ""

    return remember


def test_programs_are_told_to_run_by_what_and_since_which_self_test(
    monkeypatch: pytest.MonkeyPatch, remembered: Callable[[HostFacts], None]
) -> None:
    facts = host(Route.USER)
    stdout, _ = run(monkeypatch, facts)
    assert "they can be run here, by the route user, with Deno 2." in stdout
    assert "none is remembered; does not count: there is none\n      remedy: fumehood code selftest" in stdout
    remembered(facts)
    stdout, _ = run(monkeypatch, facts)
    assert "28 trials, with what is here" in stdout
    stdout, _ = run(monkeypatch, host(Route.DROPPED), "--json")
    told = json.loads(stdout)["code"]
    assert (told["runs"], told["route"], told["runner_url"]) == (True, "dropped", "")
    assert told["self_test"]["counts"] is False
    assert told["self_test"]["passed_at"]
    assert told["self_test"]["reasons"] == ["the route to a sandbox has changed"]


def test_programs_have_routes_of_their_own_where_a_review_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout, _ = run(monkeypatch, host(), "--json", programs=host(Route.DROPPED))
    document = json.loads(stdout)
    assert document["routes"] == []
    assert (document["code"]["runs"], document["code"]["route"]) == (True, "dropped")


def test_where_no_program_can_be_run_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout, _ = run(monkeypatch, host(), "--json")
    told = json.loads(stdout)["code"]
    assert (told["runs"], told["route"], told["self_test"]["counts"]) == (False, None, False)
    assert "no route" in told["why"]
    monkeypatch.setenv("FUMEHOOD_SANDBOX__DENO", "/nonexistent/deno")
    monkeypatch.setattr(probe, "probe_host", lambda *_, **__: host(Route.USER))
    monkeypatch.setattr(standing, "look", lambda *_, **__: serving())
    result = CliRunner().invoke(doctor, [], standalone_mode=False)
    assert "Running programs: none can be run here\n      why: no Deno to run programs with" in result.stdout
    monkeypatch.delenv("FUMEHOOD_SANDBOX__DENO")

    def lacks(*_: object) -> None:
        raise LibraryError("libx.so is missing", remedy="install it")

    monkeypatch.setattr("fumehood.code.run.prepare", lacks)
    result = CliRunner().invoke(doctor, [], standalone_mode=False)
    assert "why: libx.so is missing\n      remedy: install it" in result.stdout


def test_programs_that_are_sent_elsewhere_are_told() -> None:
    lines = as_lines(msgspec.structs.replace(CODE, runner_url="ws://runner:8777"))
    assert lines[-1] == "  they are sent to ws://runner:8777, and none is run here"


@pytest.mark.sandbox
def test_doctor_asks_this_host() -> None:
    result = CliRunner().invoke(doctor, ["--json"], standalone_mode=False)
    assert result.exception is None
    document = json.loads(result.stdout)
    jsonschema_rs.validate(json.loads(PUBLISHED.read_text()), document)
    assert all(program["sha256"] for program in document["programs"])


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "--json"]])
def test_a_stdout_that_is_full_is_said_in_words(words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, "-m", "fumehood", *words]
        env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}  # the buffer is the point
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 5
    assert "Exception ignored" not in done.stderr
    assert done.stderr.startswith("fumehood: stdout cannot be written")
