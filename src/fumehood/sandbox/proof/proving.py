"""Which acts prove which wall, and what their outcomes mean. Pure: values in, values out.

For each wall the same acts are tried twice: with every wall, and with exactly that wall taken away. A wall has held
when no act worked with it, and at least one works without it: only the difference is a proof. Where another wall would
stop the same act, that one is taken away on both sides (`beside`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fumehood.core.limits import LAYER_BYTES, MIB
from fumehood.sandbox.containment import WALLS
from fumehood.sandbox.proof.weakened import SHOWN
from fumehood.sandbox.spec import ProcessLimits, Route

HELD, NOT_HELD, NOT_PROVEN = "held", "not_held", "not_proven"
Acts = Mapping[str, object]

_TIGHT = ProcessLimits(memory_bytes=128 * MIB, processes=24, open_files=64, file_bytes=2 * MIB, cpu_seconds=1)
_OVER: Mapping[str, Acts] = {  # wall → the act that goes beyond the tight limit, and within the ordinary one
    "processes": {"start_many": 64},
    "open_files": {"open_many": 128, "raise_limit": 256},
    "file_size": {"write_much": ["/tmp/large", 4 * MIB, 0]},  # noqa: S108 - inside
    "cpu_time": {"use_cpu": 1.5},
    "memory": {"use_memory": 256 * MIB},
}
_FIELDS = {
    "processes": "processes",
    "open_files": "open_files",
    "file_size": "file_bytes",
    "cpu_time": "cpu_seconds",
    "memory": "memory_bytes",
}
_TRIAL_SECONDS = 20.0  # each act takes milliseconds; the longest computes 1.5 s
_SHORT_SECONDS = 0.5
_STAY_SECONDS = 1.0  # longer than the short deadline, and than the supervisor's look at a layer
_SMALL_LAYER_BYTES = 2 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What was put outside for the acts to reach."""

    secret: str  # a file that everybody may read
    open_folder: str  # a folder that everybody may write
    process: int  # of the target's own uid
    abstract: str
    port: int
    host_name: str
    queue: int
    others_file: str  # shown inside, readable by its owner only, who is not the target


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run: what is taken away, and its numbers."""

    without: frozenset[str] = frozenset()
    limits: ProcessLimits = ProcessLimits()
    wall_seconds: float = _TRIAL_SECONDS
    layer_bytes: int = LAYER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The acts that one wall should stop, and its two sides."""

    wall: str
    acts: Acts
    with_wall: Side = Side()
    without_wall: Side = Side()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one run: the acts that were answered, how it ended, and why it did not start."""

    acts: Mapping[str, tuple[bool, str]]
    ended: str = "exited"
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """Whether a wall held, and what was seen on both sides."""

    wall: str
    result: str
    why: str = ""
    with_wall: Mapping[str, str]
    without_wall: Mapping[str, str]


def trials(route: Route, planted: Planted) -> tuple[Trial, ...]:
    """Every trial for a route; a wall that is in none is explained by `unprovable`."""
    outside = {
        "read_outside": [planted.secret, SHOWN + planted.secret],
        "write_outside": [f"{planted.open_folder}/written", f"{SHOWN}{planted.open_folder}/written"],
    }
    rooted = route is Route.ROOT
    # Elsewhere bubblewrap's second user namespace owns neither the mounts nor the name of the host, a process of the
    # host's namespace shows its environment to nobody below, and uid 0 is not mapped.
    naming: dict[str, object] = {"set_host_name": "changed"} if rooted else {}
    mounting: dict[str, object] = {"mount": "/tmp"} if rooted else {}  # noqa: S108 - inside
    reading: dict[str, object] = {"read_environment": planted.process} if rooted else {}
    becoming: dict[str, object] = {"become_root": 0} if rooted else {}
    found = [
        _removing("mount_namespace", outside),
        _removing("pid_namespace", {"see_process": planted.process, "signal_process": planted.process} | reading),
        _removing(
            "network_namespace",
            {"reach_abstract_socket": planted.abstract, "reach_loopback_service": ["127.0.0.1", planted.port]},
        ),
        _removing("ipc_namespace", {"reach_message_queue": planted.queue}),
        _removing("uts_namespace", {"see_host_name": planted.host_name}),
        _removing("capabilities", {"open_closed_file": "/dev/shm"} | naming),  # noqa: S108 - inside
        _removing("seccomp", dict.fromkeys(("use_io_uring", "clone_untraced", "use_keyring", "trace_sibling"), 0)),
        _removing("seccomp", {"make_namespace": 0} | mounting, beside=frozenset({"capabilities"})),
        *(_numbers(wall) for wall in _OVER),
        _layer(),
        _deadline(),
    ]
    if route is not Route.ROOT:
        found.append(_removing("user_namespace", {"make_user_namespace": 0}, beside=frozenset({"seccomp"})))
    if route is not Route.USER:
        # As root of the host it could read its own file; an overlay would not let it, so there is none (see proof).
        found.append(_removing("uid", {"read_other_users_file": [planted.others_file]} | becoming))
    return tuple(sorted(found, key=lambda trial: WALLS.index(trial.wall)))


def unprovable(route: Route) -> dict[str, str]:
    """The walls that no trial shows on this route, and why."""
    reasons = {"no_new_privileges": "bubblewrap always sets it; the route's probe has seen it from inside"}
    if route is Route.ROOT:
        reasons["user_namespace"] = "not requested: root needs none"
    if route is Route.USER:
        reasons["uid"] = "not requested: the child has the invoking user's own"
    return reasons


def judge(trial: Trial, with_wall: Outcome, without_wall: Outcome) -> Proven:
    """What two outcomes say about one wall."""
    inside, outside = _by_act(trial, with_wall), _by_act(trial, without_wall)
    proven = Proven(
        wall=trial.wall,
        result=HELD,
        with_wall={act: detail for act, (_, detail) in inside.items()},
        without_wall={act: detail for act, (_, detail) in outside.items()},
    )
    worked = [act for act, (did, _) in inside.items() if did]
    if worked:
        return replace(proven, result=NOT_HELD, why=f"worked in spite of the wall: {', '.join(worked)}")
    if None in (did for did, _ in inside.values()):
        return replace(proven, result=NOT_PROVEN, why=f"with the wall: {with_wall.problem or 'no answer'}")
    if not any(did for did, _ in outside.values()):
        why = without_wall.problem or "the same is refused without this wall: something else of the host stops it"
        return replace(proven, result=NOT_PROVEN, why=why)
    silent = [act for act, (did, _) in outside.items() if not did]
    return replace(proven, why=f"refused on both sides, which says nothing: {', '.join(silent)}" if silent else "")


def read_outcomes(said: bytes) -> dict[str, tuple[bool, str]]:
    """What `programs/prove.py` printed, as values; a line of another form is passed over."""
    found: dict[str, tuple[bool, str]] = {}
    for line in said.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match row:
            case {"act": str(act), "worked": bool(worked), "detail": str(detail)}:
                found[act] = (worked, detail)
            case _:
                continue
    return found


def joined(parts: Sequence[Proven]) -> Proven:
    """Several trials of one wall as one: it held when one shows it and none speaks against it."""
    order = (NOT_HELD, HELD, NOT_PROVEN)
    result = next(result for result in order if any(part.result == result for part in parts))
    return Proven(
        wall=parts[0].wall,
        result=result,
        why="; ".join(part.why for part in parts if part.why),
        with_wall={act: detail for part in parts for act, detail in part.with_wall.items()},
        without_wall={act: detail for part in parts for act, detail in part.without_wall.items()},
    )


def _by_act(trial: Trial, outcome: Outcome) -> dict[str, tuple[bool | None, str]]:
    """Each act's outcome; one that a bound of ours cut off was stopped by it, any other missing one is unknown."""
    found: dict[str, tuple[bool | None, str]] = {}
    for act in trial.acts:
        if act in outcome.acts:
            found[act] = outcome.acts[act]
        elif outcome.ended in {"deadline", "layer", "memory"}:
            found[act] = (False, f"ended by the {outcome.ended} bound")
        else:
            found[act] = (None, "no answer")
    return found


def _removing(wall: str, acts: Acts, *, beside: frozenset[str] = frozenset()) -> Trial:
    without = beside | {wall}
    return Trial(wall=wall, acts=acts, with_wall=Side(without=beside), without_wall=Side(without=without))


def _numbers(wall: str) -> Trial:
    """A limit: tight on one side, ordinary on the other."""
    tight = replace(ProcessLimits(), **{_FIELDS[wall]: getattr(_TIGHT, _FIELDS[wall])})
    return Trial(wall=wall, acts=_OVER[wall], with_wall=Side(limits=tight))


def _layer() -> Trial:
    acts = {"write_much": ["/tmp/large", 4 * _SMALL_LAYER_BYTES, _STAY_SECONDS]}  # noqa: S108 - inside
    return Trial(wall="layer_size", acts=acts, with_wall=Side(layer_bytes=_SMALL_LAYER_BYTES))


def _deadline() -> Trial:
    return Trial(wall="deadline", acts={"outlast": _STAY_SECONDS}, with_wall=Side(wall_seconds=_SHORT_SECONDS))
