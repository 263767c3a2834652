"""What a home holds: files with their modes and ages, variables, and the canaries in both."""

import random
from dataclasses import dataclass

from fumehood.observe.canary import Canary
from fumehood.review.home import draws

PRIVATE = 0o600
_PROVIDERS = ("mail", "post", "inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One file as somebody keeps it, relative to the home, with the credentials in it, the weightiest first."""

    path: str
    text: str
    canaries: tuple[Canary, ...] = ()
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeFile:
    """One file that is to be written. `age_seconds`: how long ago it was last changed."""

    path: str
    data: bytes
    age_seconds: int
    mode: int
    canary: str = ""  # the weightiest credential in it; empty for a file of another kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """One lived-in home."""

    files: tuple[HomeFile, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()  # of steps in which the target's own code runs
    canaries: tuple[Canary, ...] = ()

    @property
    def planted(self) -> dict[str, str]:
        """Path, relative to the home, of each file that is kept for a credential, and the credential's name."""
        return {file.path: file.canary for file in self.files if file.canary}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who lives there, and for whom they work."""

    user: str
    host: str
    surname: str
    company: str
    projects: tuple[str, ...]

    @classmethod
    def drawn(cls, user: str, host: str, chance: random.Random) -> "Person":
        """A surname, a company and some projects for a user."""
        projects = tuple(draws.name(chance, chance.choice((2, 3))) for _ in range(chance.randint(3, 6)))
        return cls(user=user, host=host, surname=draws.name(chance, 2), company=draws.name(chance), projects=projects)

    @property
    def mail(self) -> str:
        """An address of the company's."""
        return f"{self.user}@{self.domain}"

    @property
    def domain(self) -> str:
        """A name below `.internal`, which is reserved for private use: no public server answers for it."""
        return f"{self.company}.internal"
