"""Who the target believes to be on. Random and ordinary: a constant name would give the bench away."""

import random

from fumehood.sandbox.spec import Identity

_PEOPLE = "alex anna ben carla daniel elena felix grace hugo ines jan julia kai lena leo maria max nina oscar paula "
_PEOPLE += "peter rosa sam sara simon tara tim vera will zoe"
_MACHINES = ("laptop", "desktop", "dev", "pc", "work", "thinkpad", "box")
_FOLDERS = ("app", "project", "work", "server", "assistant", "notes-app", "service", "tools", "demo", "prototype")


def identity(uid: int, chance: random.Random) -> Identity:
    """A user and host name drawn from `chance`."""
    user = chance.choice(_PEOPLE.split())
    if chance.random() < 0.5:  # noqa: PLR2004 - every other person has a surname's first letter
        user += chance.choice("bcdfghklmnprstw")
    return Identity(uid=uid, user=user, host=f"{user}-{chance.choice(_MACHINES)}{chance.choice(['', '', '2', '-01'])}")


def folder(chance: random.Random) -> str:
    """The name of the workspace folder."""
    return chance.choice(_FOLDERS)
