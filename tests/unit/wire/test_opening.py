import datetime as dt
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fumehood.core.sections import HttpSettings
from fumehood.core.settings import SettingsError
from fumehood.wire import exposure
from fumehood.wire.opening import Opened, TlsError, open_listener, tls_context

KEY = ec.generate_private_key(ec.SECP256R1())
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8


def opened(*, production: bool = False, **http: Any) -> Opened:
    return open_listener(msgspec.convert({"port": 0, **http}, HttpSettings), production=production)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    made = built.serial_number(1).not_valid_before(now).not_valid_after(now + dt.timedelta(days=1))
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_bytes(made.sign(KEY, hashes.SHA256()).public_bytes(PEM))
    key.write_bytes(KEY.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    key.chmod(0o600)
    return certificate, key


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text("ab" * 32)
    path.chmod(0o600)
    return path


def test_a_listener_answers_to_its_own_names_and_the_listed_ones() -> None:
    made = opened(allowed_hosts=["files.example"], allowed_origins=["https://app.example"])
    try:
        port = made.sockets[0].getsockname()[1]
        assert made.policy.hosts == {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "files.example"}
        assert "https://app.example" in made.policy.origins
        assert f"http://localhost:{port}" in made.policy.origins
        assert "http://files.example" not in made.policy.origins
        assert made.places == (f"http://127.0.0.1:{port}/mcp",)
        assert made.peers is None
        assert made.reads == ()
    finally:
        made.close()


@pytest.mark.threat("T9")
def test_a_listener_that_would_expose_is_not_bound(tokens: Path) -> None:
    with pytest.raises(exposure.ExposureError, match="production"):
        opened(production=True)
    with pytest.raises(exposure.ExposureError, match="in the clear"):
        opened(host="0.0.0.0", token_file=str(tokens))
    made = opened(host="0.0.0.0", token_file=str(tokens), unsafe_plain_bind=True)
    made.close()
    assert made.notes
    assert made.reads == (tokens.parent,)


def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(exposure.ExposureError, match="no address"):
        opened(host="no-such-name.invalid")


def test_a_unix_socket_knows_its_peers(tmp_path: Path) -> None:
    made = opened(unix_socket=str(tmp_path / "s"), peer_uids=[33])
    made.close()
    assert made.peers == frozenset({os.geteuid(), 33})
    assert made.policy.hosts == {"localhost"}


@pytest.mark.threat("T9")
def test_a_credential_file_that_cannot_be_used_stops_the_start_before_anything_is_bound(tmp_path: Path) -> None:
    socket_path = tmp_path / "s"
    with pytest.raises(SettingsError):
        opened(unix_socket=str(socket_path), token_file=str(tmp_path / "missing"))
    assert not socket_path.exists()


def test_tls_takes_a_pair_and_refuses_others(pair: tuple[Path, Path], tmp_path: Path) -> None:
    certificate, key = pair
    made = opened(tls_certificate=str(certificate), tls_key=str(key))
    assert made.tls
    assert made.places[0].startswith("https://")
    made.close()
    other = tmp_path / "other.pem"
    other.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    other.chmod(0o600)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(KEY.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"word")))
    locked.chmod(0o600)
    for chain, secret in (
        (certificate, other),
        (certificate, locked),
        (certificate, tmp_path / "missing"),
        (tmp_path / "missing", key),
        (key, key),
        (certificate, tmp_path),
        (certificate, Path("nul\0")),
    ):
        with pytest.raises(TlsError):
            tls_context(chain, secret)


@pytest.mark.threat("T9")
def test_a_key_that_others_may_read_is_refused(pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    key.chmod(0o644)
    with pytest.raises(TlsError, match="others"):
        tls_context(certificate, key)
    key.chmod(0o640)
    assert tls_context(certificate, key)
