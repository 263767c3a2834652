"""What this host has and can do: values only. `sandbox.probe.host` finds them out."""

from dataclasses import dataclass
from pathlib import Path

from fumehood.sandbox.spec import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One program that would be used: which file it is, and where it came from."""

    name: str
    path: Path
    version: str
    sha256: str  # empty until `probe.with_digests` has waited for it
    origin: str  # "wheel", "system", "operator"
    recorded: str = ""  # the SHA-256 that a wheel's RECORD names


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question put to this host, by doing the thing; a failed one explains itself."""

    name: str
    ok: bool
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFacts:
    """Where a run's cgroups can be made."""

    version: int | None  # 1, 2, or None
    roots: dict[str, Path]  # controller → the folder below which a run's cgroup is made; v2 has one, "unified"
    why: str = ""  # when version is None: the errno and the path


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """A host, as far as confinement goes."""

    system: str
    machine: str
    kernel: str
    uid: int
    routes: tuple[Route, ...]  # that passed their probe, the preferred first
    tools: dict[str, Tool]  # bwrap, setpriv, strace, nft, node, git, uv, python: those that were found
    cgroups: CgroupFacts
    landlock_abi: int  # 0: none
    run_root: Path  # below which run folders are made
    probes: tuple[Probe, ...]
    no_userns_limit: str = ""  # why bubblewrap cannot set the number of further user namespaces; empty where it can
    no_overlay: str = ""  # why no overlay can be mounted with its upper layer in `run_root`; empty where one can
