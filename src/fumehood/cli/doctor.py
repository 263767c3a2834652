"""`fumehood doctor`: what this host can confine, by which route, with which programs, and what is missing.

Data goes to stdout (a table, or one JSON document with `--json`); it ends with 0, or with 3 when `--require full` is
not met, or when with `--prove` a wall did not hold or no route works.
"""

import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fumehood.cli import render
from fumehood.core.errors import UnsupportedError

if TYPE_CHECKING:
    from fumehood.cli.codereport import Code
    from fumehood.cli.doctorreport import Proof, Serve
    from fumehood.core.sections import Settings
    from fumehood.sandbox.hostfacts import HostFacts
    from fumehood.sandbox.probe.runtime import Found


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--require", type=click.Choice(["full"]), help="End with 3 unless every wall of the route stands.")
@click.option("--prove", is_flag=True, help="Try each wall from inside, with it and with it taken away.")
def doctor(*, as_json: bool, require: str | None, prove: bool) -> int:
    """Say what this host can confine, and what is missing."""
    import msgspec

    from fumehood.cli.doctorreport import Jobs, as_table, report
    from fumehood.cli.start import start
    from fumehood.sandbox.probe import host as probe
    from fumehood.sandbox.probe import runtime
    from fumehood.sandbox.probe.standing import foresee
    from fumehood.sandbox.spec import Root

    settings = start()
    chosen = settings.sandbox
    run_root = Path(chosen.run_root) if chosen.run_root else None
    found = runtime.find(chosen.tools)
    facts = _with_deno(probe.probe_host(chosen.tools, quick=False, run_root=run_root), found)
    proofs = _proofs(facts) if prove else None
    serving = _serving(settings, prove=prove)
    programs = probe.probe_host(chosen.tools, quick=False, run_root=run_root, root=Root.FILES)
    jobs = Jobs(serve=serving, code=_coding(programs, found, settings.code.runner_url or ""))
    document = report(facts, foresee(facts), proofs, jobs, importlib.metadata.version("fumehood"))
    if as_json:
        render.document(msgspec.to_builtins(document))
    else:
        render.data(as_table(document))
    unmet = require == "full" and not document.full
    tried = [*(proofs or []), *(proof for one in serving.processes for proof in one.proofs or [])]
    failed = prove and (not facts.routes or any(proof.result == "not_held" for proof in tried))
    return UnsupportedError.exit_status if unmet or failed else 0


def _with_deno(facts: "HostFacts", found: "Found") -> "HostFacts":
    """The same host with the Deno that would run programs, or with the reason why there is none."""
    import dataclasses

    tools = facts.tools | ({found.runtime.tool.name: found.runtime.tool} if found.runtime else {})
    probes = (*facts.probes, *((found.problem,) if found.problem else ()))
    return dataclasses.replace(facts, tools=tools, probes=probes)


def _coding(facts: "HostFacts", found: "Found", runner_url: str) -> "Code":
    """The section about running programs. `facts` are those for a root of files, which is all that a program needs."""
    import msgspec

    from fumehood.cli.codereport import Code, self_test
    from fumehood.code import attest
    from fumehood.code.run import prepare
    from fumehood.core.clock import SystemClock

    why, remedy, remembered = "no route to a sandbox works here", "the checks say why each does not", None
    if found.problem is not None:
        why, remedy = f"no Deno to run programs with: {found.problem.detail}", found.problem.remedy
    elif facts.routes and found.runtime is not None:
        why, remedy = "", ""
        try:
            here = attest.facts(prepare(facts, found.runtime))
            remembered = attest.standing(here, attest.file(os.environ), SystemClock())
        except UnsupportedError as error:
            why, remedy = error.message, error.remedy
    return msgspec.convert(
        {
            "runs": not why,
            "route": facts.routes[0].value if facts.routes else None,
            "deno": found.runtime.tool.version if found.runtime else "",
            "why": why,
            "remedy": remedy,
            "self_test": self_test(remembered),
            "runner_url": runner_url,
        },
        Code,
    )


def _proofs(facts: "HostFacts") -> "list[Proof]":
    """The proofs for the route that would be taken; none where there is no route."""
    import asyncio

    from fumehood.cli.doctorreport import as_proof
    from fumehood.sandbox.proof.matrix import prove

    if not facts.routes:
        return []
    render.words(f"trying each wall of the route {facts.routes[0]}; this takes some seconds")
    return [as_proof(proven) for proven in asyncio.run(prove(facts, facts.routes[0]))]


def _serving(settings: "Settings", *, prove: bool) -> "Serve":
    """The section about serving."""
    from fumehood.cli.doctorreport import Serving, serve
    from fumehood.sandbox.probe.tools import tool
    from fumehood.serve import standing

    found = standing.look(settings, prove=prove)
    return serve(
        Serving(
            stands=found.stands,
            containments=found.containments,
            programs=[tool(one, digest=True) for one in found.programs],
            checks=found.checks,
            warnings=[(one.name, one.problem, one.remedy) for one in found.warnings],
            proofs=None if found.proofs is None else dict(found.proofs),
        )
    )
