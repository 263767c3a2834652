import asyncio
import dataclasses
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fumehood.sandbox.egress import Dial
from fumehood.sandbox.relay.bounds import RelayBounds
from fumehood.sandbox.relay.outside import (
    DialFailedError,
    DialRefusedError,
    LookupFailedError,
    Outside,
    World,
    is_own,
    system_resolver,
    tcp_connect,
)

BOUNDS = RelayBounds(resolve_seconds=5, dial_seconds=5, dial_each_seconds=5)
ORDER = Dial(host="public.example", port=443, operator=False, pins=(), strict=True)


@dataclass
class Fake:
    """An outer world whose every answer is scripted: each lookup takes the next answer, each dial the next outcome."""

    answers: list[list[str] | Exception] = field(default_factory=list)
    outcomes: list[Exception | None] = field(default_factory=list)
    asked: list[tuple[str, bool]] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    held: bool = False

    def resolve(self, name: str, *, absolute: bool) -> Iterable[str]:
        self.asked.append((name, absolute))
        if self.held:
            self.hold.wait(20)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, TimeoutError):
            await asyncio.Event().wait()
        if outcome is not None:
            raise outcome
        return socket.socket()

    def outside(self, **bounds: Any) -> Outside:
        world = World(resolver=self.resolve, connect=self.connect, is_own=lambda address: address == "93.184.216.99")
        return Outside(world, dataclasses.replace(BOUNDS, **bounds))


def dial(fake: Fake, order: Dial = ORDER, **bounds: Any) -> str:
    async def go() -> str:
        opened, address = await fake.outside(**bounds).dial(order)
        opened.close()
        return address

    return asyncio.run(go())


def test_the_address_that_is_dialled_is_the_one_that_was_judged() -> None:
    fake = Fake(answers=[["93.184.216.34"]])
    assert dial(fake) == "93.184.216.34"
    assert fake.dialled == [("93.184.216.34", 443)]
    assert fake.asked == [("public.example", True)]


@pytest.mark.threat("R3")
def test_a_name_that_changes_its_address_between_two_lookups_is_looked_up_once() -> None:
    fake = Fake(answers=[["93.184.216.34"], ["127.0.0.1"]])

    async def go() -> None:
        outside = fake.outside()
        assert await outside.addresses("public.example") == ("93.184.216.34",)
        for _ in range(2):
            opened, address = await outside.dial(ORDER)
            opened.close()
            assert address == "93.184.216.34"

    asyncio.run(go())
    assert len(fake.asked) == 1


@pytest.mark.threat("R3")
@pytest.mark.parametrize(
    ("answer", "why", "address"),
    [
        (["93.184.216.34", "10.0.0.1"], "forbidden_address", "10.0.0.1"),
        (["::ffff:127.0.0.1"], "forbidden_address", "127.0.0.1"),
        (["93.184.216.34", "93.184.216.99"], "own_address", "93.184.216.99"),
        ([], "no_address", None),
        (["not an address"], "not_an_address", None),
    ],
)
def test_one_bad_address_refuses_the_name_before_anything_is_dialled(
    answer: list[str], why: str, address: str | None
) -> None:
    fake = Fake(answers=[answer])
    with pytest.raises(DialRefusedError, match=why) as caught:
        dial(fake)
    assert caught.value.address == address
    assert fake.dialled == []


def test_an_operators_rule_may_lead_anywhere_and_uses_the_hosts_own_ways_to_find_it() -> None:
    fake = Fake(answers=[["10.0.0.1"]])
    order = Dial(host="registry", port=1, operator=True, pins=(), strict=True)
    assert dial(fake, order) == "10.0.0.1"
    assert fake.asked == [("registry", False)]
    pinned = Dial(host="registry", port=1, operator=True, pins=("127.0.0.1",), strict=True)
    assert dial(fake, pinned) == "127.0.0.1"
    own = Dial(host="93.184.216.99", port=1, operator=True, pins=(), strict=False)
    assert dial(fake, own) == "93.184.216.99"
    assert len(fake.asked) == 1


