"""The steps of a Python target. Pure: the same bench and request give the same steps.

`index` asks the index for the page of the project; `lock` makes the environment and lets uv resolve exactly one
version, wheels only; `fetch` fills uv's cache with what the lock names, by its hashes; `install` puts it into the
environment from that cache, offline, with the network of the request. No step but `exercise` runs code of a package:
what Python runs by itself at a start (`.pth` files) is there from `install` on.

With `python_build` there come, before `lock`: `fetch-sources`, which downloads and unpacks the sources; `lock-build`
and `fetch-build`, which do for the build's dependencies what `lock` and `fetch` do for the target's; and `build`, the
only further step that runs code of a package. The lock is then of the wheel that the build left.
"""

import dataclasses

from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review.plan import CACHE, UV, Bench, Step
from fumehood.review.python import lock as locks
from fumehood.review.python import uv
from fumehood.sandbox.egress import Mode, Policy, Rule
from fumehood.sandbox.spec import TraceMode

# $1 uv, $2 Python, $3 the requirement; the rest are options of the resolution.
LOCK = """
set -eu
uv=$1 python=$2 wanted=$3
shift 3
"$uv" venv --quiet --no-project --python "$python" .venv
printf '%s\\n' "$wanted" > requirements.in
exec "$uv" pip compile --quiet --only-binary :all: --generate-hashes --no-header --no-annotate \\
  --python .venv/bin/python --output-file requirements.txt "$@" requirements.in
"""

_SYNC = (UV, "pip", "sync", "--quiet", "--require-hashes", "--only-binary", ":all:")
BUILD = ".build"  # in the workspace: sources, the environment of their build, and the wheel that it left

# $1 uv, $2 Python, $3 how many requirements follow; the rest are options of the resolution.
LOCK_BUILD = """
set -eu
uv=$1 python=$2 count=$3
shift 3
cd .build
"$uv" venv --quiet --no-project --python "$python" venv
: > requirements.in
while [ "$count" -gt 0 ]; do
  printf '%s\\n' "$1" >> requirements.in
  shift
  count=$((count - 1))
done
exec "$uv" pip compile --quiet --only-binary :all: --generate-hashes --no-header --no-annotate \\
  --python venv/bin/python --output-file requirements.txt "$@" requirements.in
"""


def policy(bench: Bench, hosts: tuple[tuple[str, int], ...] = ()) -> Policy:
    """The index, the hosts that the operator named for its files, and those that its page of the target names."""
    if bench.index is None:
        return Policy(mode=Mode.ALLOWLIST)
    own = (bench.index.rule, *bench.index_files)
    known = {(rule.host, rule.port) for rule in own}
    named = tuple(Rule(host=host, port=port) for host, port in hosts if (host, port) not in known)
    return Policy(mode=Mode.ALLOWLIST, rules=(*own, *named))


def index(bench: Bench, program: str, name: str, version: str) -> Step:
    """Ask for one project's page. `program`: the text of `sandbox.programs.indexpage`."""
    url = bench.index.url if bench.index else ""
    return Step(
        name="index",
        phase=Phase.ACQUIRE,
        argv=(str(bench.python), "-I", "-S", "-c", program, url, name, version),
        seconds=limits.ACQUIRE_SECONDS,
        network=policy(bench),
    )


def lock(bench: Bench, wanted: str, until: str | None, network: Policy) -> Step:
    """Make the environment, and write the lock of NAME==VERSION, resolved as of `until`."""
    dated = ("--exclude-newer", until) if until else ()
    return Step(
        name="lock",
        phase=Phase.ACQUIRE,
        argv=("/bin/sh", "-c", LOCK, "sh", UV, str(bench.python), wanted, *dated),
        seconds=limits.ACQUIRE_SECONDS,
        network=network,
        trace=None,  # uv alone, no byte of a package runs; the engine records every connection
        environment=_environment(bench, CACHE),
    )


