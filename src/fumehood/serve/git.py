"""Ask git about the workspace: an examined repository, a bounded answer, and failures in words of ours.

Invariants: git is started only with what `fence.git.command` builds and for a `Repository`; not a word of git's own
messages is passed on, since they name paths; output beyond the bound is not read, and the answer says that it was cut.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fumehood.core import limits
from fumehood.core.errors import GitFailedError, HarnessError, InvalidArgumentsError, NotAFileError, RefusedError
from fumehood.fence.git import command
from fumehood.fence.git.command import Argument
from fumehood.fence.git.revision import Revision, parse
from fumehood.fence.names import spelled
from fumehood.fence.repository import Examiner, Repository
from fumehood.serve.context import Context, Ended
from fumehood.serve.tool import Arguments

# What git says (with LC_ALL=C) when a revision is the cause; git 2.30 to 2.50.
_UNKNOWN = (
    b"unknown revision",
    b"bad revision",
    b"bad object",
    b"ambiguous argument",
    b"not a valid object name",
    b"invalid symmetric difference",
    b"invalid revision range",
)
_NO_COMMIT = b"does not have any commits yet"
_NO_BASE = b"no merge base"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What git wrote; not `complete`: it would have written more."""

    data: bytes
    complete: bool


def examine(context: Context) -> Repository:
    """The workspace's repository; NotARepositoryError when a part of it lies outside."""
    return _examiner(context.access.root_fd).examine()


def ask(context: Context, arguments: Sequence[Argument]) -> Output:
    """Run git to its end. GitFailedError when it could not answer; what ends the call ends git."""
    chunks: list[bytes] = []
    got = 0
    with context.programs.start("git", arguments, command.ENVIRONMENT, context.budget) as child:
        for chunk in child.chunks():
            chunks.append(chunk)
            got += len(chunk)
            if got > limits.GIT_OUTPUT_BYTES:
                return Output(data=b"".join(chunks)[: limits.GIT_OUTPUT_BYTES], complete=False)
        ended = child.wait()
    if ended.status != 0:
        raise _failure(ended)
    return Output(data=b"".join(chunks), complete=True)


def revision(arguments: Arguments) -> Revision | None:
    """The revision asked for, as a proof."""
    text = arguments.get("revision")
    return parse(text) if isinstance(text, str) else None


def path(arguments: Arguments, context: Context) -> bytes | None:
    """The path asked for, relative to the root; None for everything. Errors: those of `Access.relative`.

    Paths stand after `--` and are taken literally; what looks like an option is refused all the same, before git runs.
    """
    text = arguments.get("path")
    if not isinstance(text, str):
        return None
    if text.startswith("-") or "--output" in text:
        raise InvalidArgumentsError(f"{text[:200]!a} looks like an option", remedy="write ./ before the name")
    relative = context.access.relative(text)
    return None if relative in (b"", b".") else relative


def require_attributes(context: Context, paths: Iterable[bytes]) -> None:
    """NotAFileError for a `.gitattributes` of the root or above one of the paths that git would wait for."""
    folders = {b""}
    for named in paths:
        parts = named.split(b"/")[:-1]
        folders.update(b"/".join(parts[:depth]) + b"/" for depth in range(1, len(parts) + 1))
    for folder in sorted(folders):
        try:
            context.access.open(spelled(folder + b".gitattributes")).close()
        except NotAFileError:
            raise
        except RefusedError:
            continue  # there is none, or git does not read it either: a link


def unexpected(error: ValueError) -> HarnessError:
    """For output that is not of the format that was asked for."""
    return HarnessError(f"git's answer is not understood: {error}", remedy="report it, with git's version")


@functools.lru_cache(maxsize=4)  # a process serves one workspace; tests serve more
def _examiner(root_fd: int) -> Examiner:
    return Examiner(root_fd)


def _failure(ended: Ended) -> GitFailedError:
    said = ended.stderr.lower()
    if _NO_COMMIT in said:
        return GitFailedError("the repository has no commit yet", remedy="leave the history aside")
    if _NO_BASE in said:
        return GitFailedError("the two revisions have no common ancestor", remedy="ask for a..b instead of a...b")
    if any(phrase in said for phrase in _UNKNOWN):
        return GitFailedError("the repository has no such revision", remedy="take a commit id from git_log")
    return GitFailedError(f"git ended with status {ended.status}", remedy="ask for less, or look at the repository")
