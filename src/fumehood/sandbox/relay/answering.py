"""Our DNS inside the sandbox: every question recorded, every answer our own.

In OPEN a name is looked up outside first, so that a name that does not exist has no address inside either.
"""

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import Any

from fumehood.sandbox.egress import EgressRecord, Mode, Question, listed
from fumehood.sandbox.names import HEADER_BYTES, OVERFLOW, Code, QueryType, build_reply, local_answer
from fumehood.sandbox.relay.engine import Engine, reset, wanted
from fumehood.sandbox.relay.outside import LookupFailedError

_DATAGRAM_BYTES = 4096
_BURST = 64  # datagrams taken before others have the loop
_IP_PKTINFO, _IPV6_PKTINFO = 8, 50  # ip(7), ipv6(7)
_MALFORMED_BYTES = 256


@dataclass(frozen=True, slots=True)
class _Via:
    protocol: str
    server: str | None  # the address that was asked


class Answering:
    """Answers questions over UDP and TCP."""

    def __init__(self, engine: Engine) -> None:
        """Answer for this engine."""
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()

    def read(self, server: socket.socket) -> None:
        """Take waiting datagrams, and answer each in a task."""
        for _ in range(_BURST):
            try:
                query, ancillary, _, client = server.recvmsg(_DATAGRAM_BYTES, 256)
            except OSError:
                return
            info = ancillary[0][2] if ancillary else b""
            if len(self.tasks) >= self._engine.bounds.questions:
                self._engine.records.lose("dns over_limit")
                continue
            task = self._loop.create_task(self._answer_datagram(server, query, info, client))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def drain(self, server: socket.socket) -> None:
        """Record the questions that nobody will answer any more."""
        for _ in range(self._engine.bounds.questions):
            try:
                query, ancillary, _, _ = server.recvmsg(_DATAGRAM_BYTES, 256)
            except OSError:
                return
            question = self._engine.inspect.question(query)
            via = _Via("udp", _asked(server.family, ancillary[0][2] if ancillary else b""))
            if question is not None:
                self._record(question, via, Code.SERVFAIL, None, "stopped")

    async def serve(self, client: socket.socket) -> None:
        """Answer questions over one TCP connection (RFC 7766) until it ends or its time has passed."""
        via = _Via("tcp", wanted(client)[0])
        waiting = b""
        try:
            async with asyncio.timeout(self._engine.bounds.dns_seconds):
                while piece := await self._loop.sock_recv(client, _DATAGRAM_BYTES):
                    waiting += piece
                    while len(waiting) >= 2 and len(waiting) >= 2 + (size := int.from_bytes(waiting[:2], "big")):  # noqa: PLR2004 - the length field
                        query, waiting = waiting[2 : 2 + size], waiting[2 + size :]
                        reply = await self._answer(query, via)
                        if reply is None:
                            return
                        await self._loop.sock_sendall(client, len(reply).to_bytes(2, "big") + reply)
        except (OSError, TimeoutError):
            pass
        finally:
            if waiting:  # no question: another protocol on this port, or one that was cut
                self._record_malformed(waiting, via)
            reset(client)

    async def _answer_datagram(self, server: socket.socket, query: bytes, info: bytes, client: tuple[Any, ...]) -> None:
        reply = await self._answer(query, _Via("udp", _asked(server.family, info)))
        if reply is not None:
            with contextlib.suppress(OSError):  # a client that is gone, or a full buffer: it will ask again
                server.sendmsg([reply], _from_asked(server.family, info), 0, client)

    async def _answer(self, query: bytes, via: _Via) -> bytes | None:
        """The reply to one query; None when not even its identifier is there."""
        engine = self._engine
        question = engine.inspect.question(query)
        if question is None:
            self._record_malformed(query, via)
            return build_reply(query, HEADER_BYTES, Code.FORMERR) if len(query) >= HEADER_BYTES else None
        code, address, why = await self._find(question)
        if question.query_type != QueryType.A:
            address = None  # no data: clients then use the A record
        self._record(question, via, code, address, why)
        return build_reply(query, question.end, code, address)

    def _record_malformed(self, data: bytes, via: _Via) -> None:
        self._engine.records.add(
            EgressRecord(
                kind="dns",
                at_seconds=self._engine.elapsed(),
                port=53,
                decision="malformed",
                protocol=via.protocol,
                peer=via.server,
                first=data[:_MALFORMED_BYTES],
            )
        )

    async def _find(self, question: Question) -> tuple[Code, str | None, str | None]:
        engine, name = self._engine, question.name
        local = local_answer(engine.policy, name)
        if isinstance(local, Code):
            return local, None, None
        if local is not None:
            return Code.NOERROR, local, "loopback"
        known = listed(engine.policy, name)
        if engine.policy.mode is Mode.OPEN and not known:
            try:
                await engine.outside.addresses(name)
            except LookupFailedError as error:
                return (Code.NXDOMAIN if error.absent else Code.SERVFAIL), None, str(error)
        address = engine.names.address(name)
        if address is None and engine.policy.mode is Mode.SINKHOLE:
            return Code.NOERROR, OVERFLOW, "too_many_names"  # what follows is still answered, and says its own name
        if address is None:
            return Code.SERVFAIL, None, "too_many_names"
        return Code.NOERROR, address, "listed" if known else None

    def _record(self, question: Question, via: _Via, code: Code, address: str | None, why: str | None) -> None:
        self._engine.records.add(
            EgressRecord(
                kind="dns",
                at_seconds=self._engine.elapsed(),
                name=question.name,
                query_type=question.query_type,
                response_code=code,
                address=address,
                protocol=via.protocol,
                peer=via.server,
                decision="answered" if code is Code.NOERROR else "refused",
                why=why,
            )
        )


def _asked(family: int, info: bytes) -> str | None:
    """The address that a datagram was sent to, from its PKTINFO."""
    packed = info[:16] if family == socket.AF_INET6 else info[8:12]
    return socket.inet_ntop(family, packed) if len(packed) in (4, 16) else None


def _from_asked(family: int, info: bytes) -> list[tuple[int, int, bytes]]:
    """Ancillary data that makes the answer come from the address that was asked, else resolvers ignore it."""
    if family == socket.AF_INET6:
        return [(socket.IPPROTO_IPV6, _IPV6_PKTINFO, info[:16] + struct.pack("I", 0))] if info else []
    return [(socket.IPPROTO_IP, _IP_PKTINFO, struct.pack("I", 0) + info[8:12] + bytes(4))] if info else []
