import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumehood.core.errors import UnsupportedError
from fumehood.wire.sockets import SocketError, addresses, bind_tcp, bind_unix, peer_uid, place


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def bound(path: Path) -> Iterator[socket.socket]:
    opened = bind_unix(path, shared=False)
    yield opened
    opened.close()


def test_addresses_are_literal_and_each_once() -> None:
    assert addresses("127.0.0.1", 80) == (("127.0.0.1", 80),)
    assert ("127.0.0.1", 80) in addresses("localhost", 80)
    assert addresses("no-such-name.invalid", 80) == ()
    assert addresses("x" * 300, 80) == ()


def test_a_free_port_is_chosen_and_taken_for_every_address() -> None:
    first, second = bind_tcp((("127.0.0.1", 0), ("127.0.0.2", 0)))
    with first, second:
        port = first.getsockname()[1]
        assert port > 0
        assert second.getsockname() == ("127.0.0.2", port)
        assert place(first) == f"http://127.0.0.1:{port}"
        assert place(first, encrypted=True) == f"https://127.0.0.1:{port}"
        assert not first.get_inheritable()
        assert first.proto == socket.IPPROTO_TCP  # for asyncio, which then sends without delay


def test_an_ipv6_socket_is_ipv6_only() -> None:
    (opened,) = bind_tcp((("::1", 0),))
    with opened:
        assert opened.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        assert place(opened).startswith("http://[::1]:")


def test_a_port_that_is_taken_is_told_and_nothing_stays_open() -> None:
    (opened,) = bind_tcp((("127.0.0.1", 0),))
    with opened:
        port = opened.getsockname()[1]
        with pytest.raises(SocketError, match=str(port)):
            bind_tcp((("127.0.0.2", port), ("127.0.0.1", port)))
        (again,) = bind_tcp((("127.0.0.2", port),))
        again.close()


@pytest.mark.threat("T9")
@pytest.mark.parametrize(("shared", "mode"), [(False, 0o600), (True, 0o666)])
def test_a_socket_file_is_made_with_its_mode_whatever_the_umask(path: Path, *, shared: bool, mode: int) -> None:
    before = os.umask(0)
    try:
        with bind_unix(path, shared=shared) as opened:
            assert stat.S_IMODE(path.lstat().st_mode) == mode
            assert place(opened) == f"unix:{path}"
        assert os.umask(0) == 0
    finally:
        os.umask(before)


@pytest.mark.threat("T9")
def test_the_peer_is_who_the_kernel_says(bound: socket.socket, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        accepted, _ = bound.accept()
        with accepted:
            assert peer_uid(accepted) == os.geteuid()


def test_a_socket_that_nobody_listens_on_is_replaced(path: Path) -> None:
    bind_unix(path, shared=False).close()
    assert path.is_socket()
    bind_unix(path, shared=False).close()


def test_a_socket_that_somebody_listens_on_is_not(bound: socket.socket, path: Path) -> None:
    with pytest.raises(SocketError, match="already"):
        bind_unix(path, shared=False)
    assert bound.fileno() > 0
    assert path.is_socket()


def test_what_is_no_socket_is_never_removed(path: Path) -> None:
    path.write_text("kept")
    with pytest.raises(SocketError, match="something else"):
        bind_unix(path, shared=False)
    assert path.read_text() == "kept"
    path.unlink()
    path.symlink_to("elsewhere")
    with pytest.raises(SocketError, match="something else"):
        bind_unix(path, shared=False)


@pytest.mark.threat("T9")
def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(SocketError, match="others"):
        bind_unix(folder / "s", shared=False)
    folder.chmod(0o1777)
    bind_unix(folder / "s", shared=False).close()


def test_a_path_that_is_too_long_or_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="107"):
        bind_unix(tmp_path / ("x" * 108), shared=False)
    with pytest.raises(SocketError, match="does not exist"):
        bind_unix(tmp_path / "no" / "s", shared=False)


def test_a_socket_that_cannot_be_made_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(socket.socket):
        def bind(self, address: object, /) -> None:
            raise OSError(28, "No space left on device", address)

    monkeypatch.setattr(socket, "socket", Full)
    with pytest.raises(SocketError, match="No space"):
        bind_unix(path, shared=False)


@pytest.mark.threat("T9")
def test_a_system_that_does_not_know_its_peers_gets_no_socket(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with pytest.raises(UnsupportedError):
        bind_unix(path, shared=False)
    assert not path.exists()
