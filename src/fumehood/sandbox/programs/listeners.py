"""Open the engine's listeners inside a confined child's network namespace, and hand them out.

Run as `python -I -S listeners.py FD`, where FD is a SEQPACKET socket. It stands ready before the child exists, so that
its start-up costs nothing. Messages are JSON:

    in   {"ruleset": text, "nft": path or null, "catch": bool, "plain_ports": [int]}
    in   {"pid": int}
    out  {"labels": [text], "notes": [text]} + SCM_RIGHTS
    out  {"error": text}

It stays single-threaded, because a process with threads may not enter a user namespace (setns(2)). It imports nothing
of ours. It ends after one answer, and when the socket is closed.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

MESSAGE_BYTES = 128 * 1024
LOOPBACK_SECONDS = 5.0  # bwrap writes its info before lo is up; it takes well under a millisecond
NFT_SECONDS = 5.0  # measured: 6 ms
BACKLOG = 4096  # a burst must reach the relay's own bound, where it is counted
PACKET_BUFFER_BYTES = 1024 * 1024
CATCH_PORT, DNS_PORT = 1, 53

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # sched.h
NS_GET_USERNS = 0xB701  # ioctl_ns(2)
CAPABILITY_VERSION_3 = 0x20080522  # capset(2)
CAPABILITIES = (10, 12, 13)  # NET_BIND_SERVICE, NET_ADMIN, NET_RAW
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2  # prctl(2)
SIOCGIFFLAGS, IFF_UP = 0x8913, 1  # netdevice(7)
IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_FREEBIND = 8, 49, 78  # ip(7), ipv6(7)
ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
FAMILIES = ((socket.AF_INET, "4"), (socket.AF_INET6, "6"))

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Make a libc call that answers 0, or raise its errno."""
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter(pid: int) -> None:
    """Enter the network namespace of `pid`; an ordinary user enters the user namespace that owns it first.

    Its own namespace is refused: the routes and rules below would cut the host off its network.
    """
    net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if os.path.samestat(os.fstat(net), os.stat("/proc/self/ns/net")):  # noqa: PTH116 - start-up time
        raise OSError("the child has no network namespace of its own")
    if os.geteuid() == 0:
        call("setns", net, CLONE_NEWNET)
    else:
        call("setns", fcntl.ioctl(net, NS_GET_USERNS), CLONE_NEWUSER)
        call("setns", net, CLONE_NEWNET)
        keep_capabilities()
    os.close(net)


def keep_capabilities() -> None:
    """Make what nft needs ambient: an exec by a user other than root drops every other capability."""
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    mask = sum(1 << number for number in CAPABILITIES)
    call("capset", header, struct.pack("6I", mask, mask, mask, 0, 0, 0))
    for number in CAPABILITIES:
        call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0, 0)


def shares_our_network(pid: int) -> bool:
    """Whether `pid` has no network namespace of its own; what is routed and filtered would then be the host's."""
    ours, theirs = os.stat("/proc/self/ns/net"), os.stat(f"/proc/{pid}/ns/net")  # noqa: PTH116 - start-up time
    return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)


def is_up(probe: socket.socket, interface: str) -> bool:
    """Whether an interface is up."""
    answer = fcntl.ioctl(probe, SIOCGIFFLAGS, interface.encode().ljust(40, b"\0"))
    return bool(struct.unpack_from("H", answer, 16)[0] & IFF_UP)


def wait_for_loopback() -> None:
    """Wait until lo is up. Raising it here would clash with bwrap's own request; without it IPv6 goes missing.

    Another interface that is up means that this is not a sandbox's namespace, and it is left alone.
    """
    end = time.monotonic() + LOOPBACK_SECONDS
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if any(is_up(probe, name) for _, name in socket.if_nameindex() if name != "lo"):
            raise OSError("the namespace has an interface that leads out of it")
        while not is_up(probe, "lo"):
            if time.monotonic() > end:
                raise OSError("lo never came up")
            time.sleep(0.0005)


