"""The processes of one sandbox up to the release of its command, and everything that is held for them.

Invariants: what is held is let go of by `close`, in whatever state; the numbers of descriptors are forgotten before
they are closed; nothing of the target runs before `release`, and every wall that can stand stands by then.
"""

import asyncio
import contextlib
import functools
import os
import resource
import select
import signal
from typing import Final

from fumehood.core import limits
from fumehood.sandbox import launch, limiting, lineage, rlimits, start, walls
from fumehood.sandbox.cgroup import Cgroup
from fumehood.sandbox.containment import Containment
from fumehood.sandbox.netns import ListenersError
from fumehood.sandbox.network import Network
from fumehood.sandbox.spec import Route


class ChainEndedError(Exception):
    """The chain ended before its command could be released; its stderr says why."""


class Chain:
    """One chain: `spawn`, `blocked`, `enclose`, `release`, in this order. Its owner calls `close`."""

    def __init__(self, plan: start.Plan, reshape: start.Reshape) -> None:
        """Open the pipes; `spawn` starts the processes."""
        self._plan = plan
        self._reshape = reshape
        self.held: Final = contextlib.ExitStack()
        self.pipes: Final = start.Pipes(plan.run.private())
        self.held.callback(self.pipes.close)
        self.fifo: start.Fifo | None = None
        self.init_fd = -1
        self.monitor_fd = -1
        self.init = 0
        self.memory_by_cgroup = False

    def spawn(self) -> None:
        """Start everything; bubblewrap's child stops before the command."""
        plan, spec = self._plan, self._plan.spec
        self.cgroup = Cgroup(plan.host.cgroups, plan.run.cgroup_name(), spec.limits)
        self.held.callback(self.cgroup.remove)
        self.fifo = start.Fifo(plan.run.private()) if spec.trace else None
        if self.fifo is not None:
            self.held.callback(self.fifo.close)
        spawn = functools.partial(start.spawn_chain, plan, self.pipes, self.fifo, self._reshape)
        # A tracer stays outside: its memory and time are not the target's.
        self.process = spawn() if spec.trace else self.cgroup.start(spawn)
        self.held.callback(self.process.close)
        self.status = start.Status(self.pipes.status.ours)

    async def blocked(self, seconds: float) -> None:
        """Wait for bubblewrap's blocked child and hold it by a pidfd. Raises `ChainEndedError` and `TimeoutError`."""
        async with asyncio.timeout(seconds):
            init = await self.status.child_pid()
        if init is None:
            raise ChainEndedError
        try:
            self.init_fd = self._hold(init)
            monitor = lineage.parent(init)
            self.monitor_fd = self._hold(monitor) if monitor else -1
        except ProcessLookupError:
            raise ChainEndedError from None
        self.init = init

    async def enclose(self, network: Network) -> Containment:
        """Put the blocked child into its cgroup, its limits and its network. Raises `ChainEndedError`."""
        plan, spec = self._plan, self._plan.spec
        by_cgroup = self.cgroup.has("memory")
        pairs = rlimits.pairs(spec.limits, memory_by_cgroup=by_cgroup)
        dropped = self._reshape.route(plan.route) is Route.DROPPED
        outer_uid = spec.identity.uid if dropped else os.geteuid()  # root's in the route `root`: it drops inside
        # Moving a process waits for the kernel's readers, 5 ms and more: meanwhile the listeners are opened.
        moving = None
        if not self.cgroup.complete:
            moving = asyncio.ensure_future(asyncio.to_thread(self.cgroup.add, self.init))
        try:
            await network.open(self.init)
        except ListenersError:
            if self._is_over(limits.LEAVING_SECONDS):  # bubblewrap gave up meanwhile, and said why
                raise ChainEndedError from None
            raise
        finally:
            if moving is not None:
                await moving
        unlimited = limiting.limit(self.init, outer_uid, pairs)
        if unlimited and self._is_over():
            raise ChainEndedError
        if by_cgroup and not self.cgroup.has("memory"):
            by_cgroup = False
            unlimited[resource.RLIMIT_DATA] = "not set, the cgroup was to hold memory"
        self.memory_by_cgroup = by_cgroup
        return walls.record(
            spec,
            plan.route,
            walls.Started(
                unlimited=unlimited,
                cgroup_version=self.cgroup.version,
                cgroup_bounds=frozenset(wall for wall in ("memory", "processes") if self.cgroup.has(wall)),
                cgroup_notes=tuple(self.cgroup.notes),
                no_userns_limit=plan.host.no_userns_limit,
            ),
        )

    def release(self) -> None:
        """Let the command run."""
        with contextlib.suppress(BrokenPipeError):  # it died meanwhile: who waits for it finds out
            os.write(self.pipes.block.ours, b"x")
        self.pipes.block.close()

    def pause_monitor(self) -> None:
        """Stop the outermost bubblewrap, which would end with the first process; `kill` and `resume` let it go on."""
        _send(self.monitor_fd, signal.SIGSTOP)

    def resume_monitor(self) -> None:
        """Let it go on."""
        _send(self.monitor_fd, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to pid 1 of the namespace, which takes everything below with it."""
        _send(self.init_fd, signal.SIGKILL)
        self.resume_monitor()

    async def gone(self) -> None:
        """Wait until the outermost process has ended, and pid 1: that is gone only when all others of its are."""
        await self.process.wait()
        await launch.readable(self.init_fd)

    def tracer_was_killed(self) -> bool:
        """Whether a signal ended the tracer before it could say how what it traced had ended. Asked after `gone`."""
        status = self.process.returncode
        return self.fifo is not None and status is not None and status < 0 and self.status.exit_code is None

    def close(self) -> None:
        """Let go of everything; the outermost process is killed if it is still there."""
        self.held.close()

    def _is_over(self, seconds: float = 0.0) -> bool:
        """Whether the child has ended. One that is leaving gives up its namespaces before that can be seen."""
        looked = select.poll()  # whatever the number of the descriptor: select(2) ends at 1,024
        looked.register(self.init_fd, select.POLLIN)
        return bool(looked.poll(seconds * 1000))

    def _hold(self, pid: int) -> int:
        descriptor = os.pidfd_open(pid)
        self.held.callback(os.close, descriptor)
        self.held.callback(self._let_go)
        return descriptor

    def _let_go(self) -> None:
        """Forget the numbers before they are closed: they may be given to something else."""
        self.init_fd = self.monitor_fd = -1


def _send(descriptor: int, number: int) -> None:
    """Signal a process that is held; one that is gone, or was never found, is passed over."""
    if descriptor >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)
