"""A Python target from its name to the program that is started: index, lock, fetch, install, and which program.

With `python_build` its wheel is built first (`review.python.build`), and the lock is of that wheel.

Invariants: uv and Python run confined, towards the index and the hosts of its files only; nothing is installed whose
SHA-256 the lock does not name; the lock, the wheels' names and the environment's files are read as hostile; the
program is a regular file of the environment, reached through no link.
"""

import dataclasses
import hashlib
from importlib import resources

from fumehood.core import limits
from fumehood.review import asof, merged, result, steps
from fumehood.review.acquire import Ground
from fumehood.review.python import build, names, plan, uv
from fumehood.review.python import index as pages
from fumehood.review.python import lock as locks
from fumehood.review.python.build import Built
from fumehood.review.python.index import Page
from fumehood.review.request import PrepareProfile, PypiTarget, ReviewRequest
from fumehood.review.show import show, show_text
from fumehood.review.stack import Layered
from fumehood.review.states import NO_SIGN, ReviewEndedError, State
from fumehood.review.steps import Ran
from fumehood.review.work import Work
from fumehood.sandbox.egress import Policy

_LISTED = 32  # names of files in the provenance; how many there are is said beside


async def installed(work: Work, request: ReviewRequest, target: PypiTarget, ground: Ground, network: Policy) -> str:
    """Lock, fetch and install it; the program to start, relative to the workspace."""
    work.provenance |= {"kind": "pypi", "name": names.normal(target.name), "version": target.version}
    work.stack.push(work.stack.read(ground.sources))
    page = await _page(work, request, target)
    allowed = plan.policy(work.bench, page.hosts)
    _tell_hosts(work, page)
    made = None
    if page.builds:
        terms = build.Terms(index=allowed, request=network, linger_seconds=request.linger_seconds)
        made = await build.built(work, target, page, ground, terms)
    await _lock(work, target, ground, allowed, made)
    wanted = await _fetch(work, ground, allowed, target)
    ran = await steps.perform(work, plan.install(work.bench, network, request.linger_seconds))
    tree = _Tree(work, ran.layer)
    work.stack.push(ran.layer)
    _demand(work, ran)
    _record(work, target, page, tree, made or wanted)
    return _program(work, target, tree, request.entrypoint)


async def _page(work: Work, request: ReviewRequest, target: PypiTarget) -> Page:
    """What the index says of the version."""
    program = (resources.files("fumehood.sandbox.programs") / "indexpage.py").read_text(encoding="utf-8")
    step = plan.index(work.bench, program, names.normal(target.name), target.version)
    ran = await steps.perform(work, step)
    if ended := steps.ended_badly(work, ran):
        raise ended
    page = pages.parse(ran.stdout.data)
    if not page.files:
        raise ReviewEndedError(State.TARGET_FAILED, "unknown_version", "index: the index has no such version")
    builds = request.prepare_profile is PrepareProfile.PYTHON_BUILD
    if not builds and not any(file.is_wheel for file in page.files):
        message = "the version has sources alone, from which prepare_profile python_build builds a wheel"
        raise ReviewEndedError(State.RUNTIME_UNSUPPORTED, "no_wheel", f"{message}. {NO_SIGN}")
    return dataclasses.replace(page, builds=builds)


def _tell_hosts(work: Work, page: Page) -> None:
    own = {work.bench.index.rule.host if work.bench.index else "", *(rule.host for rule in work.bench.index_files)}
    for host, port in page.hosts:
        if host not in own:
            work.ledger.limitation(f"files of the index came from {host}:{port}, which its own page names")


async def _lock(work: Work, target: PypiTarget, ground: Ground, allowed: Policy, made: Built | None) -> None:
    """Resolve the version; its lock is in the stack, and in the provenance."""
    until = asof.moment(target.as_of) if isinstance(target.as_of, str) else None
    if made:
        step = plan.lock_built(work.bench, f"{target.name} @ {made.requirement}", until, allowed)
    else:
        step = plan.lock(work.bench, f"{target.name}=={target.version}", until, allowed)
    ran = await steps.perform(work, step, scratch=ground.cache)
    _demand(work, ran)
    work.stack.push(ran.layer)
    data = merged.read(work.layers, f"{work.bench.layer_workspace}/{locks.NAME}", locks.LOCK_BYTES) or b""
    packages = locks.parse(data)
    found = locks.entry(packages, target.name)
    work.provenance |= {
        "version": found.version,
        "as_of": until,
        "pinned": True,
        "lockfile": result.Lockfile(
            path=locks.NAME, sha256=hashlib.sha256(data).hexdigest(), version=None, packages=len(packages)
        ),
    }


async def _fetch(work: Work, ground: Ground, allowed: Policy, target: PypiTarget) -> str | None:
    """Fill the cache; the name of the target's wheel there, where it can be told."""
    ran = await steps.perform(work, plan.fetch(work.bench, allowed), scratch=ground.cache)
    _demand(work, ran)
    work.stack.set_fetched(ran.layer, work.bench.is_package)
    cache = work.stack.read(ground.cache_layer)
    work.stack.push(cache)
    return _wheel_name(cache, target)


def _wheel_name(cache: Layered, target: PypiTarget) -> str | None:
    """The wheel of the target that lies in uv's cache, by the name of its entry: NAME/VERSION-TAGS.http."""
    name = names.normal(target.name)
    for entry in cache.entries:
        parts = entry.path.split(b"/")
        if len(parts) > 2 and parts[-2] == name.encode() and entry.path.endswith(b".http"):  # noqa: PLR2004 - a folder
            return f"{name.replace('-', '_')}-{parts[-1].removesuffix(b'.http').decode('ascii', 'replace')}.whl"
    return None


