"""The steps of a Python target. Pure: the same bench and request give the same steps.

`index` asks the index for the page of the project; `lock` makes the environment and lets uv resolve exactly one
version, wheels only; `fetch` fills uv's cache with what the lock names, by its hashes; `install` puts it into the
environment from that cache, offline, with the network of the request. No step but `exercise` runs code of a package:
what Python runs by itself at a start (`.pth` files) is there from `install` on.
"""

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
    words = (UV, "pip", "sync", "--quiet", "--require-hashes", "--only-binary", ":all:", *options)
    return (*words, "--python", ".venv/bin/python", locks.NAME)


def _environment(bench: Bench, cache: str | None) -> tuple[tuple[str, str], ...]:
    """All that uv is told beside its words; `cache`: another than the home's own."""
    pairs = [*uv.CONSTANT]
    if bench.index:
        pairs.append(("UV_DEFAULT_INDEX", bench.index.url))
    if cache:
        pairs.append(("UV_CACHE_DIR", cache))
    return tuple(pairs)