def route_everything_here(family: int) -> None:
    """`ip route add local default dev lo`, by rtnetlink(7): every address is one of ours."""
    table_local, protocol_boot, scope_host, type_local = 255, 3, 254, 2
    body = struct.pack("8BI", family, 0, 0, 0, table_local, protocol_boot, scope_host, type_local, 0)
    body += struct.pack("HHI", 8, 4, socket.if_nametoindex("lo"))  # RTA_OIF
    request_ack_create_excl, rtm_newroute = 0x605, 24
    header = struct.pack("IHHII", 16 + len(body), rtm_newroute, request_ack_create_excl, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.settimeout(LOOPBACK_SECONDS)
        netlink.send(header + body)
        error = struct.unpack_from("i", netlink.recv(4096), 16)[0]
    if error:
        raise OSError(-error, f"route: {os.strerror(-error)}")


def listener(family: int, kind: int, port: int) -> socket.socket:
    """A socket on every address of a family and one port; a stream one listens."""
    opened = socket.socket(family, kind)
    try:
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            opened.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)  # else answering from an asked address is EINVAL
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.SOCK_DGRAM:  # an answer must come from the address that was asked
            six = family == socket.AF_INET6
            opened.setsockopt(
                *((socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) if six else (socket.IPPROTO_IP, IP_PKTINFO, 1))
            )
        opened.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))  # noqa: S104 - of an empty namespace
        if kind == socket.SOCK_STREAM:
            opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def attempts_only(*, tcp_only: bool) -> bytes:
    """Classic BPF that drops what is no attempt to leave; a target's own loopback traffic would drown the recorder.

    Kept: IPv4 not to 127/8 and IPv6 not to ::1; of TCP the first packet only; incoming copies only. TCP and the rest
    go to two sockets: a flood of datagrams would push out the first packets of connections.
    """
    first, other = ("keep", "drop") if tcp_only else ("drop", "keep")
    load, half, byte, header, indexed = 0x20, 0x28, 0x30, 0xB1, 0x50  # ld, ldh, ldb, ldx 4*([k]&0xf), ldb [x + k]
    mask, equal, answer = 0x54, 0x15, 0x06  # and, jeq, ret
    packet_type, protocol = 0xFFFFF000 + 4, 0xFFFFF000  # SKF_AD_OFF + SKF_AD_PKTTYPE, + SKF_AD_PROTOCOL
    packet_host, ipv4, ipv6, tcp, syn, syn_ack = 0, 0x0800, 0x86DD, 6, 0x02, 0x12
    lines = [  # label, code, k, where to if true, if false ("": the next line)
        ("", load, packet_type, "", ""),
        ("", equal, packet_host, "", "drop"),
        ("", half, protocol, "", ""),
        ("", equal, ipv4, "", "six"),
        ("", byte, 16, "", ""),
        ("", equal, 127, "drop", ""),
        ("", byte, 9, "", ""),
        ("", equal, tcp, "", other),
        ("", header, 0, "", ""),
        ("", indexed, 13, "", ""),
        ("", mask, syn_ack, "", ""),
        ("", equal, syn, first, "drop"),
        ("six", equal, ipv6, "", "drop"),
        ("", load, 24, "", ""),
        ("", equal, 0, "", "far"),
        ("", load, 28, "", ""),
        ("", equal, 0, "", "far"),
        ("", load, 32, "", ""),
        ("", equal, 0, "", "far"),
        ("", load, 36, "", ""),
        ("", equal, 1, "drop", ""),
        ("far", byte, 6, "", ""),
        ("", equal, tcp, "", other),
        ("", byte, 40 + 13, "", ""),
        ("", mask, syn_ack, "", ""),
        ("", equal, syn, first, "drop"),
        ("drop", answer, 0, "", ""),
        ("keep", answer, 0xFFFF, "", ""),
    ]
    where = {label: at for at, (label, *_) in enumerate(lines) if label}
    return b"".join(
        struct.pack("HBBI", code, where[yes] - at - 1 if yes else 0, where[no] - at - 1 if no else 0, k)
        for at, (_, code, k, yes, no) in enumerate(lines)
    )


