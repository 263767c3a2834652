"""What a review hands over: `result.json` as frozen Structs, from which the published schema is generated.

Invariants: facts and states, never a judgement of the target; every list is bounded and says how many entries it
lost; the first limitation is always `FIRST_LIMITATION`; text of the target's is inert. A result fits its own schema.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from fumehood.core import jsonio
from fumehood.core.schemas import DIALECT, components
from fumehood.observe.model import CollectorState, Fidelity, Kind, Phase
from fumehood.review.request import ReviewRequest, StopCondition
from fumehood.review.states import State
from fumehood.sandbox.containment import Containment, WallState
from fumehood.sandbox.spec import End, Route

FIRST_LIMITATION = (
    "A clean run means only that no concerning behavior was observed under the tested conditions and collector "
    "limitations. The sensors are evidence sensors, not tamper-resistant forensic monitoring."
)

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 in hex digits")]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a result."""


class ToolRecord(_Part, frozen=True, kw_only=True):
    """One program of the host that was used."""

    name: str
    path: str
    version: str
    sha256: Annotated[str, Meta(description="SHA-256 in hex digits; empty where it was not read")]
    origin: Annotated[str, Meta(description="wheel, system or operator")]


class Environment(_Part, frozen=True, kw_only=True):
    """Where the review ran, and what it takes for granted."""

    harness_version: Annotated[str, Meta(description="version of fumehood")]
    system: str
    machine: str
    kernel: str
    route: Annotated[Route | None, Meta(description="how the target came to run without privilege")] = None
    tools: tuple[ToolRecord, ...] = ()
    target_user: Annotated[str, Meta(description="the user name that the target saw")] = ""
    target_host: Annotated[str, Meta(description="the host name that the target saw")] = ""
    target_uid: int | None = None
    workspace: Annotated[str, Meta(description="the workspace as the target saw it")] = ""
    search_path: Annotated[tuple[str, ...], Meta(description="PATH of every step")] = ()
    registry: Annotated[str, Meta(description="the package registry, as the operator's settings name it")] = ""
    index: Annotated[str, Meta(description="the Python index, as the operator's settings name it")] = ""
    forge: Annotated[str, Meta(description="the forge, as the operator's settings name it")] = ""
    ca_file: Annotated[str, Meta(description="certificates of the operator's that every step was given")] = ""
    operator_hosts: Annotated[
        tuple[str, ...], Meta(description="host:port that the operator's settings open; may be private or plain http")
    ] = ()
    weakened: Annotated[tuple[str, ...], Meta(description="settings in force that weaken a control")] = ()
    assumptions: Annotated[tuple[str, ...], Meta(description="what isolation rests on")] = ()


class Lockfile(_Part, frozen=True, kw_only=True):
    """The lock that INSTALL ran from."""

    path: str
    sha256: Digest
    version: int | None = None
    packages: Count | None = None


class Preparation(_Part, frozen=True, kw_only=True):
    """The preparation profile of the request, and what became of it."""

    profile: Literal["NONE", "npm_build", "python_build"]
    status: Annotated[
        Literal["not_requested", "not_reached", "completed", "failed", "timeout"],
        Meta(description="not_reached: the review ended before it"),
    ]


class Attestation(_Part, frozen=True, kw_only=True):
    """Whether a registry offers an attestation of provenance. Its signature is not verified here."""

    state: Literal["present", "absent", "unknown"]
    predicate_types: Annotated[tuple[str, ...], Meta(description="as the registry names them; at most 8")] = ()
    why: Annotated[str, Meta(description="what `absent` and `unknown` rest on")] = ""


class StartFile(_Part, frozen=True, kw_only=True):
    """A file that Python reads, and may run, at every start of the environment: its kind of hook."""

    path: Annotated[str, Meta(description="relative to the workspace")]
    sha256: Digest | None = None
    runs_code: Annotated[
        bool | None, Meta(description="of a .pth: a line of it begins with `import`; null where it was not read")
    ] = None


