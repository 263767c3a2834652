"""The steps of a Node target. Pure: the same bench and request give the same steps.

`lock` lets npm resolve one version of a package; `fetch` fills npm's cache with what the lock names, scripts off;
`install` is the run that a user would have, from that cache, with scripts and the network of the request; `build` is
`npm run build` of a target that came as sources.
"""

from urllib.parse import urlsplit

from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review.node import npm
from fumehood.review.plan import CA_FILE, CACHE, Bench, Step
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.spec import TraceMode


def policy(bench: Bench) -> Policy:
    """The registry and nothing else."""
    return Policy(mode=Mode.ALLOWLIST, rules=(bench.registry.rule,) if bench.registry else ())


def lock(bench: Bench, until: str | None = None) -> Step:
    """Let npm write the lock of a project that depends on the target; of what came after `until`, nothing."""
    before = (f"--before={until}",) if until else ()
    return Step(
        name="lock",
        phase=Phase.ACQUIRE,
        argv=_npm(*npm.LOCK_ARGUMENTS, *before),
        seconds=limits.ACQUIRE_SECONDS,
        network=policy(bench),
        trace=None,  # npm alone, no byte of a package runs; the engine records every connection
        environment=_environment(bench, cache=CACHE),
    )


def fetch(bench: Bench) -> Step:
    """Fill npm's cache, scripts off: integrity is checked here."""
    return Step(
        name="fetch",
        phase=Phase.FETCH,
        argv=_npm(*npm.FETCH_ARGUMENTS),
        seconds=limits.ACQUIRE_SECONDS,
        network=policy(bench),
        trace=TraceMode.NETWORK,
        environment=_environment(bench, cache=CACHE),
    )


def install(bench: Bench, network: Policy, linger_seconds: float) -> Step:
    """Run exactly `npm ci --offline`, scripts on, with the network of the request."""
    return Step(
        name="install",
        phase=Phase.INSTALL,
        argv=_npm(*npm.INSTALL_ARGUMENTS),
        seconds=limits.INSTALL_SECONDS,
        network=network,
        trace=TraceMode.FAST,
        environment=_environment(bench, cache=None),
        linger_seconds=linger_seconds,
    )


def build(bench: Bench, network: Policy, linger_seconds: float) -> Step:
    """Run exactly `npm run build`."""
    return Step(
        name="build",
        phase=Phase.PREPARE,
        argv=_npm(*npm.BUILD_ARGUMENTS),
        seconds=limits.PREPARE_SECONDS,
        network=network,
        trace=TraceMode.FAST,
        environment=_environment(bench, cache=None),
        linger_seconds=linger_seconds,
    )


def _npm(*arguments: str) -> tuple[str, ...]:
    return (npm.NODE, npm.NPM_CLI, *arguments)


def _environment(bench: Bench, *, cache: str | None) -> tuple[tuple[str, str], ...]:
    pairs = [*npm.QUIET]
    if bench.registry:
        pairs.append(("npm_config_registry", bench.registry.url))
        if bench.registry.rule.pins:
            # Tarballs that the registry names by its own address; those of other hosts stay, and are refused by name.
            named = urlsplit(bench.registry.named).hostname or ""
            pairs.append(("npm_config_replace_registry_host", named))
    if bench.ca_file:
        pairs.append(("npm_config_cafile", CA_FILE))
    if cache:
        # A repository's own .npmrc may name the program that npm takes for git: it would run where no script may.
        pairs += [("npm_config_cache", cache), ("npm_config_git", "/bin/false")]
    return tuple(pairs)
