"""Find where programs run on this host: a Deno, a route to a sandbox, a place that was swept."""

from pathlib import Path

from fumehood.code.run import Ground, prepare
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import Settings
from fumehood.sandbox.hostfacts import Tool
from fumehood.sandbox.probe import host as probe
from fumehood.sandbox.probe import runtime
from fumehood.sandbox.runs import sweep
from fumehood.sandbox.spec import Root


def find(settings: Settings) -> tuple[Ground, Tool]:
    """Where children run on this host, and the Deno of it. `UnsupportedError` when they cannot."""
    found = runtime.find(settings.sandbox.tools)
    if found.runtime is None:
        words, remedy = (found.problem.detail, found.problem.remedy) if found.problem else ("not found", "")
        raise UnsupportedError(f"no Deno to run programs with: {words}", remedy=remedy)
    root = settings.sandbox.run_root
    run_root = Path(root) if root else None
    facts = probe.probe_host(settings.sandbox.tools, quick=True, run_root=run_root, root=Root.FILES)
    if not facts.routes:
        reasons = "; ".join(f"{one.name}: {one.detail}" for one in facts.probes if not one.ok)
        raise UnsupportedError(f"no route to a sandbox on this host: {reasons}", remedy="fumehood doctor explains each")
    sweep(facts)
    return prepare(facts, found.runtime), found.runtime.tool
