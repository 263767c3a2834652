"""Records what the packet socket inside the namespace saw of attempts that no listener serves."""

import socket
import struct

from fumehood.sandbox.egress import EgressRecord
from fumehood.sandbox.relay.engine import Engine
from fumehood.sandbox.relay.packets import Attempt, parse_packet

_PACKET_BYTES = 2048
_BURST = 256  # packets taken before others have the loop
_DRAIN = 65536  # packets taken at the end: more than the socket's buffer holds
_PACKET_HOST = 0  # packet(7): the incoming copy, so that each packet counts once
_SOL_PACKET, _PACKET_STATISTICS = 263, 6


class Recorder:
    """Turns packets into records: one for each protocol, address and port, of datagrams a few; repeats are counted."""

    def __init__(self, engine: Engine, ports: frozenset[int] = frozenset()) -> None:
        """Leave TCP to `ports` alone: plain listeners serve those."""
        self._engine = engine
        self._ports = ports
        self._seen: dict[tuple[str, str, int | None], int] = {}

    def read(self, packets: socket.socket) -> None:
        """Take a burst of waiting packets."""
        self._take(packets, _BURST)

    def finish(self, packets: socket.socket) -> None:
        """Take every waiting packet, and count those that the kernel dropped."""
        self._take(packets, _DRAIN)
        statistics = packets.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        self._engine.records.lose("packet dropped", struct.unpack("II", statistics)[1])

    def _take(self, packets: socket.socket, count: int) -> None:
        for _ in range(count):
            try:
                packet, origin = packets.recvfrom(_PACKET_BYTES)
            except OSError:
                return
            attempt = parse_packet(packet) if origin[2] == _PACKET_HOST else None
            if attempt is not None and not (attempt.protocol == "tcp" and attempt.port in self._ports):
                self._record(attempt)

    def _record(self, attempt: Attempt) -> None:
        engine = self._engine
        key = (attempt.protocol, attempt.address, attempt.port)
        times = self._seen.get(key, 0)
        if times >= (1 if attempt.protocol == "tcp" else engine.bounds.datagrams):
            engine.records.lose("packet repeated")
            return
        if times or len(self._seen) < engine.bounds.packets:
            self._seen[key] = times + 1
        engine.records.add(
            EgressRecord(
                kind="packet",
                at_seconds=engine.elapsed(),
                name=engine.names.name(attempt.address),
                address=attempt.address,
                port=attempt.port,
                protocol=attempt.protocol,
                decision="refused",
                why="refused_by_kernel" if attempt.protocol == "tcp" else "not_relayed",
                first=attempt.first,
            )
        )
