"""Run programs for others: the settings, the host and the service together, until a signal."""

import asyncio
import signal
from typing import Final

import click

from fumehood.cli import coding, interrupt, render, start
from fumehood.code import attest
from fumehood.code.backend import ToolBackend
from fumehood.code.job import Job, JobResult
from fumehood.code.pool import Pool
from fumehood.code.run import Ground
from fumehood.code.service import opening, server
from fumehood.code.service.standing import Children, Standing
from fumehood.core import limits
from fumehood.core.sections import CodeSettings
from fumehood.sandbox import capabilities, confine, init

_INTERRUPTED: Final = 130
_MOST_PORT: Final = 65535


def serve(listen: str | None) -> int:
    """Serve until SIGTERM (status 0) or SIGINT (130). Errors: those of the settings, the host and the sockets."""
    init.stand_apart()
    settings = start.start(listening(listen))
    with interrupt.interruptible():
        _room(settings.code)
        opened = opening.open_runner(settings.code)
        ground, _ = coding.ground_of(settings)
        kept = capabilities.keep(capabilities.needed(capabilities.needs(ground.host)))
        if kept.names:
            _announce(str(kept))
        seal = attest.Seal(ground)
        _announce(interrupt.run(attest.require(ground, coding.wanted())))

    for note in opened.notes:
        _announce(note)
    ended = asyncio.run(_serve(settings.code, opened, ground, seal))
    return _INTERRUPTED if ended == signal.SIGINT else 0


async def _serve(settings: CodeSettings, opened: opening.Opened, ground: Ground, seal: attest.Seal) -> int:
    """Serve with children that wait for programs; the signal that ended it."""
    async with Pool(ground, runs=settings.runs, warm=settings.warm) as pool:

        async def run(job: Job, backend: ToolBackend, cancel: asyncio.Event | None) -> JobResult:
            if changed := seal.broken():
                return coding.unavailable(
                    f"{changed} was replaced after the self test: the runner has to be started again"
                )
            return await pool.run(job, backend, cancel)

        def stock() -> Children:
            return Children(warm=pool.state.warm, failing=bool(pool.state.trouble))

        standing = Standing(opened.tokens.known, runs=settings.runs, stock=stock)
        return await server.serve_on(opened.sockets, server.Service(run=run, standing=standing, announce=_announce))


def _room(code: CodeSettings) -> None:
    """Have as many descriptors as may be needed, or say that there are fewer."""
    needed = limits.CODE_CHILD_DESCRIPTORS * (code.runs + code.warm + limits.CODE_STARTS) + limits.CODE_LINK_DESCRIPTORS
    if (allowed := confine.allow_files(needed)) < needed:
        _announce(f"{allowed} files may be open, and {needed} may be needed: raise the hard limit (ulimit -Hn)")


def listening(text: str | None) -> dict[str, object]:
    """The settings that `--listen HOST:PORT` stands for; a usage error for what is none."""
    if text is None:
        return {}
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port[:9]) > _MOST_PORT:
        raise click.UsageError("--listen takes HOST:PORT, for example 127.0.0.1:8777, [::1]:8777, or 127.0.0.1:0")
    return {"code.host": host, "code.port": int(port)}


def _announce(line: str) -> None:
    render.words(f"fumehood: {line}")
