"""The one way from a path that somebody asked for to bytes: policy, fence, what was opened, and what it holds.

Invariants: no other module of `serve` opens a path; a denied name is refused before anything is opened or looked at,
and once more by the name on disk of what was opened; what is read is judged by its content as well; a refusal names
the path as asked and the workspace by its base name. Whatever leads out is refused in the same words, whether
something is there or not.
"""

import contextlib
import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, assert_never

from fumehood.content import encoding
from fumehood.core.errors import BinaryFileError, DeniedPathError, NotFoundError, OutsideWorkspaceError, RefusedError
from fumehood.core.sections import WorkspaceSettings
from fumehood.fence.denylist import Denylist
from fumehood.fence.workspace import ContainedFile, Links, Workspace
from fumehood.serve import policy
from fumehood.serve.policy import Allow, Deny, Rule
from fumehood.serve.texts import Lines, Text, Texts

_SHOWN_CHARACTERS = 200  # of a path in a message
_SETTLED_NANOSECONDS = 2 * 10**9  # the coarsest times of a file system (FAT); a change within them may leave no trace


class Access:
    """One workspace behind its denylist."""

    __slots__ = ("_credentials", "_denylist", "_texts", "_workspace", "name")

    def __init__(
        self,
        workspace: Workspace,
        denylist: Denylist,
        *,
        name: str,
        credentials: Callable[[bytes, bytes], bool] | None = None,
    ) -> None:
        """`name` is the base name of the workspace: all that a message may say of where it lies.

        `credentials` says of a name and content whether it is a file of credentials (`content.credentialfiles`).
        """
        self._workspace = workspace
        self._denylist = denylist
        self._credentials = credentials
        self._texts = Texts()
        self.name = name

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, root: Path, settings: WorkspaceSettings, credentials: Callable[[bytes, bytes], bool]
    ) -> Iterator[Self]:
        """The workspace that the operator named, behind the lists of the settings; closed at the end."""
        denylist = Denylist(names=settings.denied_names, globs=settings.denied_globs, folders=settings.denied_folders)
        links = Links(
            follow=settings.unsafe_follow_links,
            hard_folders=tuple(map(_folder_inside, settings.hard_link_folders)),
        )
        with Workspace.open(root, links) as workspace:
            name = root.resolve().name or "workspace"
            yield cls(workspace, denylist, name=name, credentials=credentials)

    @property
    def root_fd(self) -> int:
        """The descriptor of the root, for who walks beneath it or starts a program in it."""
        return self._workspace.root_fd

    @property
    def denylist(self) -> Denylist:
        """What is denied, for who hands the policy to a program."""
        return self._denylist

    def relative(self, path: str) -> bytes:
        """A path as asked, made relative to the root and clean (no empty part, no `.`); not opened.

        The root itself is `.`; a `..` is refused wherever it leads; escapes are read as `fence.names` writes them.
        Errors: `OutsideWorkspaceError`, `DeniedPathError`, `NotFoundError` for what cannot be a name.
        """
        match policy.decide(path, self._workspace.roots, self._denylist):
            case Allow(path=clean):
                return clean
            case Deny(rule=rule):
                raise self._refused(rule, path)
            case decision:
                assert_never(decision)

    def denies(self, path: bytes) -> bool:
        """Whether a path relative to the root, as it stands on disk, is never served."""
        return self._denylist.denies(path)

    def holds_credentials(self, path: bytes, content: bytes) -> bool:
        """Whether a file of this name and content is never served, for content that does not come from the disk."""
        return self._credentials is not None and self._credentials(path, content)

    def open(self, path: str) -> ContainedFile:
        """A regular file that may be served, opened. Errors: those of `relative` and of `Workspace.contained`."""
        asked = self.relative(path)
        try:
            file = self._workspace.contained(asked)
        except OutsideWorkspaceError:
            raise self._outside(path) from None
        if file.real != asked and self._denylist.denies(file.real):
            file.close()
            raise _denied(path)
        return file

    def read(self, path: str, limit_bytes: int) -> bytes:
        """All of a file whose content may be served too. Errors: those of `open`, `TooLargeError`."""
        with self.open(path) as file:
            content = file.read(limit_bytes)
        self._judge(path, file.real, content)
        return content

    def text(self, path: str, limit_bytes: int) -> Text:
        """The same, decoded. Errors: those of `read`, `BinaryFileError` with size and SHA-256.

        Every call opens the file; what it held is not decoded and judged again while it is the same.
        """
        with self.open(path) as file:
            before = file.stamp()
            kept = self._texts.get((file.real, before)) if file.size <= limit_bytes else None
            if kept is not None:
                return dataclasses.replace(kept, path=file.path)
            began = time.time_ns()
            content = file.read(limit_bytes)
            is_settled = began - before.changed > _SETTLED_NANOSECONDS and file.stamp() == before
        self._judge(path, file.real, content)
        text = self._decoded(path, file, content)
        if is_settled:
            self._texts.keep((file.real, before), text)
        return text

    @contextlib.contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """The descriptor of a folder that may be served; an empty path and `.` are the root."""
        asked = self.relative(path or ".")
        with contextlib.ExitStack() as held:
            try:
                descriptor = held.enter_context(self._workspace.folder(asked))
            except OutsideWorkspaceError:
                raise self._outside(path) from None
            if self._denylist.denies(self._workspace.real(descriptor, asked)):
                raise _denied(path)
            yield descriptor

    def _refused(self, rule: Rule, path: str) -> RefusedError:
        match rule:
            case Rule.NO_NAME:
                return NotFoundError(f"{_shown(path)} does not exist", remedy="list the folder above it")
            case Rule.NUL:
                return OutsideWorkspaceError(f"{_shown(path)} holds a NUL byte", remedy="ask for another path")
            case Rule.OUTSIDE:
                return self._outside(path)
            case Rule.DENIED:
                return _denied(path)
            case _:
                assert_never(rule)

    def _outside(self, path: str) -> OutsideWorkspaceError:
        """One text for all that leads out, whether something is there or not."""
        return OutsideWorkspaceError(
            f"{_shown(path)} leads out of the workspace {self.name!a} or through a link",
            remedy="ask for a path inside, relative to its root",
        )

    def _decoded(self, path: str, file: ContainedFile, content: bytes) -> Text:
        decoded = encoding.decode(content)
        if decoded is None:
            digest = hashlib.sha256(content).hexdigest()
            raise BinaryFileError(
                f"{_shown(path)} is binary: {len(content)} bytes, SHA-256 {digest}", remedy="ask for a text file"
            )
        if decoded.text is not content:  # the rules for credentials read UTF-8
            self._judge(path, file.real, decoded.text)
        return Text(path=file.path, size=len(content), decoded=decoded, lines=Lines(decoded.text))

    def _judge(self, path: str, name: bytes, content: bytes) -> None:
        if self.holds_credentials(name, content):
            raise _denied(path)


def _denied(path: str) -> DeniedPathError:
    return DeniedPathError(f"{_shown(path)} is not served", remedy="ask for another file")


def _shown(path: str) -> str:
    return ascii(path[:_SHOWN_CHARACTERS])


def _folder_inside(word: str) -> bytes:
    """A folder of a setting. `/` would be read as the whole workspace, and `/x` as a folder of it. RefusedError."""
    if word.startswith("/") or ".." in word.split("/"):
        raise RefusedError(
            f"workspace.hard_link_folders has {word!a}, which is no folder below the workspace",
            remedy="name it relative to the workspace; `.` is all of it",
        )
    return os.fsencode(word)
