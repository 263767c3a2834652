import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.observe.tls import RECORDS, ClientHello, parse_client_hello


def real_hello(name: str | None) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def extension(kind: int, body: bytes) -> bytes:
    return kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


def server_name(name: bytes) -> bytes:
    entry = b"\0" + len(name).to_bytes(2, "big") + name
    return extension(0, len(entry).to_bytes(2, "big") + entry)


def message(extensions: bytes, session: bytes = b"") -> bytes:
    body = b"\3\3" + bytes(32) + bytes([len(session)]) + session + b"\0\2\x13\1" + b"\1\0"
    body += len(extensions).to_bytes(2, "big") + extensions
    return b"\1" + len(body).to_bytes(3, "big") + body


def records(handshake: bytes, size: int = 16384) -> bytes:
    pieces = [handshake[at : at + size] for at in range(0, len(handshake), size)]
    return b"".join(b"\x16\3\1" + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def test_the_name_in_a_real_hello_is_read() -> None:
    assert parse_client_hello(real_hello("Registry.example")) == ClientHello(server_name="registry.example")
    assert parse_client_hello(real_hello(None)) == ClientHello(server_name=None)


def test_every_prefix_of_a_real_hello_asks_for_more() -> None:
    data = real_hello("registry.example")
    assert all(parse_client_hello(data[:length]) is None for length in range(len(data)))


@pytest.mark.threat("R3")
@pytest.mark.parametrize("size", [5, 9, 100, 16384])
def test_a_hello_that_spans_records_is_read(size: int) -> None:
    data = records(message(server_name(b"registry.example") + extension(51, bytes(120))), size)
    assert parse_client_hello(data) == ClientHello(server_name="registry.example")


def test_a_hello_before_extensions_existed_names_nobody() -> None:
    body = b"\3\1" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    assert parse_client_hello(records(b"\1" + len(body).to_bytes(3, "big") + body)) == ClientHello(server_name=None)


def test_encrypted_client_hello_is_noted_and_the_outer_name_returned() -> None:
    data = records(message(server_name(b"outer.example") + extension(0xFE0D, b"\0\0\1")))
    assert parse_client_hello(data) == ClientHello(server_name="outer.example", note="ech")


@pytest.mark.threat("R3")
@pytest.mark.parametrize(
    "data",
    [
        b"\x16\3\1\0\0",  # an empty record
        b"\x16\2\1\0\5hello",
        b"\x16\3\1\xff\xff",
        b"\x16\3\1\0\4\2\0\0\0",  # a ServerHello
        b"\x16\3\1\0\4\1\xff\xff\xff",  # 16 MiB of hello
        records(message(server_name(b"a.example") + server_name(b"b.example"))),
        records(message(extension(0, b"\0\7\0\0\1a\0\0\1b"))),  # two names in one list
        records(message(extension(0, b"\0\0"))),
        records(message(extension(0, b"\0\4\1\0\1a"))),  # not a host_name
        records(message(server_name(b""))),
        records(message(b"\0\0\0\x09")),  # an extension longer than its list
        records(message(server_name(b"a.example")), 5)[:40] + b"\x17\3\1\0\1x",  # other content in between
        records(message(server_name(b"a.example"), bytes(32)), 1),  # more records than a hello may span
    ],
)
def test_what_cannot_become_a_hello_is_malformed_and_names_nobody(data: bytes) -> None:
    assert parse_client_hello(data) == ClientHello(server_name=None, note="malformed")


@given(st.binary(min_size=1, max_size=200).filter(lambda b: b.isascii()), st.integers(20, 500), st.binary(max_size=32))
def test_every_name_survives_every_way_of_cutting_records(name: bytes, size: int, session: bytes) -> None:
    data = records(message(server_name(name), session), size)
    assert parse_client_hello(data) == ClientHello(server_name=name.decode("ascii").lower())
    assert parse_client_hello(data + b"early data") == ClientHello(server_name=name.decode("ascii").lower())


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert isinstance(parse_client_hello(b"\x16" + data), ClientHello | None)


@given(st.data())
def test_mangled_hellos_are_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(records(message(server_name(b"registry.example") + extension(0xFE0D, b"xyz")), 60))
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    hello = parse_client_hello(bytes(raw))
    assert hello is None or hello.server_name is None or hello.server_name.isascii()


def test_tiny_records_bound_the_work() -> None:
    assert parse_client_hello(b"\x16\3\1\0\1\1" * RECORDS) == ClientHello(server_name=None, note="malformed")
