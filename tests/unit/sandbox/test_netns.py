import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fumehood.core import limits
from fumehood.sandbox import launch
from fumehood.sandbox.egress import Mode, Policy
from fumehood.sandbox.netns import Inside, ListenerHelper, ListenersError
from fumehood.sandbox.network import Network
from fumehood.sandbox.relay.outside import World
from loopback.speaking import wait_until


def ended_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


@pytest.mark.sandbox
def test_a_child_that_is_gone_is_an_error_that_says_so() -> None:
    with ListenerHelper.start(Policy(), None) as helper, pytest.raises(ListenersError, match="No such file"):
        asyncio.run(helper.open(ended_pid()))


def test_a_helper_that_was_killed_is_an_error_and_not_a_wait() -> None:
    helper = ListenerHelper.start(Policy(), None)
    helper._process.kill()
    with helper, pytest.raises(ListenersError):
        asyncio.run(helper.open(os.getpid()))


def test_a_helper_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setattr(limits, "LISTENERS_SECONDS", 0.01)
    idle = launch.spawn([sys.executable, "-c", "import signal; signal.pause()"])
    with theirs, ListenerHelper(idle, ours) as helper, pytest.raises(ListenersError, match="no answer"):
        asyncio.run(helper.open(os.getpid()))
    assert idle.returncode is not None


def test_a_helper_that_is_never_used_ends_when_it_is_closed() -> None:
    helper = ListenerHelper.start(Policy(mode=Mode.OPEN), None)
    helper.close()
    helper.close()
    assert helper._process.returncode is not None


def test_a_helper_ends_by_itself_when_its_owner_is_gone() -> None:
    helper = ListenerHelper.start(Policy(mode=Mode.OPEN), None)
    helper._channel.close()
    assert asyncio.run(asyncio.wait_for(helper._process.wait(), 20)) == 1
    helper.close()


def test_an_answer_whose_descriptors_were_lost_is_an_error() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.send(b'{"labels": ["udp4"], "notes": []}')
    idle = launch.spawn([sys.executable, "-c", "import signal; signal.pause()"])
    with theirs, ListenerHelper(idle, ours) as helper, pytest.raises(ListenersError, match="lost"):
        asyncio.run(helper.open(os.getpid()))


def test_what_was_opened_is_closed_together() -> None:
    ours, theirs = socket.socketpair()
    Inside(sockets={"a": ours, "b": theirs}).close()
    assert (ours.fileno(), theirs.fileno()) == (-1, -1)


def test_a_silent_network_opens_nothing_and_starts_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = ListenerHelper.ready()

    def refuse(*_: object, **__: object) -> launch.Process:
        raise launch.StartError("no")

    monkeypatch.setattr(launch, "start_program", refuse)
    for given in (None, helper):
        network = Network(Policy(), None, None, World(), given, silent=True)
        assert asyncio.run(network.open(ended_pid())) == Inside(sockets={})
        network.close()
    assert helper._process.returncode is not None


def test_a_silent_network_that_should_serve_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs parsers"):
        Network(Policy(mode=Mode.OPEN), None, None, World(), silent=True)
    with pytest.raises(ValueError, match="nothing to serve"):
        Network(Policy(), None, object(), World(), silent=True)  # type: ignore[arg-type]  # any parsers at all


def test_a_helper_waits_for_its_messages_whatever_this_process_has_as_its_default() -> None:
    socket.setdefaulttimeout(30.0)
    try:
        helper = ListenerHelper.ready()
    finally:
        socket.setdefaulttimeout(None)
    with helper:
        own = Path(f"/proc/{helper._process.pid}")
        wait_until(lambda: b"listeners.py" in own.joinpath("cmdline").read_bytes())  # its exec is over
        number = own.joinpath("cmdline").read_bytes().split(b"\0")[-2].decode()
        told = own.joinpath("fdinfo", number).read_text().split()
        assert int(told[told.index("flags:") + 1], 8) & os.O_NONBLOCK == 0
