"""Bring a package of npm to this machine once: fetched behind walls, scripts off, kept by version and integrity.

Invariants: npm runs as in a review, confined towards the registry alone, and checks the integrity of every package; no
script of a package runs; what it unpacked is copied through the fence, so that no link leads out and nothing but files,
folders and links is kept; a folder of the cache has its name only once it is whole; of one version one integrity is
taken, and a second one is refused.

Not promised: that a registry gave what the author made, or that a kept folder was not changed since by its owner.
"""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fumehood.core import jsonio, limits
from fumehood.core.clock import Clock, rfc3339
from fumehood.core.errors import (
    FailedError,
    FumehoodError,
    HarnessError,
    LimitError,
    RefusedError,
    TooLargeError,
    UnsupportedError,
)
from fumehood.core.jsonio import JsonValue
from fumehood.core.sections import Settings
from fumehood.fence import openat2
from fumehood.fence.copy import copy_trees
from fumehood.fence.workspace import ContainedFile, Workspace
from fumehood.gateway.guard import installed
from fumehood.gateway.guard.command import Package
from fumehood.gateway.guard.installed import Installed, NoProgramError, PackageError, Record
from fumehood.review import acquire, identity, lacking, states
from fumehood.review.acquire import PinnedSource
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.node import install
from fumehood.review.operator import Sources
from fumehood.review.plan import Bench
from fumehood.review.request import NpmTarget
from fumehood.review.stack import Stack, layering_for
from fumehood.review.states import ReviewEndedError
from fumehood.review.work import Work
from fumehood.sandbox.hostfacts import HostFacts
from fumehood.sandbox.relay.outside import World
from fumehood.sandbox.runs import Run, open_run

_RECORD: Final = "fumehood.json"
_HEAD_BYTES: Final = 200
_BY_STATUS: Final[Mapping[int, type[FumehoodError]]] = {
    error.exit_status: error for error in (FailedError, UnsupportedError, LimitError, HarnessError)
}


class CacheError(RefusedError):
    """The cache of packages cannot be used."""

    code = "guard_cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Where packages come from and go to."""

    cache: Path
    host: HostFacts
    settings: Settings
    sources: Callable[[], Sources]  # asked only where something has to be acquired
    clock: Clock
    say: Callable[[str], None]
    world: World = World()


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where packages are kept: of root beside other caches, for a server of another uid could not pass root's home."""
    named = environ.get("XDG_CACHE_HOME", "")
    if named.startswith("/"):
        return Path(named) / "fumehood" / "packages"
    if os.geteuid() == 0:
        return Path("/var/cache/fumehood/packages")
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise CacheError("there is no home to keep packages in", remedy="set XDG_CACHE_HOME")
    return Path(home) / ".cache" / "fumehood" / "packages"


async def get(package: Package, shop: Shop) -> Installed:
    """The package, from the cache or else from the registry. Errors: `CacheError`, `PackageError`, by what ended it."""
    node = lacking.demand(shop.host, "node")
    _prepare(shop.cache)
    found = sorted(path for path in shop.cache.iterdir() if installed.is_of(path.name, package))
    if len(found) > 1:
        words = f"{package.name}@{package.version} was acquired with two integrities"
        raise CacheError(words, remedy=f"look at {shop.cache}, and remove the one that you do not trust")
    folder = found[0] if found else await _acquire(package, shop)
    _ours(folder)
    record = installed.record(_read(folder / _RECORD), package)
    if not found:
        scripts = f"; install scripts of {record.install_scripts} did not run" if record.install_scripts else ""
        shop.say(f"acquired {package.name}@{package.version}, {record.integrity}, {record.packages} packages{scripts}")
    return Installed(record=record, folder=str(folder), node=str(node), arguments=package.arguments)


async def _acquire(package: Package, shop: Shop) -> Path:
    """Fetch it, and keep it under its name."""
    shop.say(f"{package.name}@{package.version} is acquired, scripts off …")
    sources = shop.sources()
    with open_run(shop.host) as run, Stack(layering_for(shop.host, run)) as stack:
        work = _work(shop, sources, run, stack)
        try:
            ground = acquire.lay_ground(work)
            target = NpmTarget(name=package.name, version=package.version)
            source = await acquire.acquire(work, target, ground, Path("/"))
            fetched = await install.fetch(work, source, ground)
        except ReviewEndedError as ended:
            raise _error(ended) from None
        with _beside(shop.cache) as place:
            _copy(fetched.layer.path, work.bench.layer_workspace, place)
            record = _record(package, shop, source, work, place)
            (place / _RECORD).write_bytes(msgspec.json.encode(record))
            return _keep(place, shop.cache / installed.folder(package, record.integrity))


