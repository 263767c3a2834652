"""What a confined child is: one frozen value, from which everything else is derived."""

import enum
from dataclasses import dataclass
from pathlib import Path

from fumehood.core import limits
from fumehood.sandbox.egress import Policy


class Route(enum.StrEnum):
    """How the child comes to run without privilege.

    `user`: an ordinary user, through a user namespace. `dropped`: root drops to a uid of its own, then as `user`.
    `root`: root runs bubblewrap without a user namespace, and the child drops inside.
    """

    USER = "user"
    DROPPED = "dropped"
    ROOT = "root"


class Profile(enum.StrEnum):
    """Which seccomp program the child runs under."""

    REVIEW = "review"
    CODE = "code"
    GIT = "git"  # git and ripgrep, started by serve's starter
    SERVE_STDIO = "serve_stdio"  # the serving process itself
    SERVE_HTTP = "serve_http"  # the same, which listens
    AUDIT = "audit"  # writes the log of another process: changes files, starts nothing, reaches nobody
    ZYGOTE = "zygote"  # opens nothing and starts nothing; forks
    WORKER = "worker"  # computes over what it was given, and nothing else


class Root(enum.StrEnum):
    """What the child sees at `/`."""

    SYSTEM = "system"  # the host's /usr, a few files of /etc, /proc, /dev, and places to write
    FILES = "files"  # `binds`, `files` and `scratch` alone: no /usr, /etc, /proc, /dev


class TraceMode(enum.StrEnum):
    """What strace follows, from cheapest to fullest."""

    NETWORK = "network"  # processes and network, --seccomp-bpf
    FAST = "fast"  # those and file changes, --seccomp-bpf: refused calls are not visible
    PLAIN = "plain"  # processes, network, files; outcomes and refused calls are visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """One file or folder of the host, shown to the child."""

    source: Path
    target: str
    writable: bool = False
    bounded: bool = False  # what it holds counts with the layer


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One small file that exists only inside."""

    target: str
    content: bytes
    mode: int = 0o444


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """One empty folder in memory, the child's own, gone with it."""

    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Layers mounted at one point; what the child writes goes to `upper`."""

    lowers: tuple[Path, ...]  # bottom first
    upper: Path
    work: Path
    target: str = "/var"  # home, workspace and tmp lie below it, so that one layer catches every write


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFolder:
    """One ordinary folder in the place of an overlay: it holds the whole tree, and takes what the child writes."""

    upper: Path  # named as an overlay's, for it is measured and read likewise
    target: str = "/var"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who the child believes to be. Names are random and ordinary: a constant would give the sandbox away."""

    uid: int
    user: str
    host: str

    @property
    def home(self) -> str:
        """The home folder as the child sees it (`/home` is a link to `/var/home`)."""
        return f"/home/{self.user}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """What the kernel bounds for the child."""

    memory_bytes: int = limits.MEMORY_BYTES
    processes: int = limits.PROCESSES
    open_files: int = limits.OPEN_FILES
    file_bytes: int = limits.FILE_BYTES
    cpu_seconds: int = limits.CPU_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """One confined child. The same value always gives the same walls."""

    argv: tuple[str, ...]  # as the child sees the paths; argv[0] is absolute
    environment: tuple[tuple[str, str], ...]  # the whole of it
    workdir: str
    identity: Identity
    profile: Profile = Profile.REVIEW
    root: Root = Root.SYSTEM
    limits: ProcessLimits = ProcessLimits()
    binds: tuple[Bind, ...] = ()
    files: tuple[DataFile, ...] = ()
    scratch: tuple[Scratch, ...] = ()  # in a root of files
    overlay: Overlay | PlainFolder | None = None
    network: Policy = Policy()
    silent: bool = False  # nothing listens in its network, not even to see what is tried: for a child without sockets
    trace: TraceMode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the supervisor enforces from outside."""

    wall_seconds: float | None  # from the release; None: no end is set until `Running.arm`
    stdout_bytes: int | None = limits.CAPTURE_BYTES  # None: the caller reads stdout itself
    stderr_bytes: int = limits.CAPTURE_BYTES
    stderr_ends: bool = False  # whether more than that ends the child, or is read, counted and dropped
    layer_bytes: int = limits.LAYER_BYTES
    cpu_seconds: float | None = (
        None  # of the whole tree, until `Running.arm` sets another; None: the kernel's limit of each process alone
    )
    linger_seconds: float = 0.0  # after the first process has ended, for those it left behind
    start_seconds: float = limits.START_SECONDS  # until bubblewrap's blocked child is there
    stop_seconds: float = limits.STOP_SECONDS  # from the kill until nothing is left


class End(enum.StrEnum):
    """Why a sandbox ended."""

    EXITED = "exited"  # the target's first process ended by itself
    SIGNALLED = "signalled"  # by a signal that was not ours
    DEADLINE = "deadline"
    STOPPED = "stopped"  # the caller ended it, as planned
    MEMORY = "memory"
    LAYER = "layer"  # its layer outgrew its bound
    OUTPUT = "output"  # it said more on stderr than it may
    SENSOR = "sensor"  # what traced it was killed, and it with that
    CPU = "cpu"  # its tree used as much CPU time as it may
    CANCELLED = "cancelled"  # Ctrl-C or a cancelled task


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How one sandbox ended, and what it used.

    Wall and CPU seconds count from the release of the command, or from `Running.arm` where that was called: what a
    child used while it waited is not in them. The peak of memory is that of its whole life.
    """

    end: End
    status: int | None  # the first process's exit status, when it ended by itself
    signal: int | None
    wall_seconds: float
    cpu_seconds: float | None  # of the whole tree, from a cgroup, or as last looked at where it was bounded; else None
    peak_memory_bytes: int | None
    stop_seconds: float  # from the decision to end it until nothing was left
