"""What a child is: one Deno for one run, behind every wall that there is. Pure: the same values give the same spec.

Invariants:
- Every permission of Deno is denied, and its loader takes nothing but the harness and what a program carries itself:
  no remote module, no package, no configuration, no lock file, no cache.
- It sees its own program, the libraries that it needs, the harness and the import map: no /proc, /dev, /etc, /usr. It
  can write to one small folder in memory, for Deno's own use, which is gone with it: nothing of a run is found by the
  next. Its environment is what stands here.
- It has no network, not even a socket, starts no program, and has a uid of its own where fumehood runs as root.
- Memory, threads, CPU time and open files are bounded by the kernel, the whole by its supervisor.

Not promised: that Deno's permissions hold by themselves, nor the import map or the harness. Each is one layer; the
tests try them one by one.

Sources: `deno run --help` of 2.9.8; docs/limits/code.md.
"""

import math
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fumehood.code.job import JobLimits
from fumehood.core import limits
from fumehood.sandbox.spec import Bind, DataFile, Identity, ProcessLimits, Profile, Root, SandboxSpec, Scratch

DENO: Final = "/deno"
HARNESS: Final = "/harness.js"
IMPORT_MAP: Final = "/import_map.json"
LIBRARIES: Final = "/lib"
DENO_DIR: Final = "/deno_dir"  # read-only, so that storage and caches have no place
COMPILED: Final = f"{DENO_DIR}/gen"  # where Deno puts the program as JavaScript: refused, it tries again for 150 ms

DENIED: Final = (
    "--deny-read",
    "--deny-write",
    "--deny-net",
    "--deny-env",
    "--deny-run",
    "--deny-ffi",
    "--deny-sys",
    "--deny-import",
    "--no-prompt",
)
LOADER: Final = (
    "--no-remote",
    "--no-npm",
    "--no-lock",
    "--no-config",
    "--no-check",
    "--no-code-cache",
    "--cached-only",
    "--node-modules-dir=none",
)
_HEAP_PART: Final = 0.5  # of the memory: the rest is Deno itself, its threads, and what lies outside of V8's heap


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The files of one host that a child is made of."""

    deno: Path
    libraries: Mapping[str, Path]  # name → file; a whole path where it has to lie there (the loader)
    harness: bytes
    import_map: bytes
    programs: Mapping[str, Path]  # path inside → file: what the `root` route starts before Deno


def argv(job: JobLimits, token: str) -> tuple[str, ...]:
    """The command line. `token` is of this run only: what a site stores would belong to its location."""
    heap = int(job.memory_bytes * _HEAP_PART) // limits.MIB
    return (
        DENO,
        "run",
        "--quiet",
        *DENIED,
        *LOADER,
        f"--import-map={IMPORT_MAP}",
        f"--location=http://{token}.invalid/",
        f"--v8-flags=--jitless,--max-old-space-size={heap}",
        HARNESS,
    )


def environment() -> tuple[tuple[str, str], ...]:
    """The whole of it; a program cannot read it, and would find nothing of the host."""
    return (
        ("DENO_DIR", DENO_DIR),
        ("DENO_NO_UPDATE_CHECK", "1"),
        ("LD_LIBRARY_PATH", LIBRARIES),
        ("NO_COLOR", "1"),
        ("TZ", "UTC"),
    )


def spec(parts: Parts, job: JobLimits, uid: int, token: str) -> SandboxSpec:
    """The confined child."""
    libraries = [
        Bind(source=path, target=name if name.startswith("/") else posixpath.join(LIBRARIES, name))
        for name, path in parts.libraries.items()
    ]
    programs = [Bind(source=path, target=target) for target, path in parts.programs.items()]
    return SandboxSpec(
        argv=argv(job, token),
        environment=environment(),
        workdir="/",
        identity=Identity(uid=uid, user="user", host="localhost"),
        profile=Profile.CODE,
        root=Root.FILES,
        silent=True,
        limits=ProcessLimits(
            memory_bytes=job.memory_bytes,
            processes=limits.CODE_THREADS,
            open_files=limits.CODE_OPEN_FILES,
            file_bytes=limits.CODE_FILE_BYTES,
            cpu_seconds=math.ceil(job.cpu_seconds) + limits.CODE_CPU_SLACK_SECONDS,
        ),
        scratch=(Scratch(target=COMPILED, size_bytes=limits.CODE_COMPILED_BYTES),),
        binds=(Bind(source=parts.deno, target=DENO), *libraries, *programs),
        files=(
            DataFile(target=HARNESS, content=parts.harness),
            DataFile(target=IMPORT_MAP, content=parts.import_map),
        ),
    )
