"""The revisions that git may be asked for: a small language, and the proof that a text is of it. Pure.

Invariants: a `Revision` begins with a letter, a digit or `_`, so it is never an option; it holds no character that a
shell, git's pathspecs or a file system takes for more than a letter; it names commits and nothing else.

The language is that of gitrevisions(7) without what reaches further than the history: a name (branch, tag, commit id,
`HEAD`), then any of `~3` and `^2`; or two of those around `..` or `...`. Left out on purpose: `name:path` and `:0:path`
(they print a file past every check), `@{…}` (a journal of this clone, or its remotes), `:/text` and `^{/text}` (a
search with a foreign pattern), `^name`, `name^@`, `name^!`, `name^-` (a second way to say a range), an empty end of a
range, and names outside ASCII: the commit's id names them too.
"""

import re
from typing import Final, final

from fumehood.core import limits
from fumehood.core.errors import InvalidArgumentsError

_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_/@+-]|\.(?!\.))*"
_STEPS = r"(?:~[0-9]{0,5}|\^[0-9]{0,2})*"
_SHAPE = re.compile(rf"({_NAME}{_STEPS})(?:(\.\.\.?)({_NAME}{_STEPS}))?")

# For a JSON Schema, whose engine knows no look-ahead: the characters; the shape is checked here.
CHARACTERS = r"^[A-Za-z0-9_][A-Za-z0-9_./@+~^-]*$"

_SEAL: Final = object()


@final
class Revision:
    """A revision that git may be asked for. Proof: only `parse` makes one."""

    __slots__ = ("is_range", "text")

    def __init__(self, seal: object, text: str, *, is_range: bool) -> None:
        """Refuse everybody but this module."""
        if seal is not _SEAL:
            raise TypeError("only fence.git.revision makes a Revision")
        self.text: Final = text
        self.is_range: Final = is_range

    def __repr__(self) -> str:
        """The text: it is the caller's own."""
        return f"<Revision {self.text}>"


def parse(text: str) -> Revision:
    """The proof for a text; InvalidArgumentsError for whatever is not of the language."""
    shape = _SHAPE.fullmatch(text) if len(text) <= limits.REVISION_CHARACTERS else None
    if shape is None:
        raise InvalidArgumentsError(
            f"{text[: limits.REVISION_CHARACTERS]!a} is no revision that is asked for here",
            remedy="give a branch, a tag, a commit id, HEAD~2, or a range a..b",
        )
    return Revision(_SEAL, text, is_range=shape[2] is not None)
