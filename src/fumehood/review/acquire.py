"""Bring the target to the bench, pinned: an exact commit, an exact version with its integrity, or a digested folder.

Invariants: git and npm run confined, towards the forge or the registry only; a `PinnedSource` exists only after the
id, the integrity or the digest was checked here; what was fetched is looked at through the fence.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, assert_never

from fumehood.core import jsonio, limits
from fumehood.core.errors import HarnessError, RefusedError, TooLargeError
from fumehood.core.jsonio import JsonValue
from fumehood.fence import openat2
from fumehood.fence.stage import stage
from fumehood.fence.workspace import Workspace
from fumehood.review import asof, git, merged, plan, result, steps
from fumehood.review.home import planting
from fumehood.review.node import npm, packument
from fumehood.review.node import plan as nodeplan
from fumehood.review.request import DirTarget, GitTarget, NpmTarget
from fumehood.review.states import NO_SIGN, ReviewEndedError, State
from fumehood.review.work import Work

NodeTarget: TypeAlias = GitTarget | NpmTarget | DirTarget
_SEAL = object()
NPM_CACHE, UV_CACHE = ".npm", ".cache/uv"  # where a home has them


class PinnedSource:
    """A target whose identity was checked. Proof: only this module makes one."""

    __slots__ = ("lock", "manifest", "package")

    def __init__(self, seal: object, *, package: str, manifest: JsonValue, lock: JsonValue) -> None:
        """Refuse everybody but this module. `package`: the target's folder inside the workspace, "" for the root."""
        if seal is not _SEAL:
            raise TypeError("only review.acquire makes a PinnedSource")
        self.package = package
        self.manifest = manifest
        self.lock = lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The folders that a review starts from."""

    sources: Path  # the bottom layer
    cache: Path  # of npm or uv, below `cache_layer`, where a home has it
    cache_layer: Path
    repository: Path


def lay_ground(work: Work) -> Ground:
    """Make the home, the workspace and the empty cache, owned by the target's uid; canaries, where wanted."""
    bottom = work.run.layer("sources").upper
    cache_layer = work.run.layer("cache").upper
    _folders(bottom, f"{work.bench.layer_workspace}", work.bench.identity.uid)
    _folders(bottom, "tmp", work.bench.identity.uid)
    if work.canaries is not None:
        owner = work.bench.identity.uid if os.getuid() == 0 else None
        planting.plant(work.canaries.home, bottom / work.bench.layer_home, owner)
    name = UV_CACHE if work.bench.uv else NPM_CACHE
    cache = _folders(cache_layer, f"{work.bench.layer_home}/{name}", work.bench.identity.uid)
    return Ground(sources=bottom, cache=cache, cache_layer=cache_layer, repository=work.run.folder("repository"))


async def acquire(work: Work, target: NodeTarget, ground: Ground, beside: Path) -> PinnedSource:
    """Get the target's files and its lock. `beside`: the folder that a `dir` path is relative to."""
    match target:
        case GitTarget():
            return await _git(work, target, ground)
        case NpmTarget():
            return await _npm(work, target, ground)
        case DirTarget():
            return _dir(work, target, ground, beside)
        case _:
            assert_never(target)


async def _git(work: Work, target: GitTarget, ground: Ground) -> PinnedSource:
    commit = plan.Commit(target.ref.lower())
    work.stack.push(work.stack.read(ground.sources))
    ran = await steps.perform(work, plan.clone(work.bench, target.repository, commit), scratch=ground.repository)
    if ran.exit.status != 0:
        raise steps.ended_badly(work, ran) or git.failure(ran.exit.status, ran.stdout.data, ran.stderr.data)
    if git.resolved(ran.stdout.data) != commit:
        raise ReviewEndedError(State.TARGET_FAILED, "not_a_commit", "the id resolves to another object")
    work.stack.push(ran.layer)
    work.provenance |= {
        "kind": "git",
        "repository": target.repository,
        "commit": commit,
        "pinned": True,
    }
    return _rooted(work)


async def _npm(work: Work, target: NpmTarget, ground: Ground) -> PinnedSource:
    project = npm.project(work.bench.folder, target.name, target.version)
    _write(work, ground, "package.json", jsonio.dump(project))
    work.stack.push(work.stack.read(ground.sources))
    until = asof.moment(target.as_of) if isinstance(target.as_of, str) else None
    ran = await steps.perform(work, nodeplan.lock(work.bench, until), scratch=ground.cache)
    if ran.exit.status != 0:
        raise steps.ended_badly(work, ran) or npm.failure(
            "lock", ran.exit.status, ran.stderr.data, refused_hosts=ran.refused_names
        )
    work.stack.push(ran.layer)
    lock = _lock(work)
    registry = work.bench.registry.url if work.bench.registry else ""
    entry = npm.lock_entry(lock, target.name, target.version)
    work.provenance |= {
        "kind": "npm",
        "name": target.name,
        "version": entry.version,
        "integrity": entry.integrity,
        "as_of": until,
        "attestation": packument.attestation(_cached(work, ground), registry, target.name, entry.version),
        "pinned": True,
    }
    return PinnedSource(_SEAL, package=f"node_modules/{target.name}", manifest=None, lock=lock)