def _demand(work: Work, ran: Ran) -> None:
    """End the review unless a step ended with 0."""
    if ended := steps.ended_badly(work, ran):
        raise ended
    if ran.exit.status != 0:
        refused = ran.refused_names if ran.step.name != "install" else ()
        raise uv.failure(ran.step.name, ran.exit.status, ran.stderr.data, refused_hosts=refused)


class _Tree:
    """What INSTALL put into the environment, by paths relative to the workspace."""

    def __init__(self, work: Work, layer: Layered) -> None:
        self._work = work
        prefix = f"{work.bench.layer_workspace}/".encode()
        inside = [e for e in layer.entries if e.path.startswith(prefix) and e.kind != "whiteout"]
        self.paths = [entry.path.removeprefix(prefix) for entry in inside]
        before = {change.path for change in work.stack.changes(layer) if change.before is not None}
        self.replaced = sorted(p for p in self.paths if prefix + p in before and _is_environment(p))

    def info(self, target: PypiTarget) -> str | None:
        """The folder of the target's metadata, relative to the workspace."""
        folders = {path.rpartition(b"/")[0] for path in self.paths if path.endswith(b".dist-info/RECORD")}
        by_name = {folder.rpartition(b"/")[2]: folder for folder in sorted(folders)}
        found = names.info_folder(sorted(by_name), target.name, target.version)
        return by_name[found].decode("utf-8", "surrogateescape") if found else None

    def read(self, path: str, size: int) -> bytes | None:
        """A file of the workspace."""
        return merged.read(self._work.layers, f"{self._work.bench.layer_workspace}/{path}", size)


def _is_environment(path: bytes) -> bool:
    return path.startswith(uv.VENV.encode() + b"/")


def _record(work: Work, target: PypiTarget, page: Page, tree: _Tree, wheel: Built | str | None) -> None:
    """What was installed, as facts of the provenance; of the index, its file: the wheel, or the sources of one."""
    made = wheel if isinstance(wheel, Built) else None
    file = page.sources if made else page.wheel(wheel) if isinstance(wheel, str) else None
    starts = sorted(path for path in tree.paths if names.is_start_file(path))
    work.coverage["hooks_declared"] = len(starts)
    work.provenance |= {
        "integrity": f"sha256:{file.sha256}" if file and file.sha256 else None,
        "attestation": pages.attestation(page, file),
        "distribution": result.Distribution(
            wheel=made.filename if made else file.filename if file else None,
            build=made.record if made else None,
            uploaded=file.uploaded if file else None,
            yanked=file.yanked if file else None,
            file_hosts=tuple(host for host, _ in page.hosts),
            console_scripts=tuple(show_text(name) for name in _programs(tree, target)[:_LISTED]),
            start_files=tuple(_start_file(tree, path) for path in starts[:_LISTED]),
            start_files_total=len(starts),
            replaced=tuple(show(path) for path in tree.replaced[:_LISTED]),
            replaced_total=len(tree.replaced),
        ),
    }


def _start_file(tree: _Tree, path: bytes) -> result.StartFile:
    try:
        data = tree.read(path.decode("utf-8", "surrogateescape"), limits.MANIFEST_BYTES)
    except ReviewEndedError:
        data = None  # too large, or no file: it is named all the same
    runs = None if data is None else names.runs_code(data) if path.endswith(b".pth") else True
    return result.StartFile(
        path=show(path), sha256=None if data is None else hashlib.sha256(data).hexdigest(), runs_code=runs
    )


def _programs(tree: _Tree, target: PypiTarget) -> list[str]:
    """The programs of the target: those that it declares, and those that it brings as they are."""
    info = tree.info(target)
    if info is None:
        return []
    declared = names.console_scripts(tree.read(f"{info}/entry_points.txt", names.ENTRY_POINTS_BYTES) or b"")
    brought = names.recorded_scripts(tree.read(f"{info}/RECORD", limits.RECORD_BYTES) or b"")
    return list(dict.fromkeys([*declared, *brought]))


def _program(work: Work, target: PypiTarget, tree: _Tree, asked: str | None) -> str:
    """The program to start: the one that is asked for, the only one, or the one of the package's own name."""
    programs = _programs(tree, target)
    own = [one for one in programs if names.normal(one) == names.normal(target.name)]
    if asked is None and len(programs) != 1 and len(own) != 1:
        listed = ", ".join(show_text(name) for name in programs[:16])
        found = f"{len(programs)} programs ({listed})" if programs else "no program"
        message = f"the package has {found}, and none or several bear its own name: name one as entrypoint"
        raise ReviewEndedError(State.RUNTIME_UNSUPPORTED, "entrypoint", message)
    name = asked or (programs[0] if len(programs) == 1 else own[0])
    if name not in programs:
        listed = ", ".join(show_text(one) for one in programs[:16]) or "none"
        message = f"the package has no program of that name; it has: {listed}"
        raise ReviewEndedError(State.TARGET_FAILED, "no_entrypoint", message)
    entry = f"{uv.VENV}/bin/{name}"
    if merged.find(work.layers, f"{work.bench.layer_workspace}/{entry}") is None:
        raise ReviewEndedError(State.TARGET_FAILED, "no_entrypoint", "there is no file at the entrypoint")
    return entry
