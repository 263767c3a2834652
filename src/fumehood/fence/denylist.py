"""Names that are never served. Pure: the same lists and the same path give the same answer.

Invariants: every component of a path is judged, in any case; the built-in lists cannot be shortened, only added to.
"""

from collections.abc import Iterable
from dataclasses import dataclass

NAMES = frozenset({b".env", b".netrc", b".npmrc", b".pypirc", b".git-credentials", b"id_rsa", b"id_ed25519"})
FOLDERS = frozenset({b".git", b".ssh", b".aws", b".gnupg"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Denylist:
    """The built-in lists and the operator's additions."""

    names: Iterable[str] = ()
    globs: Iterable[str] = ()
    folders: Iterable[str] = ()

    def denies(self, path: bytes) -> bool:
        """Whether a path, relative to the root, is or lies in something that is never served."""
        return any(name.lower() in NAMES | FOLDERS for name in path.split(b"/"))

    def search_globs(self) -> tuple[str, ...]:
        """The same as arguments of ripgrep's `--iglob`, each beginning with `!`."""
        return tuple(f"!**/{name.decode()}" for name in sorted(NAMES | FOLDERS))