def packet_recorder(*, tcp_only: bool) -> socket.socket:
    """A packet socket on the namespace's loopback that sees attempts to leave."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)  # protocol 0: nothing arrives before the filter is set
    code = ctypes.create_string_buffer(attempts_only(tcp_only=tcp_only))
    opened.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", (len(code) - 1) // 8, ctypes.addressof(code))
    )
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PACKET_BUFFER_BYTES)
    opened.bind(("lo", ETH_P_ALL))
    return opened


def install(nft: str, ruleset: str) -> str:
    """Run nft on the ruleset; what went wrong, or nothing."""
    given, said = os.memfd_create("ruleset"), os.memfd_create("said")
    os.write(given, ruleset.encode())
    os.lseek(given, 0, os.SEEK_SET)
    actions = [(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_DUP2, said, 1), (os.POSIX_SPAWN_DUP2, said, 2)]
    try:
        child = os.posix_spawn(nft, [nft, "-f", "-"], {}, file_actions=actions)
    except OSError as error:
        return str(error)
    watch = os.pidfd_open(child)
    ended, _, _ = select.select([watch], [], [], NFT_SECONDS)
    if not ended:
        signal.pidfd_send_signal(watch, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    text = " ".join(os.pread(said, 300, 0).decode(errors="replace").split())
    for descriptor in (watch, given, said):
        os.close(descriptor)
    return "" if status == 0 else text or f"nft ended with wait status {status}"


class Opened:
    """The sockets that were opened, by label, and what could not be."""

    def __init__(self) -> None:
        """Start with none."""
        self.sockets: dict[str, socket.socket] = {}
        self.notes: list[str] = []

    def family(self, family: int, name: str, *, catch: bool) -> None:
        """Open DNS and the catch-all for one family. A host without IPv6 is noted, without IPv4 nothing would work."""
        try:
            route_everything_here(family)
            self.sockets["udp" + name] = listener(family, socket.SOCK_DGRAM, DNS_PORT)
            self.sockets["dns" + name] = listener(family, socket.SOCK_STREAM, DNS_PORT)
            if catch:
                self.sockets["catch" + name] = listener(family, socket.SOCK_STREAM, CATCH_PORT)
        except OSError as error:
            if family == socket.AF_INET:
                raise
            self.notes.append(f"no IPv6 inside: {error}")

    def fall_back(self, ports: "list[int]", why: str) -> None:
        """Replace the redirect by listeners on known ports: the local route brings every address to them."""
        what = f"no redirect, listening on ports {ports} only" if ports else "no packet filter inside"
        self.notes.append(f"{what}: {why}")
        for name in [label for label in self.sockets if label.startswith("catch")]:
            self.sockets.pop(name).close()
        for family, name in FAMILIES:
            for port in ports:
                with contextlib.suppress(OSError):  # IPv6 that is not there was noted already
                    self.sockets[f"plain{name}:{port}"] = listener(family, socket.SOCK_STREAM, port)


def open_inside(setup: "dict[str, object]") -> Opened:
    """Open everything that the policy asks for, in the namespace that was entered."""
    opened = Opened()
    wait_for_loopback()
    for family, name in FAMILIES:
        opened.family(family, name, catch=bool(setup["catch"]))
    try:
        opened.sockets["packet:tcp"] = packet_recorder(tcp_only=True)
        opened.sockets["packet:other"] = packet_recorder(tcp_only=False)
    except OSError as error:
        opened.notes.append(f"no packet recorder: {error}")
    nft, ports = setup["nft"], setup["plain_ports"]
    why = install(nft, str(setup["ruleset"])) if isinstance(nft, str) else "no nft"
    if why and isinstance(ports, list):
        opened.fall_back(ports, why)
    return opened


def serve(channel: socket.socket) -> int:
    """Take the two messages, do the work, answer."""
    first, second = channel.recv(MESSAGE_BYTES), channel.recv(MESSAGE_BYTES)
    if not first or not second:
        return 1
    setup, child = json.loads(first), json.loads(second)
    try:
        opened = Opened()
        if shares_our_network(child["pid"]):
            opened.notes.append("the child is in our own network namespace: nothing is opened or routed there")
        else:
            enter(child["pid"])
            opened = open_inside(setup)
    except OSError as error:
        channel.send(json.dumps({"error": str(error)}).encode())
        return 1
    answer = {"labels": list(opened.sockets), "notes": opened.notes}
    socket.send_fds(channel, [json.dumps(answer).encode()], [s.fileno() for s in opened.sockets.values()])
    return 0


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
