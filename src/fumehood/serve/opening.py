"""Bring a workspace server up: what has to be opened first, then the walls, then a service that may be called.

Invariants: production's invariants are judged before anything is opened; whatever needs a right that the walls take
away is opened before them; nothing is served before `stand` has returned.
"""

import contextlib
import importlib.metadata
import logging
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fumehood.content import credentialfiles, rulefile
from fumehood.content.control import Controls
from fumehood.content.rulefile import BadRulesError, RuleFile
from fumehood.core import limits
from fumehood.core.budget import Budget
from fumehood.core.errors import UnsupportedError
from fumehood.core.sections import Settings
from fumehood.sandbox import starter
from fumehood.sandbox.containment import Containment
from fumehood.sandbox.probe import served
from fumehood.sandbox.starter import Starter
from fumehood.serve import ground, invariants, walls
from fumehood.serve.access import Access
from fumehood.serve.catalogue import TOOLS
from fumehood.serve.context import Context, Symbols
from fumehood.serve.invariants import Broken
from fumehood.serve.programs import StarterPrograms
from fumehood.serve.service import Service
from fumehood.serve.symbols import reader
from fumehood.serve.symbols.reader import SymbolReader

_LOG = logging.getLogger(__name__)
_KEY_BYTES = 32  # of the placeholders: as long as the digest


@dataclass(kw_only=True)
class Opening:
    """A workspace that is open, and not yet behind the walls of the process."""

    settings: Settings
    access: Access
    programs: Starter
    symbols: Symbols
    controls: Controls
    broken: tuple[Broken, ...]
    http: bool

    def stand(self, *others: Containment) -> Service:
        """Put up the walls of this process, which must not have started a thread; then the service may be called.

        `others` are further processes that it stands with, for what it says of itself.
        """
        self.programs.ready()
        stood = walls.stand(self.access.root_fd, self.settings, http=self.http)
        contained = [Containment(route=walls.ROUTE, walls=stood), self.programs.containment, *others]
        if isinstance(self.symbols, SymbolReader):
            contained.append(self.symbols.containment)
        return Service(
            tools=TOOLS,
            context=self._context,
            controls=self.controls,
            version=importlib.metadata.version("fumehood"),
            standing={
                "fumehood/walls": walls.record(contained),
                "fumehood/weakened": [*self.settings.weakened(), *(one.name for one in self.broken if not one.setting)],
            },
            weakened=self.settings.weakened(),
            logs_arguments=self.settings.log.tool_arguments,
        )

    def is_ready(self) -> bool:
        """Whether a call could be answered: git and ripgrep can be started."""
        return self.programs.is_alive

    def _context(self, budget: Budget) -> Context:
        return Context(
            access=self.access,
            settings=self.settings.workspace,
            budget=budget,
            programs=StarterPrograms(self.programs),
            symbols=self.symbols,
        )


@contextlib.contextmanager
def opened(settings: Settings, folder: Path, *, http: bool = False, authenticated: bool = False) -> Iterator[Opening]:
    """Open `folder` to be served; close everything at the end. Errors: those of invariants, fence and walls."""
    broken = invariants.hold(settings, ground.of(folder, http=http, authenticated=authenticated))
    for one in broken:
        _LOG.warning("%s; production would refuse this: %s", one.problem, one.remedy)
    with contextlib.ExitStack() as held:
        access = held.enter_context(Access.opened(folder, settings.workspace, credentialfiles.denies))
        controls = _controls(settings, folder)
        found = served.find(settings.sandbox.tools)
        for problem in found.problems:
            _LOG.warning("%s: %s; %s", problem.name, problem.detail, problem.remedy)
        unsafe = settings.workspace.unsafe_without_walls
        programs = held.enter_context(starter.start(access.root_fd, found.paths, unsafe_without_walls=unsafe))
        yield Opening(
            settings=settings,
            access=access,
            programs=programs,
            symbols=held.enter_context(_symbols(unsafe_without_walls=unsafe)),
            controls=controls,
            broken=broken,
            http=http,
        )


def _controls(settings: Settings, folder: Path) -> Controls:
    content = settings.content
    return Controls(
        key=secrets.token_bytes(_KEY_BYTES),
        redact=not content.unsafe_no_redaction,
        scan=not content.unsafe_no_scanning,
        datamark=content.datamarking,
        line_characters=settings.workspace.line_characters,
        rules=_rules(content.rules_file, folder),
    )


def _rules(file: str | None, folder: Path) -> RuleFile | None:
    """An operator's own rules for credentials, all of them or none. Errors: `BadRulesError`."""
    if file is None:
        return None
    if Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        raise BadRulesError(
            "content.rules_file lies in the workspace, which would decide what of it is hidden",
            remedy="keep it elsewhere",
        )
    try:
        with Path(file).open("rb") as opened_file:
            data = opened_file.read(limits.RULE_FILE_BYTES + 1)
    except OSError as problem:
        raise BadRulesError(
            f"content.rules_file cannot be read: {problem.strerror}", remedy="name a file that this user may read"
        ) from problem
    rules = rulefile.parse(data, "content.rules_file")
    for part in rules.unused:
        _LOG.warning("content.rules_file: %s has no effect here", part)
    return rules


@contextlib.contextmanager
def _symbols(*, unsafe_without_walls: bool) -> Iterator[Symbols]:
    """The child that reads definitions; nobody waits for it here."""
    try:
        child = reader.start(unsafe_without_walls=unsafe_without_walls)
    except UnsupportedError as error:
        _LOG.warning("symbols: %s; %s", error.message, error.remedy)
        yield NoSymbols()
        return
    with child:
        yield child


class NoSymbols:
    """Where no grammar is installed."""

    def definitions(self, language: str, source: bytes, budget: Budget) -> None:
        """Never."""
        del language, source, budget
        raise UnsupportedError("no grammar is installed", remedy="pip install 'fumehood[serve]'")