def lock_built(bench: Bench, wanted: str, until: str | None, network: Policy) -> Step:
    """As `lock`, of a wheel that was built here: traced, for it runs in a home where a build has been."""
    return dataclasses.replace(lock(bench, wanted, until, network), trace=TraceMode.FAST)


def fetch_sources(bench: Bench, program: str, url: str, sha256: str, network: Policy) -> Step:
    """Download and unpack the sources. `program`: the text of `sandbox.programs.sdist`."""
    return Step(
        name="fetch-sources",
        phase=Phase.FETCH,
        argv=(str(bench.python), "-I", "-S", "-c", program, url, sha256, BUILD),
        seconds=limits.ACQUIRE_SECONDS,
        network=network,
        trace=TraceMode.NETWORK,
    )


def lock_build(bench: Bench, requires: tuple[str, ...], until: str | None, network: Policy) -> Step:
    """Make the environment of the build, and lock what the sources require for it."""
    dated = ("--exclude-newer", until) if until else ()
    words = (UV, str(bench.python), str(len(requires)), *requires, *dated)
    return Step(
        name="lock-build",
        phase=Phase.ACQUIRE,
        argv=("/bin/sh", "-c", LOCK_BUILD, "sh", *words),
        seconds=limits.ACQUIRE_SECONDS,
        network=network,
        trace=None,  # uv alone, no byte of a package runs; the engine records every connection
        environment=_environment(bench, CACHE),
    )


def fetch_build(bench: Bench, network: Policy) -> Step:
    """Put what the lock of the build names into its environment: wheels, by their hashes."""
    return Step(
        name="fetch-build",
        phase=Phase.FETCH,
        argv=(*_SYNC, "--python", f"{BUILD}/venv/bin/python", f"{BUILD}/{locks.NAME}"),
        seconds=limits.ACQUIRE_SECONDS,
        network=network,
        trace=TraceMode.NETWORK,
        environment=_environment(bench, CACHE),
    )


def build(bench: Bench, network: Policy, linger_seconds: float) -> Step:
    """Build the wheel in that environment, by the backend that the sources name, with the network of the request."""
    options = ("--offline", "--no-build-isolation", "--force-pep517", "--no-sources", "--no-create-gitignore")
    where = ("--python", f"{BUILD}/venv/bin/python", "--out-dir", f"{BUILD}/dist", f"{BUILD}/src")
    return Step(
        name="build",
        phase=Phase.PREPARE,
        argv=(UV, "build", "--wheel", "--no-cache", *options, *where),
        seconds=limits.PREPARE_SECONDS,
        network=network,
        trace=TraceMode.FAST,
        environment=(*_environment(bench, None), ("PYTHONDONTWRITEBYTECODE", "1")),
        linger_seconds=linger_seconds,
    )


def fetch(bench: Bench, network: Policy) -> Step:
    """Fill uv's cache: every hash is checked here."""
    return Step(
        name="fetch",
        phase=Phase.FETCH,
        argv=_sync(),
        seconds=limits.ACQUIRE_SECONDS,
        network=network,
        trace=TraceMode.NETWORK,
        environment=_environment(bench, CACHE),
    )


def install(bench: Bench, network: Policy, linger_seconds: float) -> Step:
    """Install from the cache, offline, with the network of the request."""
    return Step(
        name="install",
        phase=Phase.INSTALL,
        argv=_sync("--offline"),
        seconds=limits.INSTALL_SECONDS,
        network=network,
        trace=TraceMode.FAST,
        environment=_environment(bench, None),
        linger_seconds=linger_seconds,
    )


def _sync(*options: str) -> tuple[str, ...]:
    return (*_SYNC, *options, "--python", ".venv/bin/python", locks.NAME)


def _environment(bench: Bench, cache: str | None) -> tuple[tuple[str, str], ...]:
    """All that uv is told beside its words; `cache`: another than the home's own."""
    pairs = [*uv.CONSTANT]
    if bench.index:
        pairs.append(("UV_DEFAULT_INDEX", bench.index.url))
    if cache:
        pairs.append(("UV_CACHE_DIR", cache))
    return tuple(pairs)