class SourceBuild(_Part, frozen=True, kw_only=True):
    """How the wheel of a Python target was built from its sources, where the request asks for that."""

    sources: Annotated[str, Meta(description="the source distribution; provenance.integrity is its own")]
    backend: Annotated[str, Meta(description="the build backend that its pyproject.toml names, or the default")]
    in_tree: Annotated[bool, Meta(description="whether the backend lies in the sources themselves")]
    dependencies: Annotated[Count, Meta(description="packages of the locked environment that the backend ran in")]
    wheel_sha256: Annotated[
        Digest | None, Meta(description="of the wheel that the build left; another run's may differ")
    ]


class Distribution(_Part, frozen=True, kw_only=True):
    """The wheel of a Python target, and what the wheels put in place."""

    wheel: Annotated[str | None, Meta(description="the file that was installed; null where it is not known")] = None
    uploaded: Annotated[str | None, Meta(description="when, as the index says")] = None
    yanked: Annotated[bool | None, Meta(description="whether the index has it marked as yanked")] = None
    build: Annotated[SourceBuild | None, Meta(description="null for a wheel of the index")] = None
    file_hosts: Annotated[tuple[str, ...], Meta(description="where the index says that the files are")] = ()
    console_scripts: tuple[str, ...] = ()
    start_files: tuple[StartFile, ...] = ()
    start_files_total: Count = 0
    replaced: Annotated[
        tuple[str, ...], Meta(description="files of the environment itself that a wheel wrote over; at most 32")
    ] = ()
    replaced_total: Count = 0


class Provenance(_Part, frozen=True, kw_only=True):
    """What exactly was reviewed."""

    kind: Literal["git", "npm", "pypi", "dir"]
    preparation: Preparation
    pinned: Annotated[bool, Meta(description="whether the request names one content: a commit, or a version")]
    private: Annotated[bool, Meta(description="whether it came from a folder of the operator's")] = False
    repository: str | None = None
    commit: Annotated[str | None, Meta(description="the commit that was checked out")] = None
    name: str | None = None
    version: str | None = None
    integrity: Annotated[str | None, Meta(description="as the lock has it, verified while fetching")] = None
    digest: Annotated[str | None, Meta(description="SHA-256 over the sources")] = None
    entrypoint: Annotated[str | None, Meta(description="the file that was started")] = None
    node_version: str | None = None
    npm_version: str | None = None
    python_version: str | None = None
    uv_version: str | None = None
    as_of: Annotated[str | None, Meta(description="nothing newer was resolved; RFC 3339")] = None
    attestation: Annotated[Attestation | None, Meta(description="null where a target has no registry")] = None
    distribution: Annotated[Distribution | None, Meta(description="of pypi: the wheel, and what it put in place")] = (
        None
    )
    lockfile: Lockfile | None = None


class StepRecord(_Part, frozen=True, kw_only=True):
    """One confined child: how it ended and what it used."""

    name: str
    phase: Phase
    end: Annotated[End, Meta(description="why it ended; `stopped` is our own planned end")]
    status: Annotated[int | None, Meta(description="exit status of its first process, when it ended by itself")] = None
    signal: int | None = None
    wall_seconds: Seconds = 0.0
    cpu_seconds: Annotated[float | None, Meta(description="of the whole tree; null where no cgroup counted it")] = None
    peak_memory_bytes: int | None = None
    stop_seconds: Annotated[float, Meta(description="from the decision to end it until nothing was left")] = 0.0
    network_mode: str = "NONE"
    trace: Annotated[str | None, Meta(description="what was traced; only `plain` shows refused calls")] = None


class Execution(_Part, frozen=True, kw_only=True):
    """How the review ended. A state is evidence about a run, nothing else."""

    status: State
    started_at: Annotated[str, Meta(description="RFC 3339, UTC")]
    ended_at: Annotated[str, Meta(description="RFC 3339, UTC")]
    steps: tuple[StepRecord, ...] = ()


class CollectorRecord(_Part, frozen=True, kw_only=True):
    """One sensor in one step: no event is worth something only beside `active`."""

    name: str
    phase: Phase
    step: Annotated[str, Meta(description="the step; empty in results of before it was told")] = ""
    state: CollectorState
    lost: Count = 0
    why: Annotated[str, Meta(description="the reason, where it is not active")] = ""
    limitations: Annotated[tuple[str, ...], Meta(description="what it cannot see")] = ()
    counts: dict[str, int] = {}