@pytest.mark.threat("R3")
def test_pins_of_a_rule_that_is_not_the_operators_are_judged_too() -> None:
    with pytest.raises(DialRefusedError):
        dial(Fake(), Dial(host="a.example", port=1, operator=False, pins=("127.0.0.1",), strict=True))
    with pytest.raises(DialRefusedError):
        dial(Fake(), Dial(host="169.254.169.254", port=80, operator=False, pins=(), strict=False))


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    fake = Fake(answers=[["2606:4700::1", "93.184.216.34", "93.184.216.35"]], outcomes=[OSError(111, "refused")])
    assert dial(fake) == "93.184.216.35"
    fake = Fake(answers=[["93.184.216.34", "93.184.216.35"]], outcomes=[TimeoutError()])
    assert dial(fake, dial_each_seconds=0.01) == "93.184.216.35"


def test_when_no_address_answers_the_last_reason_is_given() -> None:
    answers: list[list[str] | Exception] = [["93.184.216.34", "93.184.216.35"]]
    with pytest.raises(DialFailedError, match="dial: gone"):
        dial(Fake(answers=answers.copy(), outcomes=[OSError(111, "refused"), OSError(113, "gone")]))
    with pytest.raises(DialFailedError, match="dial_timed_out"):
        dial(Fake(answers=answers.copy(), outcomes=[TimeoutError(), TimeoutError()]), dial_seconds=0.01)
    with pytest.raises(DialFailedError, match="no_such_name"):
        dial(Fake(answers=[socket.gaierror(socket.EAI_NONAME, "no")]))


def test_a_name_that_does_not_exist_is_remembered_and_a_resolver_that_failed_is_asked_again() -> None:
    fake = Fake(
        answers=[
            UnicodeError(),
            socket.gaierror(socket.EAI_AGAIN, "later"),
            ["93.184.216.34"],
        ]
    )

    async def go() -> None:
        outside = fake.outside()
        for _ in range(2):
            with pytest.raises(LookupFailedError, match="no_such_name") as absent:
                await outside.addresses("absent.example")
            assert absent.value.absent
        with pytest.raises(LookupFailedError, match="lookup_failed") as failed:
            await outside.addresses("public.example")
        assert not failed.value.absent
        assert await outside.addresses("public.example") == ("93.184.216.34",)

    asyncio.run(go())


@pytest.mark.threat("R3")
def test_a_lookup_that_hangs_is_abandoned_and_few_may_hang() -> None:
    fake = Fake(answers=[["93.184.216.34"]] * 2, held=True)

    async def go() -> None:
        outside = fake.outside(resolve_seconds=0.01, lookups=2)
        for name in ("a.example", "b.example"):
            with pytest.raises(LookupFailedError, match="lookup_timed_out"):
                await outside.addresses(name)
        with pytest.raises(LookupFailedError, match="too_many_lookups"):
            await outside.addresses("c.example")

    asyncio.run(go())
    fake.hold.set()


@pytest.mark.threat("R3")
def test_lookups_are_bounded_in_all() -> None:
    fake = Fake(answers=[["93.184.216.34"]] * 3)

    async def go() -> None:
        outside = fake.outside(names=3)
        for name in ("a.example", "b.example", "c.example", "a.example"):
            await outside.addresses(name)
        with pytest.raises(LookupFailedError, match="too_many_lookups"):
            await outside.addresses("d.example")

    asyncio.run(go())


def test_the_system_is_asked_and_dialled_when_nothing_else_is_given() -> None:
    assert "127.0.0.1" in system_resolver("localhost", absolute=False)

    async def go() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            opened = await tcp_connect("127.0.0.1", port)
            assert opened.getpeername() == ("127.0.0.1", port)
            opened.close()
        with pytest.raises(ConnectionRefusedError):
            await tcp_connect("127.0.0.1", port)

    asyncio.run(go())


def test_an_address_of_this_host_is_known_as_its_own() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("198.51.100.1")
    assert not is_own("nonsense")