def _work(shop: Shop, sources: Sources, run: Run, stack: Stack) -> Work:
    node = lacking.demand(shop.host, "node")
    chance = secrets.SystemRandom()
    bench = Bench(
        identity=identity.identity(run.uid, chance),
        folder=identity.folder(chance),
        node=node,
        node_library=node.parent.parent / "lib" / "node_modules",
        registry=sources.registry,
        forge=sources.forge,
        ca_file=sources.ca_file,
    )
    return Work(
        host=shop.host,
        settings=shop.settings,
        run=run,
        bench=bench,
        ledger=Ledger(lambda _: True),
        progress=lambda _: None,
        stop_on_output=False,
        stack=stack,
        world=shop.world,
    )


def _error(ended: ReviewEndedError) -> FumehoodError:
    kind = _BY_STATUS.get(states.EXIT_STATUS[ended.state], HarnessError)
    return kind(f"the package could not be acquired: {ended.message}", remedy="see its name, version and registry")


def _record(package: Package, shop: Shop, source: PinnedSource, work: Work, place: Path) -> Record:
    lock = work.provenance["lockfile"]
    inside = f"node_modules/{package.name}"
    program = installed.program(_json(place, f"{inside}/package.json"), package)
    with _contained(place, f"{inside}/{program}") as file:
        head = file.head(_HEAD_BYTES)
    if not installed.is_of_node(program, head):
        raise NoProgramError(
            f"the program of {package.name} is none of Node", remedy="install it, and name its program"
        )
    return Record(
        name=package.name,
        version=package.version,
        integrity=work.provenance["integrity"],
        lock_sha256=lock.sha256,
        packages=lock.packages or 0,
        install_scripts=installed.hooks(source.lock),
        registry=work.bench.registry.named if work.bench.registry else "",
        acquired=rfc3339(shop.clock.now()),
        program=program,
    )


# --- the cache


def _prepare(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        words = f"{cache} cannot be made: {os.strerror(error.errno or 0)}"
        raise CacheError(words, remedy="set XDG_CACHE_HOME") from None
    _ours(cache)


def _ours(path: Path) -> None:
    """Refuse a folder that somebody else may change."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in {0, os.geteuid()} or found.st_mode & 0o022:
        raise CacheError(f"{path} may be changed by others", remedy="remove it, or chmod go-w it")


@contextlib.contextmanager
def _beside(cache: Path) -> Iterator[Path]:
    """A new folder of the cache, removed unless it is kept."""
    place = cache / f".{secrets.token_hex(8)}"
    place.mkdir(mode=0o755)
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _keep(place: Path, name: Path) -> Path:
    """Give a whole folder its name; where another process was first, that one's is as good."""
    with contextlib.suppress(OSError):
        place.rename(name)
    return name


def _copy(layer: Path, inside: str, place: Path) -> None:
    """What npm unpacked, as files of our own."""
    with Workspace.open(layer) as root:
        source = openat2.open_beneath(root.root_fd, os.fsencode(inside), openat2.FOLDER)
    target = os.open(place, openat2.FOLDER)
    try:
        copied = copy_trees([source], target, owner=None)
    finally:
        os.close(source)
        os.close(target)
    if copied.left_out or copied.lost:
        raise PackageError("the package holds what is neither a file, a folder nor a link, or cannot be read")


def _json(place: Path, path: str) -> JsonValue:
    try:
        with _contained(place, path) as file:
            data = file.read(limits.MANIFEST_BYTES)
        return jsonio.parse(data.removeprefix(b"\xef\xbb\xbf"), size=limits.MANIFEST_BYTES)
    except (jsonio.JsonError, TooLargeError) as error:
        raise PackageError(f"its package.json: {error.message}") from None


@contextlib.contextmanager
def _contained(place: Path, path: str) -> Iterator[ContainedFile]:
    """A file of the package, through no link. Errors: `PackageError`."""
    try:
        with Workspace.open(place) as root, root.contained(os.fsencode(path), hard_links=True) as file:
            yield file
    except RefusedError as error:
        raise PackageError(f"the package: {error.message}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()[: limits.GUARD_POLICY_BYTES]
    except OSError:
        raise PackageError(f"{path.parent.name} of the cache is not whole", remedy="remove it") from None
