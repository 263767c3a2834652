"""A sandbox with a wall taken away, to show that it is this wall that holds. Dangerous, for tests and `doctor --prove`.

No request, setting or command can name one: only `cli.prove` and tests construct a `Weakened`, and an architecture
test counts who imports this module. Pure: lists of words in, lists of words out.

What is a number (processes, memory, time) needs nothing here: a spec with a larger number is that wall taken away.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fumehood.sandbox.spec import Route

SHOWN = "/host"  # where the host's tree is shown without the mount_namespace wall
_DROPPED_WORDS = {  # wall → (option of bwrap, how many words it takes)
    "user_namespace": (("--disable-userns", 1),),
    "network_namespace": (("--unshare-net", 1),),
    "ipc_namespace": (("--unshare-ipc", 1),),
    "uts_namespace": (("--unshare-uts", 1), ("--hostname", 2)),
    "pid_namespace": (("--unshare-pid", 1), ("--proc", 2)),
    "seccomp": (("--seccomp", 2),),
    "parent_death": (("--die-with-parent", 1),),
}
_ADDED_WORDS = {
    "pid_namespace": ("--ro-bind", "/proc", "/proc"),  # a new proc may not be mounted without a pid namespace
    "mount_namespace": ("--bind", "/", SHOWN),
    "capabilities": ("--cap-add", "ALL"),
}
_CAPABILITY_WORDS = ("--inh-caps=-all", "--ambient-caps=-all")
_BOUND = "--bounding-set=-all"
_OWN_INIT = re.compile(r"^/proc/1(?=/|$)")
_KEPT = "=-all,+dac_override,+sys_admin"
REMOVABLE = frozenset({*_DROPPED_WORDS, *_ADDED_WORDS, "uid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Weakened:
    """Which walls are taken away, by the names of `containment.WALLS`."""

    without: frozenset[str]

    def __post_init__(self) -> None:
        """Refuse a wall that cannot be taken away: its absence would be believed."""
        if self.without - REMOVABLE:
            raise ValueError(f"cannot be taken away: {sorted(self.without - REMOVABLE)}")

    def options(self, words: Sequence[str]) -> list[str]:
        """Bwrap's options without these walls; `words` are those of `bubblewrap.options`."""
        if "pid_namespace" in self.without:  # what hides pid 1 would hide the host's, and may not
            words = [_OWN_INIT.sub("/opt/init", word) for word in words]
        gone = dict(pair for wall in sorted(self.without) for pair in _DROPPED_WORDS.get(wall, ()))
        kept: list[str] = []
        added = [word for wall in sorted(self.without) for word in _ADDED_WORDS.get(wall, ())]
        position = 0
        while position < len(words):
            word = words[position]
            width = _WIDTHS.get(word, 1)
            if word == "--remount-ro" and added:
                kept, added = [*kept, *added], []
            if word not in gone:
                kept += words[position : position + width]
            position += width
        return [*kept, *added]

    def route(self, route: Route) -> Route:
        """The route by which `bubblewrap.chain` and `.command` are built: one without a drop, without the uid wall."""
        return Route.USER if "uid" in self.without else route

    def command(self, words: Sequence[str]) -> list[str]:
        """What bwrap starts: without the capabilities wall, setpriv's drop inside keeps some of them (`root` route)."""
        if "capabilities" not in self.without:
            return list(words)
        return [word.replace("=-all", _KEPT) if word in _CAPABILITY_WORDS else word for word in words if word != _BOUND]

    def chain(self, words: Sequence[str]) -> list[str]:
        """The chain around bwrap; without the parent_death wall the death of the parent sends nothing that ends it."""
        if "parent_death" not in self.without:
            return list(words)
        return ["CONT" if before == "--pdeathsig" else word for before, word in zip(["", *words], words, strict=False)]


# how many words each option of ours takes, itself included (bwrap(1)): a value may look like an option
_WIDTHS = {
    **dict.fromkeys(("--hostname", "--uid", "--gid", "--dir", "--proc", "--dev", "--tmpfs", "--size", "--perms"), 2),
    **dict.fromkeys(("--overlay-src", "--chdir", "--remount-ro", "--unsetenv", "--cap-add", "--cap-drop"), 2),
    **dict.fromkeys(("--seccomp", "--info-fd", "--block-fd", "--args", "--json-status-fd", "--sync-fd"), 2),
    **dict.fromkeys(("--bind", "--ro-bind", "--bind-try", "--ro-bind-try", "--dev-bind", "--symlink"), 3),
    **dict.fromkeys(("--ro-bind-data", "--bind-data", "--file", "--setenv", "--chmod"), 3),
    **dict.fromkeys(("--ro-bind-fd", "--bind-fd"), 3),
    "--overlay": 4,
}
