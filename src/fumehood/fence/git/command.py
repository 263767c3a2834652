"""What git is started with: two commands, their arguments, and the whole environment. Pure.

Invariants: the commands are `log`, `diff`, and the plumbing of `diff`; no argument of a caller stands where git looks
for an option: revisions are of their proof type, paths stand after `--` and are taken literally. Nothing of our own
environment is passed on. Repository and work tree are named, so git looks for neither; the child's folder is the root
of the workspace.

What `closing` of `fence.git.configuration` gives stands before the settings here, which therefore win.
"""

from collections.abc import Sequence

from fumehood.core import limits
from fumehood.fence.git.revision import Revision

Argument = str | bytes

ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",  # no transport at all: a missing object of a promisor remote is not fetched
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": "/dev/null",  # git before 2.32 knows no GIT_CONFIG_GLOBAL
    "LC_ALL": "C",  # its messages are looked at
    "PATH": "/usr/bin:/bin",
    "XDG_CONFIG_HOME": "/dev/null",
}

_SETTINGS = {
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.attributesFile": "/dev/null",
    "core.bigFileThreshold": str(limits.SERVED_FILE_BYTES),  # a larger file is binary to `diff`
    "core.editor": "false",
    "core.excludesFile": "/dev/null",
    "core.fsmonitor": "false",
    "core.gitProxy": "",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.quotePath": "false",  # `fence.git.patch` knows git's quotes without those of bytes beyond ASCII
    "core.sshCommand": "false",
    "core.untrackedCache": "false",
    "core.useReplaceRefs": "false",
    "credential.helper": "",
    "diff.algorithm": "default",
    "diff.external": "",
    "diff.indentHeuristic": "true",
    "diff.orderFile": "/dev/null",
    "diff.suppressBlankEmpty": "false",
    "gpg.program": "false",
    "log.follow": "false",
    "log.mailmap": "false",
    "log.showRoot": "true",
    "log.showSignature": "false",
    "mailmap.blob": "",
    "mailmap.file": "",
    "protocol.allow": "never",
}
_BEGINNING = ("--no-pager", "--no-optional-locks", "--literal-pathspecs", "--git-dir=.git", "--work-tree=.")
_CLOSED = tuple(word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}"))
_TEXT = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative")
_NAMES = ("--raw", "-z", "--no-abbrev")
_SHOWN = ("-M", f"-l{limits.DIFF_FILES}", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/")

# The fields of a commit, each ended by NUL; `fence.git.history` reads them. %B is the message as it was written.
FIELDS = ("%H", "%P", "%an", "%ae", "%aI", "%B")


def log(
    closing: Sequence[bytes], revision: Revision | None, path: bytes | None, *, skip: int, count: int
) -> tuple[Argument, ...]:
    """List `count` commits after the first `skip`, with the names of the files that each changed."""
    return (
        *_git(closing),
        "log",
        *_TEXT,
        *_NAMES,
        "--no-renames",
        "--no-decorate",
        "--no-notes",
        "--no-show-signature",
        "--no-follow",
        "--encoding=UTF-8",
        f"--format=tformat:{'%x00'.join(FIELDS)}%x00",
        f"--skip={skip}",
        f"--max-count={count}",
        *(() if revision is None else (revision.text,)),
        "--",
        *(() if path is None else (path,)),
    )


def candidates(
    closing: Sequence[bytes], revision: Revision | None, path: bytes | None, *, staged: bool
) -> tuple[Argument, ...]:
    """List the names that differ, without a look at what any file of the work tree holds.

    The plumbing compares the work tree by the index's notes of size and time alone; `diff` would read the files.
    """
    how: tuple[str, ...]
    if revision is not None and revision.is_range:
        how = ("diff", revision.text)
    elif staged:
        how = ("diff-index", "--cached", "HEAD" if revision is None else revision.text)
    elif revision is not None:
        how = ("diff-index", revision.text)
    else:
        how = ("diff-files",)
    options = (*_TEXT, *_NAMES, "--no-renames", _submodules(revision, staged=staged))
    return (*_git(closing), how[0], *options, *how[1:], "--", *(() if path is None else (path,)))


def difference(
    closing: Sequence[bytes],
    revision: Revision | None,
    paths: Sequence[bytes],
    *,
    staged: bool,
    stat_only: bool,
) -> tuple[Argument, ...]:
    """Compare these paths: names first, then the lines, or only how many.

    The lines come with more around each change than is shown: see `fence.git.hunks`.
    """
    around = limits.CONTEXT_LINES_DIFF + limits.DIFF_AROUND_LINES
    lines = ("--numstat",) if stat_only else ("--patch", f"--unified={around}", "--inter-hunk-context=0")
    return (
        *_git(closing),
        "diff",
        *_TEXT,
        *_NAMES,
        *_SHOWN,
        *lines,
        _submodules(revision, staged=staged),
        *(("--cached",) if staged else ()),
        *(() if revision is None else (revision.text,)),
        "--",
        *paths,
    )


def _git(closing: Sequence[bytes]) -> tuple[Argument, ...]:
    return (*_BEGINNING, *closing, *_CLOSED)


def _submodules(revision: Revision | None, *, staged: bool) -> str:
    """A look into a submodule's work tree would start git in it, under its own configuration."""
    reads_the_work_tree = not staged and not (revision is not None and revision.is_range)
    return "--ignore-submodules=all" if reads_the_work_tree else "--ignore-submodules=none"
