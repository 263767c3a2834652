"""The token of a backend: read from a file that only its owner may read, once for each run.

Invariants: a file that others may read or write is refused; what it holds stands in no error; the environment and the
command line, which every process of a user can see, are not asked for it.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from fumehood.core import limits
from fumehood.core.errors import RefusedError
from fumehood.core.settings import SettingsError

_KEY: Final = "code.runner_token_file"
_TOKEN: Final = re.compile(rb"[!-~]{16,%d}" % limits.CODE_TOKEN_CHARACTERS)  # shorter ones can be guessed
_MINT: Final = "write one line, the token whose SHA-256 stands in the runner's code.token_file"


def read_token(path: str | None) -> str:
    """The token of `code.runner_token_file`. Errors: `SettingsError`: setting, rule, next step."""
    if path is None:
        raise _refused(
            "is not set, and a runner takes no program without a token", "set it; docs/howto/run-a-runner.md"
        )
    data = _read(Path(path))
    token = data[:-1] if data.endswith(b"\n") else data
    if not _TOKEN.fullmatch(token):
        raise _refused("holds no token: one line of 16 or more printable characters without spaces", _MINT)
    return token.decode("ascii")


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        raise _refused("names a file that cannot be read", _MINT) from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused("names no regular file", _MINT)
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise _refused("names a file that others may read or write", "chown it to you and chmod 600 it")
        return os.read(descriptor, limits.CODE_TOKEN_CHARACTERS + 2)
    finally:
        os.close(descriptor)


def _refused(problem: str, remedy: str) -> RefusedError:
    return SettingsError(problem, source="settings", key=_KEY, remedy=remedy)