class Row(_Part, frozen=True, kw_only=True):
    """One fact. The keys of `detail` are listed by type in docs/reference/result.md."""

    sequence: Annotated[int, Meta(ge=1, description="in the order in which the review learned of it")]
    phase: Phase
    step: str
    type: Kind
    collector: str
    fidelity: Fidelity
    detail: Annotated[dict[str, Any], Meta(description="inert text, numbers, lists and objects")]
    cut: Annotated[bool, Meta(description="whether text or lists inside were cut")] = False


class Lost(_Part, frozen=True, kw_only=True):
    """How many observations of one type in one phase were not kept in `result.json`."""

    phase: Phase
    type: Kind
    count: Annotated[int, Meta(ge=1)]


class Observations(_Part, frozen=True, kw_only=True):
    """The observations that were kept, and how many were made and lost."""

    items: tuple[Row, ...] = ()
    total: Count = 0
    lost: tuple[Lost, ...] = ()


class ErrorRecord(_Part, frozen=True, kw_only=True):
    """What ended the review or went wrong in it."""

    code: str
    message: str
    step: str | None = None


class WallRecord(_Part, frozen=True, kw_only=True):
    """One wall of one step."""

    name: str
    state: WallState
    how: Annotated[str, Meta(description="the mechanism")] = ""
    why: Annotated[str, Meta(description="the reason, where it is unavailable")] = ""
    remedy: str = ""


class ContainmentRecord(_Part, frozen=True, kw_only=True):
    """The walls that stood around one step."""

    step: str
    route: str
    walls: tuple[WallRecord, ...]


class Coverage(_Part, frozen=True, kw_only=True):
    """How much was exercised and seen. Null: not known."""

    hooks_declared: Annotated[int | None, Meta(description="packages that declare install scripts")] = None
    hooks_run: Annotated[int | None, Meta(description="install scripts that were seen to start")] = None
    tools_listed: Annotated[
        int | None, Meta(description="of the child that counts; null where no list was asked for")
    ] = None
    prompts_listed: int | None = None
    resources_listed: int | None = None
    resource_templates_listed: int | None = None
    tools_called: Count = 0
    bytes_captured: Count = 0
    bytes_dropped: Count = 0
    calls_traced: Annotated[int | None, Meta(description="null where nothing was traced")] = None
    calls_lost: Annotated[int | None, Meta(description="null where nothing was traced")] = None
    frames_received: Count = 0
    events_written: Count = 0
    events_lost: Count = 0
    seconds_observed: Seconds = 0.0


class Behaviour(_Part, frozen=True, kw_only=True):
    """One digest of what was recorded, without what differs from run to run. It says nothing of the code."""

    version: Annotated[str, Meta(description="of the form that was digested: docs/reference/behaviour.md")]
    sha256: Digest


class ReviewResult(_Part, frozen=True, kw_only=True):
    """What one bounded run did: facts, states, and what could not be seen."""

    schema_version: Annotated[Literal[1], Meta(description="of the result")] = 1
    request: ReviewRequest
    environment: Environment
    provenance: Provenance
    execution: Execution
    collectors: tuple[CollectorRecord, ...]
    observations: Observations
    stop_condition_triggered: StopCondition | None = None
    errors: tuple[ErrorRecord, ...] = ()
    containment: tuple[ContainmentRecord, ...]
    limitations: Annotated[tuple[str, ...], Meta(min_length=1)]
    coverage: Coverage
    behaviour: Annotated[
        Behaviour | None, Meta(description="to compare two results of one version by; null where none was made")
    ] = None


def containment(step: str, record: Containment) -> ContainmentRecord:
    """The walls of one step, for the result."""
    walls = tuple(WallRecord(name=w.name, state=w.state, how=w.how, why=w.why, remedy=w.remedy) for w in record.walls)
    return ContainmentRecord(step=step, route=record.route, walls=walls)


def encode(result: ReviewResult) -> bytes:
    """`result.json`: ASCII, indented, without a control character but line ends."""
    value = msgspec.to_builtins(result)
    return msgspec.json.format(jsonio.dump(value), indent=2) + b"\n"


def schema() -> dict[str, Any]:
    """The published JSON Schema of a result."""
    parts = components(ReviewResult)
    whole = parts.pop("ReviewResult")
    return {"$schema": DIALECT, "$id": "urn:fumehood:review-result", **whole, "title": "Review result", "$defs": parts}
