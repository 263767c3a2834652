"""What this host lacks for a review, in words: an error where nothing goes without it, else what is not seen. Pure."""

from pathlib import Path

from fumehood.core.errors import UnsupportedError
from fumehood.observe import syscalls
from fumehood.observe.model import Collector, CollectorState
from fumehood.review.plan import Step
from fumehood.sandbox.hostfacts import HostFacts

_REMEDIES = {
    "git": "install the package git from the distribution, or set sandbox.git",
    "uv": "pip install 'fumehood[review]', which brings uv, or set sandbox.uv",
    "python": "install the package python3 from the distribution, or set sandbox.python",
    "node": "pip install 'fumehood[review]', which brings Node 24, or set sandbox.node",
}
_NEEDED_FOR = {
    "git": "a git target needs git",
    "node": "every review but of a pypi target needs Node 24",
    "uv": "a pypi target needs uv",
    "python": "a pypi target needs the system's Python",
}


def why(host: HostFacts, name: str) -> str:
    """Why a program cannot be used; empty when it can."""
    if name in host.tools:
        return ""
    return "; ".join(p.detail for p in host.probes if not p.ok and p.name.split(" ")[0] == name) or "not found"


def demand(host: HostFacts, name: str) -> Path:
    """The program `git`, `node`, `uv` or `python`. Raises `UnsupportedError`, which names the package."""
    if name in host.tools:
        return host.tools[name].path
    raise UnsupportedError(f"{_NEEDED_FOR[name]}: {why(host, name)}", remedy=_REMEDIES[name])


def untraced(host: HostFacts, step: Step) -> str:
    """Why a step that is to be traced cannot be; empty when it can, or when it is not to be."""
    return why(host, "strace") if step.trace else ""


def no_trace(step: Step, reason: str) -> Collector:
    """What the sensor says that could not run in a step."""
    return Collector(
        name=syscalls.COLLECTOR,
        phase=step.phase,
        state=CollectorState.UNAVAILABLE,
        lost=0,
        why=f"strace: {reason}",
        limitations=(NO_TRACE,),
        counts={},
    )


NO_TRACE = "without strace no process tree, no file reads and no refused calls are recorded"
