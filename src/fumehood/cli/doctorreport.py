"""What `fumehood doctor` reports: one document for machines, the same as a table for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from fumehood.cli.codereport import Code, as_lines
from fumehood.sandbox.containment import Containment, Wall
from fumehood.sandbox.hostfacts import HostFacts, Probe, Tool
from fumehood.sandbox.probe.standing import ROUTES_IN_WORDS, is_full
from fumehood.sandbox.proof.proving import Proven
from fumehood.sandbox.spec import Route


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The machine."""

    system: str
    machine: str
    kernel: str
    uid: int
    landlock_abi: int
    run_root: str


class WallReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wall: whether it would stand, by what, or why not and what to do."""

    name: str
    state: Literal["enforced", "unavailable", "not_requested"]
    how: str
    why: str
    remedy: str


class Program(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program that would be used."""

    name: str
    path: str
    version: str
    sha256: str
    origin: Literal["wheel", "system", "operator"]


class Cgroups(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where cgroups can be made: controller to folder."""

    version: Literal[1, 2] | None
    roots: dict[str, str]
    why: str


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question put to the host."""

    name: str
    ok: bool
    detail: str
    remedy: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One wall, tried from inside with it and without it."""

    wall: str
    result: Literal["held", "not_held", "not_proven"]
    why: str
    with_wall: dict[str, str]  # act → what came of it
    without_wall: dict[str, str]


class Process(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of process of a server: its walls, and with `--prove` their proofs."""

    name: Literal["serving", "programs", "symbols", "audit"]
    walls: list[WallReport]
    proofs: list[Proof] | None


class Warned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that production refuses."""

    name: str
    problem: str
    remedy: str


class Serve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Serving a workspace on this host, with these settings."""

    stands: bool
    processes: list[Process]
    programs: list[Program]
    checks: list[Check]
    warnings: list[Warned]


class DoctorReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document that `fumehood doctor --json` prints."""

    schema_version: Literal[1]
    fumehood: str
    host: Host
    route: Literal["user", "dropped", "root"] | None
    routes: list[Literal["user", "dropped", "root"]]
    full: bool
    walls: list[WallReport]
    programs: list[Program]
    cgroups: Cgroups
    checks: list[Check]
    proofs: list[Proof] | None
    serve: Serve
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The sections about what fumehood does with a host, beside reviews."""

    serve: Serve
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What was found of serving, as values: the walls of each kind of process, and their proofs where asked for."""

    stands: bool
    containments: Sequence[Containment]
    programs: Sequence[Tool]
    checks: Sequence[Probe]
    warnings: Sequence[tuple[str, str, str]]  # name, problem, remedy
    proofs: Mapping[str, Sequence[Proven]] | None


def serve(found: Serving) -> Serve:
    """The section about serving. Pure."""
    return Serve(
        stands=found.stands,
        processes=[
            msgspec.convert(
                {
                    "name": one.route,
                    "walls": [_wall(wall) for wall in one.walls],
                    "proofs": None if found.proofs is None else [as_proof(each) for each in found.proofs[one.route]],
                },
                Process,
            )
            for one in found.containments
        ],
        programs=[_program(one) for one in found.programs],
        checks=[_check(one) for one in found.checks],
        warnings=[Warned(name=name, problem=problem, remedy=remedy) for name, problem, remedy in found.warnings],
    )


def report(
    facts: HostFacts, containment: Containment, proofs: list[Proof] | None, jobs: Jobs, version: str
) -> DoctorReport:
    """The document about one host. Pure."""
    return DoctorReport(
        schema_version=1,
        fumehood=version,
        host=Host(
            system=facts.system,
            machine=facts.machine,
            kernel=facts.kernel,
            uid=facts.uid,
            landlock_abi=facts.landlock_abi,
            run_root=str(facts.run_root),
        ),
        route=_word(facts.routes[0]) if facts.routes else None,
        routes=[_word(route) for route in facts.routes],
        full=is_full(containment),
        walls=[_wall(wall) for wall in containment.walls],
        programs=[_program(tool) for tool in facts.tools.values()],
        cgroups=msgspec.convert(
            {
                "version": facts.cgroups.version,
                "roots": {name: str(path) for name, path in facts.cgroups.roots.items()},
                "why": facts.cgroups.why,
            },
            Cgroups,
        ),
        checks=[_check(one) for one in facts.probes],
        proofs=proofs,
        serve=jobs.serve,
        code=jobs.code,
    )


def _wall(wall: Wall) -> WallReport:
    return WallReport(name=wall.name, state=wall.state.value, how=wall.how, why=wall.why, remedy=wall.remedy)


def _program(tool: Tool) -> Program:
    return msgspec.convert({field: str(getattr(tool, field)) for field in Program.__struct_fields__}, Program)


def _check(probe: Probe) -> Check:
    return Check(name=probe.name, ok=probe.ok, detail=probe.detail, remedy=probe.remedy)


def as_proof(proven: Proven) -> Proof:
    """One proof as the document carries it."""
    return msgspec.convert(
        {
            "wall": proven.wall,
            "result": proven.result,
            "why": proven.why,
            "with_wall": dict(proven.with_wall),
            "without_wall": dict(proven.without_wall),
        },
        Proof,
    )


def _word(route: Route) -> Literal["user", "dropped", "root"]:
    match route:
        case Route.USER:
            return "user"
        case Route.DROPPED:
            return "dropped"
        case Route.ROOT:
            return "root"


def as_table(document: DoctorReport) -> str:
    """The document for a person. Pure."""
    host = document.host
    lines = [f"fumehood {document.fumehood} on {host.system} {host.kernel} {host.machine}, uid {host.uid}"]
    if document.route:
        also = f" (also possible: {', '.join(document.routes[1:])})" if document.routes[1:] else ""
        lines.append(f"route {document.route}: {ROUTES_IN_WORDS[Route(document.route)]}{also}")
    else:
        lines.append("no route works here: nothing can be confined")
        lines += _because(document.walls[0].why, document.walls[0].remedy)
    lines += ["", "Walls"]
    for wall in document.walls:
        lines.append(f"  {wall.name:<18} {wall.state.replace('_', ' '):<13} {wall.how}".rstrip())
        lines += _because(wall.why, wall.remedy) if wall.state == "unavailable" and document.route else []
    lines += ["", "Programs"]
    for program in document.programs:
        lines.append(f"  {program.name:<8} {program.version:<9} {program.origin:<8} {program.path}")
        lines.append(f"           sha256 {program.sha256}")
    lines += ["", "Checks"]
    for check in document.checks:
        lines.append(f"  {'ok' if check.ok else 'NO':<3} {check.name:<20} {check.detail}")
        lines += _because("", check.remedy) if not check.ok else []
    where = f"version {document.cgroups.version}" if document.cgroups.version else f"none: {document.cgroups.why}"
    lines.append(f"      cgroups              {where}")
    lines.append(f"      Landlock             {f'version {host.landlock_abi}' if host.landlock_abi else 'none'}")
    lines.append(f"      run folders          {host.run_root}")
    lines += _proofs("Proofs", document.proofs) if document.proofs is not None else []
    lines += [*_serving(document.serve), "", *as_lines(document.code)]
    return "\n".join([*lines, "", f"full containment: {'yes' if document.full else 'no'}"])


def _serving(found: Serve) -> list[str]:
    lines = ["", f"Serving a workspace: {'its walls stand here' if found.stands else 'would be refused here'}"]
    for process in found.processes:
        missing = [wall for wall in process.walls if wall.state == "unavailable"]
        stood = sum(wall.state == "enforced" for wall in process.walls)
        lines.append(f"  {process.name:<10} {stood} of {len(process.walls)} walls can stand")
        for wall in missing:
            lines += [f"      {wall.name} cannot", *_because(wall.why, wall.remedy)]
    lines += [f"  {one.name:<10} {one.version or '-':<9} {one.origin:<8} {one.path}" for one in found.programs]
    for check in found.checks:
        lines.append(f"  {'ok' if check.ok else 'NO':<3} {check.name:<20} {check.detail}")
        lines += _because("", check.remedy) if not check.ok else []
    for one in found.warnings:
        lines.append(f"  production refuses: {one.problem}")
        lines += _because("", one.remedy)
    for process in found.processes:
        lines += _proofs(f"Proofs of {process.name}", process.proofs) if process.proofs is not None else []
    return lines


def _because(why: str, remedy: str) -> list[str]:
    return ([f"      why: {why}"] if why else []) + ([f"      remedy: {remedy}"] if remedy else [])


def _proofs(head: str, proofs: list[Proof]) -> list[str]:
    lines = ["", f"{head} (the same acts with the wall, and with that wall taken away)"]
    for proof in proofs:
        lines.append(f"  {proof.wall:<18} {proof.result.replace('_', ' '):<11} {proof.why}".rstrip())
        lines += [
            f"      {act}: {outcome} / without: {proof.without_wall.get(act, 'not run')}"
            for act, outcome in proof.with_wall.items()
        ]
    return lines


SCHEMA_ID = "urn:fumehood:doctor:1"


def schema() -> dict[str, object]:
    """The JSON Schema of the document, as it is published in `data/schemas/doctor.json`."""
    published = msgspec.json.schema(DoctorReport)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "What fumehood doctor reports",
    }
    return head | published
