"""The product over HTTP, in a process of its own behind its walls."""

import contextlib
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from loopback.listening import LEGACY, WAIT_SECONDS, message, read_answer

HOSTS = {"host": "localhost", "content-type": "application/json", "accept": "application/json"}


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    place: str
    trust: ssl.SSLContext | None = None

    def call(self, tool: str, token: str, **arguments: Any) -> tuple[int, Any]:
        body = message("tools/call", LEGACY, name=tool, arguments=arguments)
        lines = [f"{name}: {value}" for name, value in self.headers(token, len(body)).items()]
        with self.connect() as connection:
            connection.sendall("\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body)
            answer = read_answer(connection)
        return answer.status, answer.json.get("result")

    def headers(self, token: str, length: int) -> dict[str, str]:
        host = "localhost" if self.place.startswith("unix:") else self.place.split("/")[2]
        more = {"host": host, "connection": "close", "content-length": str(length)}
        return HOSTS | more | ({"authorization": f"Bearer {token}"} if token else {})

    def connect(self) -> socket.socket:
        if self.place.startswith("unix:"):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(WAIT_SECONDS)
            connection.connect(self.place.removeprefix("unix:"))
            return connection
        host, port = self.place.split("/")[2].split(":")
        plain = socket.create_connection((host, int(port)), timeout=WAIT_SECONDS)
        return self.trust.wrap_socket(plain, server_hostname=host) if self.trust else plain


def command(folder: Path) -> list[str]:
    return [sys.executable, "-m", "fumehood", *f"serve --workspace {folder} --transport http --port 0".split()]


def environment(settings: dict[str, str]) -> dict[str, str]:
    named = {f"FUMEHOOD_{name.upper()}": value for name, value in settings.items()}
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent"} | named


@contextlib.contextmanager
def running(folder: Path, **settings: str) -> Iterator[Running]:
    """`fumehood serve --transport http` on a free port."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(folder), env=environment(settings), stdout=pipe, stderr=pipe)
    with process:
        try:
            assert process.stderr
            found = next((line for line in process.stderr if b"serving at" in line), b"")
            yield Running(process, found.decode().rpartition("serving at ")[2].strip())
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    (made / "a.txt").write_text("hello\n")
    return made


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    keep = tmp_path / "keep"
    keep.mkdir(mode=0o700)
    return write(keep / "tokens", f"{digest('first')}\n{digest('narrow')} tool:read_file\n")


def write(path: Path, text: str) -> Path:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.chmod(0o600)
    return beside.rename(path)


@pytest.mark.threat("T9")
def test_a_workspace_is_served_to_who_has_a_token_that_is_valid_now(folder: Path, tokens: Path) -> None:
    """The walls stand meanwhile: only the token file's folder may be read again."""
    with running(folder, environment="production", http__token_file=str(tokens)) as server:
        status, result = server.call("read_file", "first", path="a.txt")
        assert (status, result["structuredContent"]["size"]) == (200, 6)
        assert server.call("read_file", "", path="a.txt")[0] == 401
        assert server.call("read_file", "narrow", path="a.txt")[0] == 200
        assert server.call("list_directory", "narrow")[0] == 403
        write(tokens, f"{digest('second')}\n")
        assert server.call("read_file", "first", path="a.txt")[0] == 401
        assert server.call("read_file", "second", path="a.txt")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        out, log = server.process.communicate(timeout=WAIT_SECONDS)
    assert server.process.returncode == 0
    assert out == b""
    assert b"a.txt" not in log
    assert b"Traceback" not in log


@pytest.mark.threat("T9")
def test_a_workspace_is_served_on_a_unix_socket(folder: Path, tmp_path: Path) -> None:
    with running(folder, http__unix_socket=str(tmp_path / "s")) as server:
        assert server.place == f"unix:{tmp_path / 's'}"
        assert server.call("read_file", "", path="a.txt")[0] == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(WAIT_SECONDS) == 130


@pytest.mark.threat("T9")
@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"environment": "production"}, "token"),
        ({"http__host": "0.0.0.0"}, "without a token"),
        ({"http__host": "0.0.0.0", "http__token_file": "TOKENS"}, "in the clear"),
        ({"http__token_file": "/nonexistent/tokens"}, "cannot be read"),
        ({"http__tls_key": "/nonexistent/key"}, "pair"),
        ({"http__token_file": "INSIDE"}, "in the workspace"),
    ],
)
def test_a_start_that_would_expose_is_refused(folder: Path, tokens: Path, settings: dict[str, str], word: str) -> None:
    inside = write(folder / "tokens", tokens.read_text())
    given = {name: {"TOKENS": str(tokens), "INSIDE": str(inside)}.get(text, text) for name, text in settings.items()}
    done = subprocess.run(command(folder), env=environment(given), capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert word in done.stderr.decode()
    assert done.stdout == b""


@pytest.mark.threat("T9")
def test_access_tokens_and_new_keys_are_checked_behind_the_walls(folder: Path, tmp_path: Path) -> None:
    first, second = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    keep = tmp_path / "keys"
    keep.mkdir(mode=0o700)
    issuer, audience = "https://login.example", "https://files.example/mcp"

    def publish(key: ec.EllipticCurvePrivateKey) -> Path:
        public = jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key(), as_dict=True)
        return write(keep / "keys.json", json.dumps({"keys": [public]}))

    def token(key: ec.EllipticCurvePrivateKey, scope: str) -> str:
        claims = {"iss": issuer, "aud": audience, "sub": "ann", "exp": int(time.time()) + 600, "scope": scope}
        return jwt.encode(claims, key, algorithm="ES256")

    oauth = {"issuer": issuer, "audience": audience, "keys_file": str(publish(first))}
    with running(folder, environment="production", **{f"http__oauth_{k}": v for k, v in oauth.items()}) as server:
        assert server.call("read_file", token(first, "tools:read"), path="a.txt")[0] == 200
        assert server.call("read_file", token(first, "tool:git_log"), path="a.txt")[0] == 403
        assert server.call("read_file", token(second, "tools:read"), path="a.txt")[0] == 401
        publish(second)
        assert server.call("read_file", token(second, "tools:read"), path="a.txt")[0] == 200
        assert server.call("read_file", token(first, "tools:read"), path="a.txt")[0] == 401


@pytest.mark.threat("T9")
def test_tls_is_spoken_behind_the_walls(folder: Path, tokens: Path, tmp_path: Path) -> None:
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    out = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*made, *out], cwd=tmp_path, check=True, capture_output=True, timeout=60)
    (tmp_path / "key.pem").chmod(0o600)
    files = {"certificate": str(tmp_path / "cert.pem"), "key": str(tmp_path / "key.pem")}
    with running(folder, http__token_file=str(tokens), **{f"http__tls_{k}": v for k, v in files.items()}) as server:
        assert server.place.startswith("https://127.0.0.1:")
        server.trust = ssl.create_default_context(cafile=files["certificate"])
        assert server.call("read_file", "first", path="a.txt")[0] == 200
        assert server.call("read_file", "wrong", path="a.txt")[0] == 401
