"""npm as far as a review needs it: what it is told, and what its errors mean. Pure.

Source: npm's documentation of `package-lock.json`, of its configuration, and the error codes that its command line
prints as `npm error code …`.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fumehood.review.states import NO_SIGN, ReviewEndedError, State

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE = "/opt/node/bin/node"
NPM_CLI = "/opt/node/lib/node_modules/npm/bin/npm-cli.js"
LOCK_NAMES = ("package-lock.json", "npm-shrinkwrap.json")

LOCK_ARGUMENTS = ("install", "--package-lock-only", "--ignore-scripts")
FETCH_ARGUMENTS = ("ci", "--ignore-scripts")
INSTALL_ARGUMENTS = ("ci", "--offline")
BUILD_ARGUMENTS = ("run", "build")

# One retry: a dead network otherwise holds npm for about four minutes.
QUIET = (
    ("npm_config_audit", "false"),
    ("npm_config_fund", "false"),
    ("npm_config_update_notifier", "false"),
    ("npm_config_logs_max", "0"),
    ("npm_config_fetch_retries", "1"),
    ("npm_config_fetch_retry_mintimeout", "1000"),  # not npm's ten seconds
    ("npm_config_fetch_timeout", "20000"),
    ("NODE_DISABLE_COMPILE_CACHE", "1"),  # npm would leave some 540 files of its own in the home
)

_CODE = re.compile(rb"npm error code ([A-Z0-9_]{2,60})")
_ENGINE = re.compile(rb"npm warn EBADENGINE\s+package: '([^'\n]{1,300})'")

_TARGET = {
    "EINTEGRITY": ("integrity_mismatch", "a package does not have the integrity that its lock names"),
    "ETARGET": ("unknown_version", "the registry has no such version"),
    "E404": ("unknown_package", "the registry has no such package"),
    "EUSAGE": ("lock_out_of_step", "package.json and its lock disagree, or the lock is unusable"),
    "EJSONPARSE": ("package_json", "package.json is not JSON"),
    "ERESOLVE": ("dependency_conflict", "the dependencies cannot be resolved"),
    "ENOENT": ("missing_file", "a file that the package names is missing"),
    "ENOTCACHED": ("undeclared_dependency", "something is needed that the lock did not name"),
}
_UNSUPPORTED = {
    "EBADENGINE": ("engine", "the package asks for another engine than Node 24 on this platform"),
    "EBADPLATFORM": ("platform", "the package is not made for this platform"),
}
_HARNESS = (
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ENETUNREACH",
    "ENOTFOUND",
    "ENOSPC",
    "EDQUOT",
    "ERR_SOCKET_TIMEOUT",
    "ETIMEDOUT",
    "FETCH_ERROR",  # an answer that is no packument: a login page, a proxy's words
    "E401",
    "E403",
    "E429",
    "E500",
    "E502",
    "E503",
    "E504",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "CERT_HAS_EXPIRED",
)


def error_code(stderr: bytes) -> str | None:
    """The code npm printed last, or None."""
    found = _CODE.findall(stderr)
    return found[-1].decode("ascii") if found else None


def bad_engines(stderr: bytes) -> frozenset[str]:
    """`name@version` of each package whose `engines` npm warned of. Text of the other side: compare, do not print."""
    return frozenset(m.decode("utf-8", "backslashreplace") for m in _ENGINE.findall(stderr))


def failure(step: str, status: int | None, stderr: bytes, *, refused_hosts: tuple[str, ...] = ()) -> ReviewEndedError:
    """What a failed npm step means. `refused_hosts`: names that the step asked for and the policy refused."""
    code = error_code(stderr)
    if refused_hosts:
        hosts = ", ".join(refused_hosts[:5])
        return ReviewEndedError(
            State.RUNTIME_UNSUPPORTED,
            "dependency_elsewhere",
            f"{step} needs hosts that are not the registry: {hosts}. {NO_SIGN}",
        )
    if code in _TARGET:
        name, words = _TARGET[code]
        return ReviewEndedError(State.TARGET_FAILED, name, f"{step}: {words} (npm {code})")
    if code in _UNSUPPORTED:
        name, words = _UNSUPPORTED[code]
        words += f". {NO_SIGN}"
        return ReviewEndedError(State.RUNTIME_UNSUPPORTED, name, f"{step}: {words} (npm {code})")
    if code in _HARNESS:
        return ReviewEndedError(
            State.HARNESS_ERROR,
            "registry",
            f"{step}: the registry did not answer as a registry does (npm {code}): no evidence about the target",
        )
    said = f" (npm {code})" if code else ""
    return ReviewEndedError(State.TARGET_FAILED, "npm_failed", f"{step} ended with status {status}{said}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """What a lock says of the reviewed package."""

    version: str
    integrity: str


def project(folder: str, name: str, version: str) -> dict[str, object]:
    """The package.json of a project that depends on one exact version."""
    return {"name": folder, "version": "0.0.0", "private": True, "dependencies": {name: version}}


def lock_entry(lock: object, name: str, version: str) -> LockEntry:
    """The lock's entry of one package; ends the review when it is missing, of another version, or has no integrity."""
    packages = lock.get("packages") if isinstance(lock, dict) else None
    entry = packages.get(f"node_modules/{name}") if isinstance(packages, dict) else None
    if not isinstance(entry, dict) or entry.get("version") != version:
        raise ReviewEndedError(State.TARGET_FAILED, "unknown_version", f"the lock names no {name} at {version}")
    integrity = entry.get("integrity")
    if not isinstance(integrity, str) or not re.fullmatch(r"sha(256|384|512)-[A-Za-z0-9+/]{40,100}={0,2}", integrity):
        raise ReviewEndedError(
            State.TARGET_FAILED, "no_integrity", f"the lock has no integrity for {name} at {version}"
        )
    return LockEntry(version=version, integrity=integrity)


def hooks(lock: object) -> int | None:
    """How many packages of a lock declare install scripts (`hasInstallScript`), or None where it has no such table."""
    packages = lock.get("packages") if isinstance(lock, dict) else None
    if not isinstance(packages, dict):
        return None
    return sum(1 for p in packages.values() if isinstance(p, dict) and p.get("hasInstallScript") is True)


def package_count(lock: object) -> int | None:
    """How many packages a lock names, the root not counted."""
    packages = lock.get("packages") if isinstance(lock, dict) else None
    return sum(1 for key in packages if key) if isinstance(packages, dict) else None


def only_bin(manifest: object, name: str) -> str:
    """The single `bin` of a package.json; none or several end the review and are listed."""
    raw = manifest.get("bin") if isinstance(manifest, dict) else None
    table: Mapping[str, object] = {name: raw} if isinstance(raw, str) else cast("dict[str, object]", raw or {})
    paths = {value for value in table.values() if isinstance(value, str)} if isinstance(table, dict) else set()
    if len(paths) == 1:
        return paths.pop().removeprefix("./")
    listed = ", ".join(sorted(str(key)[:60] for key in table)[:16]) if isinstance(table, dict) else ""
    found = f"{len(paths)} programs ({listed})" if paths else "no program"
    raise ReviewEndedError(
        State.RUNTIME_UNSUPPORTED,
        "entrypoint",
        f"the package's bin names {found}: name a file as entrypoint",
    )
