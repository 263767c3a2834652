"""One session of the legacy era over HTTP: a channel whose messages come with requests and leave with their answers.

Invariants: whoever waits for an answer and leaves has cancelled the request; an id in flight is refused a second time;
what a client says while nobody takes it is bounded; an answer is taken once, and only to what was asked.
"""

import asyncio
import secrets

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.core.jsonio import JsonValue
from fumehood.wire import answers, flight, jsonrpc
from fumehood.wire.exchange import Exchange
from fumehood.wire.flight import Flight
from fumehood.wire.inbound import Answered, Asked, Told
from fumehood.wire.published import LOCAL, Caller

_REQUEST_CANCELLED = -32800  # as other servers of this era answer; its stream ends only with an answer


class Session:
    """One client's: `wire.channel.Channel`."""

    def __init__(self, principal: str) -> None:
        """Nobody else's than `principal`'s."""
        self.key = secrets.token_urlsafe(32)
        self.principal = principal
        self.connection = object()
        self.opened = False  # whether anything was answered: the first request is an opening
        self.over = False
        self._loop = asyncio.get_running_loop()
        self._used = self._loop.time()
        self._inbox: asyncio.Queue[tuple[int, Asked] | Told | Answered | None] = asyncio.Queue()
        self._flight = Flight()
        self._exchanges: dict[int, Exchange] = {}
        self._asked_back: dict[int, Exchange] = {}  # by the ids of our requests
        self._standing: Exchange | None = None

    @property
    def idle_seconds(self) -> float:
        """Since when nobody uses it; zero while somebody does."""
        return 0.0 if self._exchanges or self._standing else self._loop.time() - self._used

    # --- what clients do

    def begin(self, asked: Asked, exchange: Exchange) -> int:
        """Take a request in. Errors: `DuplicateError`, `BusyError`."""
        if len(self._exchanges) >= limits.CONTROL_IN_FLIGHT:
            raise BusyError("too many requests of this session wait", remedy="try again in a moment")
        number = self._flight.begin(asked.id)
        self._exchanges[number] = exchange
        self._inbox.put_nowait((number, asked))
        return number

    def end(self, number: int) -> None:
        """Nobody waits for a request any more; where it was not answered, it is cancelled."""
        exchange = self._exchanges.pop(number, None)
        self._used = self._loop.time()
        for ident in [ident for ident, asked in self._asked_back.items() if asked is exchange]:
            self._take_answer(Answered(id=ident))
        if self._flight.knows(number):
            self._inbox.put_nowait(flight.cancelled(number))

    def told(self, told: Told) -> None:
        """Take a notification in. Errors: `BusyError`."""
        if self._inbox.qsize() >= limits.HANDED_OVER:
            raise BusyError("too many messages of this session wait", remedy="try again in a moment")
        self._used = self._loop.time()
        if (passed := self._flight.told(told)) is not None:
            self._inbox.put_nowait(passed)

    def answered(self, answer: Answered) -> None:
        """Take an answer in, if it is one."""
        self._used = self._loop.time()
        self._take_answer(answer)

    def stand(self, exchange: Exchange | None) -> bool:
        """Have one stream for whatever is about no request, or (None) no more; False where there is one."""
        if exchange is not None and self._standing is not None:
            return False
        self._standing, self._used = exchange, self._loop.time()
        return True

    def close(self) -> None:
        """End it: whoever waits gets an error."""
        if self.over:
            return
        self.over = True
        self.drain()
        for number, exchange in tuple(self._exchanges.items()):
            if (ident := self._flight.end(number)) is not None:
                exchange.finish(jsonrpc.error_response(ident, jsonrpc.INVALID_REQUEST, "the session has ended"))
        self._inbox.put_nowait(None)

    def drain(self) -> None:
        """End what stands open for what may come."""
        if self._standing is not None:
            self._standing.finish(b"")

    def _take_answer(self, answer: Answered) -> None:
        if type(answer.id) is int and self._asked_back.pop(answer.id, None) is not None:
            self._inbox.put_nowait(answer)

    # --- what the loop that answers does

    def caller(self, number: int) -> Caller:
        """Who sent a request; of a notification it decides nothing."""
        exchange = self._exchanges.get(number)
        return exchange.caller if exchange is not None else LOCAL

    def ident(self, number: int) -> jsonrpc.Id:
        """What the client calls a request that waits."""
        return self._flight.ident(number)

    def can_ask(self, number: int) -> bool:
        """Whether the client takes more than one document as the answer."""
        exchange = self._exchanges.get(number)
        return exchange is not None and exchange.streams

    async def receive(self) -> tuple[int, Asked] | Told | Answered | None:
        """The next message; None at the end."""
        return await self._inbox.get()

    def answer(self, number: int, member: str, value: JsonValue) -> None:
        """Answer a request, unless it is over."""
        self.opened = self.opened or member == "result"
        exchange = self._exchanges.get(number)
        if (ident := self._flight.end(number)) is not None and exchange is not None:
            exchange.finish(answers.line(ident, member, value))

    def tell(self, method: str, params: JsonValue, about: int | None = None) -> None:
        """Send a notification, if somebody is there to take it."""
        exchange = self._standing if about is None else self._exchanges.get(about)
        if exchange is not None:
            exchange.push(jsonrpc.notification(method, params if isinstance(params, dict) else None))

    def ask(self, ident: int, method: str, params: JsonValue, about: int | None = None) -> None:
        """Send a request of ours beside an answer. What cannot be answered is answered at once."""
        exchange = self._exchanges.get(about) if about is not None else None
        if exchange is None:
            self._inbox.put_nowait(Answered(id=ident))
            return
        self._asked_back[ident] = exchange
        full = len(self._asked_back) > limits.ASKED_BACK
        if full or not exchange.push(jsonrpc.request(ident, method, params if isinstance(params, dict) else None)):
            self._take_answer(Answered(id=ident))

    def unanswered(self, number: int) -> None:
        """A request is over, and was cancelled: whoever still waits for it is told so."""
        exchange = self._exchanges.get(number)
        if (ident := self._flight.end(number)) is not None and exchange is not None:
            exchange.finish(jsonrpc.error_response(ident, _REQUEST_CANCELLED, "Request cancelled"))

    def stands(self, number: int) -> None:
        """Nothing: a session waits for nobody at its end."""
        del number