def _cached(work: Work, ground: Ground) -> packument.Read:
    """Reads npm's cache as it lies in its layer; what is too large or no file is none."""

    def read(path: str, size: int) -> bytes | None:
        try:
            inside = f"{work.bench.layer_home}/{NPM_CACHE}/_cacache/{path}"
            return merged.read([ground.cache_layer], inside, size)
        except ReviewEndedError:
            return None

    return read


def _dir(work: Work, target: DirTarget, ground: Ground, beside: Path) -> PinnedSource:
    work.progress("stage")
    source = beside / target.path
    bottom = ground.sources / work.bench.layer_workspace
    try:
        with Workspace.open(source) as root:
            target_fd = os.open(bottom, openat2.FOLDER)
            try:
                staged = stage(root.root_fd, target_fd, owner=work.run.uid if os.getuid() == 0 else None)
            finally:
                os.close(target_fd)
    except (RefusedError, TooLargeError) as error:
        raise ReviewEndedError(State.TARGET_FAILED, error.code, error.message) from error
    work.stack.push(work.stack.read(ground.sources))
    work.provenance |= {
        "kind": "dir",
        "digest": staged.sha256,
        "pinned": False,
        "private": True,
    }
    for kind, count in sorted(staged.left_out.items()):
        work.ledger.limitation(f"of the folder, {kind} was left out ({count})")
    work.ledger.limitation("a dir target is not pinned by anybody: its digest says only what was reviewed here")
    return _rooted(work)


def _rooted(work: Work) -> PinnedSource:
    """A target that is the workspace itself: it needs a package.json and a lock."""
    manifest = _json(work, "package.json")
    if manifest is None:
        raise _unsupported("no_package_json", "there is no package.json: node_stdio reviews npm packages")
    return PinnedSource(_SEAL, package="", manifest=manifest, lock=_lock(work))


def _lock(work: Work) -> JsonValue:
    for name in npm.LOCK_NAMES:
        lock = _json(work, name)
        if lock is not None:
            return lock
    raise _unsupported("no_lock", f"there is no lock file ({' or '.join(npm.LOCK_NAMES)}): node_stdio needs one")


def _json(work: Work, name: str) -> JsonValue:
    """A JSON file of the workspace; None when there is none; ends the review when it is not JSON."""
    data = merged.read(work.layers, f"{work.bench.layer_workspace}/{name}", limits.MANIFEST_BYTES)
    if data is None:
        return None
    try:
        value = jsonio.parse(data.removeprefix(b"\xef\xbb\xbf"), size=limits.MANIFEST_BYTES)
    except jsonio.JsonError as error:
        raise ReviewEndedError(State.TARGET_FAILED, "bad_manifest", f"{name}: {error.message}") from error
    if name in npm.LOCK_NAMES:
        version = value.get("lockfileVersion") if isinstance(value, dict) else None
        work.provenance["lockfile"] = result.Lockfile(
            path=name,
            sha256=hashlib.sha256(data).hexdigest(),
            version=version if isinstance(version, int) else None,
            packages=npm.package_count(value),
        )
    return value


def _unsupported(code: str, message: str) -> ReviewEndedError:
    return ReviewEndedError(State.RUNTIME_UNSUPPORTED, code, f"{message}. {NO_SIGN}")


def _folders(layer: Path, path: str, uid: int) -> Path:
    """Make a folder and those above it inside a layer of ours, all owned by the target."""
    made = layer
    for part in path.split("/"):
        made /= part
        made.mkdir(exist_ok=True)
        made.chmod(0o755)
        _own(made, uid)
    return made


def _write(work: Work, ground: Ground, name: str, data: bytes) -> None:
    path = ground.sources / work.bench.layer_workspace / name
    try:
        path.write_bytes(data)
        path.chmod(0o644)
        _own(path, work.bench.identity.uid)
    except OSError as error:
        raise HarnessError(f"{name} cannot be written: {os.strerror(error.errno or 0)}") from error


def _own(path: Path, uid: int) -> None:
    if os.getuid() == 0:
        os.chown(path, uid, uid, follow_symlinks=False)
