"""Which path of the workspace is meant, and whether it may be looked at: decided before anything is opened. Pure.

Invariants: an allowed path is relative to the root and clean (no empty part, no `.`, no `..`; the root itself is `.`),
holds no NUL byte, and no part of it is on the denylist. Whatever leads out is denied by one rule, whether something is
there or not (T1, T3, T10).

Not promised: that what lies at an allowed path is what its name says. `serve.access` judges what was opened: its kind,
its name on disk, its content.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from fumehood.fence import names
from fumehood.fence.denylist import Denylist


class Rule(Enum):
    """Why a path is denied."""

    NO_NAME = auto()  # half of a surrogate pair: no bytes stand for it
    NUL = auto()  # it would be cut there
    OUTSIDE = auto()  # absolute and not beneath the root, or a `..`, wherever that leads
    DENIED = auto()  # a part is on the denylist


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """The path that is meant."""

    path: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """By which rule."""

    rule: Rule


Decision: TypeAlias = Allow | Deny


def decide(asked: str, roots: Sequence[bytes], denylist: Denylist) -> Decision:
    """Decide about a path as a client wrote it; `roots` are the spellings of the root, absolute."""
    try:
        path = names.asked(asked)
    except UnicodeEncodeError:
        return Deny(rule=Rule.NO_NAME)
    if b"\0" in path:
        return Deny(rule=Rule.NUL)
    relative = names.beneath(path, roots)
    if relative is None:
        return Deny(rule=Rule.OUTSIDE)
    parts = [part for part in relative.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        return Deny(rule=Rule.OUTSIDE)
    clean = b"/".join(parts) or b"."
    return Deny(rule=Rule.DENIED) if denylist.denies(clean) else Allow(path=clean)
