"""Where a workspace lies, for production's invariants: its real path, and the home folders of this machine."""

import contextlib
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from fumehood.serve.invariants import Ground

_FIRST_PERSON = 1000  # login.defs(5), UID_MIN: below are the system's own users, whose homes are / and /usr/sbin


def of(folder: Path, *, http: bool, authenticated: bool) -> Ground:
    """The ground of a folder, which need not exist."""
    homes = _homes()
    return Ground(
        root=os.path.realpath(folder),
        homes=homes,
        holds_a_home=is_held(folder, homes),
        http=http,
        authenticated=authenticated,
    )


def is_held(folder: Path, homes: Iterable[str]) -> bool:
    """Whether a folder is a home or one above a home, by whatever name: a bind mount has the same device and inode."""
    try:
        own = folder.stat()
    except OSError:  # who opens it says why
        return False
    for home in homes:
        for above in (Path(home), *Path(home).parents):
            with contextlib.suppress(OSError):
                if home != "/" and os.path.samestat(own, above.stat()):
                    return True
    return False


def _homes() -> list[str]:
    """The home folders of this machine's users who can log in, and the one that the environment names."""
    named = [os.environ["HOME"]] if os.environ.get("HOME") else []
    people = [one.pw_dir for one in pwd.getpwall() if one.pw_uid == 0 or one.pw_uid >= _FIRST_PERSON]
    return [os.path.realpath(home) for home in named + people if home.startswith("/")]
