"""The self test as a condition: programs of others are run only where it was passed, for what is here now.

Holds: a runner starts only with a record that fits (`code.attestation`), or after a self test that it ran itself and of
which everything held. A self test that fails takes the record of an earlier one away. Where nothing can be kept the
self test is run at every start, and its reason is told.

Not promised: that what a record names stays as it is. `Seal` tells when a file that a child is made of was replaced
afterwards; whether each wall stands is asked at every run, and is no matter of a record.
"""

import hashlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from fumehood.code import attestation, statefile
from fumehood.code.attestation import Attestation, Facts, Standing
from fumehood.code.run import Ground
from fumehood.code.selftest import PROGRAMS, selftest
from fumehood.code.trials import Outcome, Report, Tried
from fumehood.core.clock import Clock
from fumehood.core.errors import UnsupportedError
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.probe.tools import DIGESTS

_FILE: Final = "code-selftest.json"
_OURS: Final = ("code", "core", "sandbox")  # the folders of what starts, confines and serves a child
_KINDS: Final = frozenset({".py", ".js", ".json"})
_NO_HOME: Final = "there is no home to keep one in"
_CHANGED: Final = "what was tested changed meanwhile"
_REMEDY: Final = "fumehood code selftest shows each trial; docs/howto/upgrade-deno.md"
_NAMED: Final = 8  # of the trials in one error


class SelfTestError(UnsupportedError):
    """The self test did not hold, so that no program of others is run here."""

    code = "selftest_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """A self test, and what became of its record; `unkept` is the reason why it is not remembered, if it is not."""

    report: Report
    unkept: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `require` needs besides the ground: where records lie, the time, and whom to tell."""

    file: Path | None
    clock: Clock
    progress: Callable[[Tried], None]
    say: Callable[[str], None]


def file(environ: Mapping[str, str]) -> Path | None:
    """Where this user's record lies; None when there is no absolute home."""
    return statefile.place(environ, _FILE)


def facts(ground: Ground) -> Facts:
    """What a self test of this ground would depend on."""
    host, parts = ground.host, ground.parts
    package = Path(str(resources.files("fumehood")))
    own = [
        path
        for name in _OURS
        for path in sorted((package / name).rglob("*"))
        if path.suffix in _KINDS and path.is_file()
    ]
    return Facts(
        uid=os.geteuid(),
        fumehood=importlib.metadata.version("fumehood"),
        sources=_together((str(path.relative_to(package)), path) for path in own),
        deno=DIGESTS.of(parts.deno),
        libraries=_together(sorted({**parts.libraries, **parts.programs}.items())),
        harness=hashlib.sha256(parts.harness).hexdigest(),
        import_map=hashlib.sha256(parts.import_map).hexdigest(),
        programs=DIGESTS.of(package / "data" / PROGRAMS),
        bubblewrap=_digest(host, "bwrap"),
        setpriv=_digest(host, "setpriv"),
        kernel=f"{host.system} {host.kernel} {platform.version()}"[: attestation.WORD_CHARACTERS],
        machine=host.machine,
        route=host.routes[0].value if host.routes else "none",
        memory=f"cgroup version {host.cgroups.version}" if {"memory", "unified"} & {*host.cgroups.roots} else "limit",
    )


def standing(facts: Facts, file: Path | None, clock: Clock) -> Standing:
    """What is remembered for these facts."""
    if file is None:
        return Standing(record=None, reasons=(_NO_HOME,))
    found = statefile.read(file)
    if found.data is None:
        return Standing(record=None, reasons=(found.why,))
    record = attestation.parse(found.data)
    if record is None:
        return Standing(record=None, reasons=("it is no record of this version",))
    return Standing(record=record, reasons=attestation.fits(record, facts, clock.now().timestamp()))


async def attest(ground: Ground, wanted: Wanted) -> Attested:
    """Run the self test, and remember it when everything held; else forget what was remembered."""
    before, began = facts(ground), time.monotonic()
    report = await selftest(ground, before.deno, wanted.progress)
    seconds = time.monotonic() - began
    unkept = _kept(report, before, wanted) if facts(ground) == before else _CHANGED
    return Attested(report=report, unkept=unkept, seconds=seconds)


async def require(ground: Ground, wanted: Wanted) -> str:
    """Words on why programs may be run here: a record that fits, or a self test now. Raises `SelfTestError`."""
    found = standing(facts(ground), wanted.file, wanted.clock)
    if found.record is not None and not found.reasons:
        return f"the self test was passed at {found.record.moment} with what is here"
    wanted.say(f"the self test is run first; no earlier one counts: {', '.join(found.reasons)}")
    done = await attest(ground, wanted)
    if not done.report.ok or done.unkept == _CHANGED:
        raise SelfTestError(f"the self test failed: {_failed(done.report) or _CHANGED}", remedy=_REMEDY)
    if done.unkept:
        wanted.say(f"the self test cannot be remembered, and is run at every start: {done.unkept}")
    return f"the self test was passed in {done.seconds:.1f} s: {len(done.report.trials)} trials held"


class Seal:
    """Tells whether a file that a child is made of was replaced or changed since."""

    def __init__(self, ground: Ground) -> None:
        """Remember each file as it is now."""
        tools = {name: tool.path for name, tool in ground.host.tools.items() if name in {"bwrap", "setpriv"}}
        paths = {"deno": ground.parts.deno, **ground.parts.libraries, **ground.parts.programs, **tools}
        self._known = {name: (path, _identity(path)) for name, path in paths.items()}

    def broken(self) -> str:
        """The name of a file that is another one now; nothing when all are the same. Costs a few `stat`s."""
        return next((name for name, (path, known) in self._known.items() if _identity(path) != known), "")


def _kept(report: Report, tested: Facts, wanted: Wanted) -> str:
    """Remember what held, forget what did not; why nothing is remembered, or nothing."""
    if wanted.file is None:
        return _NO_HOME
    if not report.ok:
        return statefile.forget(wanted.file) or "it did not hold"
    now = int(wanted.clock.now().timestamp())
    record = Attestation(passed_at=now, trials=len(report.trials), facts=tested)
    return statefile.write(wanted.file, attestation.encode(record))


def _identity(path: Path) -> tuple[int, ...] | None:
    """What tells a file from its successor of the same name; None when it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _digest(host: HostFacts, name: str) -> str:
    """Of a program of the walls; of nothing where it is missing, and no child starts."""
    return DIGESTS.of(host.tools[name].path) if name in host.tools else hashlib.sha256().hexdigest()


def _together(files: Iterable[tuple[str, Path]]) -> str:
    """One digest of many files, their names included."""
    whole = hashlib.sha256()
    for name, path in files:
        whole.update(f"{DIGESTS.of(path)} {name}\0".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def _failed(report: Report) -> str:
    names = [
        f"{one.name} ({one.outcome.value.replace('_', ' ')})"
        for one in report.trials
        if one.outcome is not Outcome.HELD
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
