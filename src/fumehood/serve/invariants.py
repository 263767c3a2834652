"""What production asks of a served workspace, and `doctor` warns of elsewhere. Pure.

Invariants: each of them is judged, not only the first that is broken; in production one broken invariant refuses the
start; elsewhere it is a warning and never silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fumehood.core.errors import RefusedError
from fumehood.core.sections import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where and how a workspace is about to be served."""

    root: str  # the real path of the workspace
    homes: Sequence[str] = ()  # real paths of the home folders of this machine's users
    holds_a_home: bool = False  # under another name than its real path: by a bind mount
    http: bool = False
    authenticated: bool = False  # by tokens or an OAuth issuer; a Unix socket's uid is no token


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One invariant that does not hold: what is wrong, and the next step. `setting` broke it, if one did."""

    name: str
    problem: str
    remedy: str
    setting: str = ""


class InvariantError(RefusedError):
    """Production refuses to start."""

    code = "production_invariant"


def broken(settings: Settings, ground: Ground) -> tuple[Broken, ...]:
    """Every invariant that does not hold here."""
    found = (
        (settings.content.unsafe_no_redaction, _unset("redaction", "redaction is off", "content.unsafe_no_redaction")),
        (settings.content.unsafe_no_scanning, _unset("scanning", "scanning is off", "content.unsafe_no_scanning")),
        (
            settings.workspace.unsafe_follow_links,
            _unset("links", "links are followed", "workspace.unsafe_follow_links"),
        ),
        (
            ground.http and not ground.authenticated,
            Broken(name="http_token", problem="HTTP asks for no token", remedy="set http.token_file"),
        ),
        (
            _too_wide(ground),
            Broken(
                name="workspace",
                problem="the workspace is, or holds, a home folder or the root of the file system",
                remedy="serve one project's folder",
            ),
        ),
    )
    return tuple(one for wrong, one in found if wrong)


def _unset(name: str, problem: str, setting: str) -> Broken:
    return Broken(name=name, problem=problem, remedy=f"unset {setting}", setting=setting)


def hold(settings: Settings, ground: Ground) -> tuple[Broken, ...]:
    """The broken invariants, to be warned of; `InvariantError` in production, when there is one."""
    found = broken(settings, ground)
    if found and settings.environment == "production":
        problems = "; ".join(one.problem for one in found)
        raise InvariantError(f"production refuses: {problems}", remedy="; ".join(one.remedy for one in found))
    return found


def _too_wide(ground: Ground) -> bool:
    root = ground.root.rstrip("/") + "/"
    return (
        ground.holds_a_home
        or root == "/"
        or any((home.rstrip("/") + "/").startswith(root) for home in ground.homes if home != "/")
    )
