"""The HTTP listener over real sockets: whom it answers, in which order it refuses, and what it survives."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fumehood.core import limits
from fumehood.wire.admission import Bounds
from fumehood.wire.asgi import Application, Receive, Scope, Send
from loopback.listening import LEGACY, MODERN, WAIT_SECONDS, Listening, bearer, listening, message, read_answer, routed

RIGHT, OTHER, NARROW = "right-token", "other-token", "narrow-token"
ERAS = pytest.mark.parametrize("era", [LEGACY, MODERN])
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from loopback.listening import Echo
from fumehood.core import logs
from fumehood.core.sections import HttpSettings
from fumehood.wire import listener
from fumehood.wire.sdk import streams, tools
from fumehood.wire.admission import Admission, Bounds
from fumehood.wire.guarded import Guarded
from fumehood.wire.opening import open_listener
logs.configure("debug")
class Telling(Echo):
    def call(self, name, arguments, budget, caller):
        if name == "hang":
            print('{"in flight": 1}', file=sys.stderr, flush=True)
        return super().call(name, arguments, budget, caller)
handlers = tools.Handlers(guarded=Guarded(Telling()), call_seconds=float(sys.argv[2]))
served = listener.Served(app=streams.http_app(tools.build(handlers)), rates=Admission(Bounds()))
ended = listener.run(open_listener(HttpSettings(port=0), production=False), served)
handlers.close()
sys.exit(100 + ended)
"""


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def write(path: Path, text: str) -> Path:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.chmod(0o600)
    return beside.rename(path)


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens", f"{digest(RIGHT)}\n{digest(OTHER)}\n{digest(NARROW)} tool:echo\n")


@pytest.fixture
def guarded(tokens: Path) -> Iterator[Listening]:
    with listening(production=True, token_file=str(tokens)) as server:
        yield server


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter, as pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Room for a thousand clients in this process, beside the server's own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    named = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]
    subprocess.run([*made, *named], cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "key.pem").chmod(0o600)
    return folder / "cert.pem", folder / "key.pem"


@ERAS
@pytest.mark.threat("T9")
def test_only_a_right_token_is_answered(guarded: Listening, era: str) -> None:
    assert guarded.call(era=era).status == 401
    assert guarded.call(era=era, **bearer("wrong")).status == 401
    assert guarded.call(era=era, authorization="Basic cmlnaHQ=").status == 401
    answer = guarded.call(text="hello", era=era, **bearer(RIGHT))
    assert answer.status == 200
    assert answer.json["result"]["content"][0]["text"].endswith("|hello")
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


@pytest.mark.threat("T9")
@pytest.mark.parametrize("token", [None, "wrong", RIGHT])
def test_a_foreign_host_or_origin_learns_nothing_of_a_token(guarded: Listening, token: str | None) -> None:
    given = bearer(token) if token else {}
    for host in ("evil.example", f"evil.example:{guarded.port}", "localhost", f"localhost:{guarded.port + 1}"):
        assert guarded.call(host=host, **given).status == 421
    for origin in ("https://evil.example", "null", f"http://localhost:{guarded.port + 1}"):
        refused = guarded.call(origin=origin, **given)
        assert refused.status == 403
        assert not [name for name in refused.headers if name.startswith("access-control")]
    assert guarded.call(origin=f"http://localhost:{guarded.port}", **bearer(RIGHT)).status == 200


@pytest.mark.threat("T9")
def test_a_request_without_a_host_or_with_two_is_refused(guarded: Listening) -> None:
    for hosts in ("", f"Host: localhost:{guarded.port}\r\nHost: evil.example\r\n"):
        data = f"POST /mcp HTTP/1.1\r\n{hosts}Content-Type: application/json\r\nContent-Length: 0\r\n\r\n"
        assert guarded.exchange(data.encode()).status in {400, 421}


@pytest.mark.threat("T9")
def test_a_preflight_gets_no_permission(guarded: Listening) -> None:
    origin = f"http://localhost:{guarded.port}"
    answer = guarded.ask(method="OPTIONS", origin=origin, access_control_request_method="POST")
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.threat("T9")
def test_what_a_page_can_post_without_a_preflight_is_not_taken(guarded: Listening) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        assert guarded.call(content_type=kind, **bearer(RIGHT)).status == 415


def test_probes_need_no_token_and_readiness_follows_the_token_file(guarded: Listening, tokens: Path) -> None:
    assert guarded.ask(method="GET", path="/healthz").status == 200
    assert guarded.ask(method="GET", path="/readyz").status == 200
    write(tokens, "broken")
    assert guarded.ask(method="GET", path="/readyz").status == 503
    assert guarded.ask(method="GET", path="/healthz").status == 200
    assert guarded.call(**bearer(RIGHT)).status == 401


def test_other_paths_and_methods_are_not_there(guarded: Listening) -> None:
    assert guarded.ask(path="/", **bearer(RIGHT)).status == 404
    assert guarded.ask(path="/mcp/", **bearer(RIGHT)).status == 404
    for method in ("GET", "DELETE", "PUT"):
        assert guarded.ask(method=method, **bearer(RIGHT)).status == 405


@pytest.mark.threat("T9")
def test_tokens_are_rotated_without_a_restart(guarded: Listening, tokens: Path) -> None:
    new = "new-token"
    assert guarded.call(**bearer(new)).status == 401
    write(tokens, f"{digest(RIGHT)}\n{digest(new)}\n")
    assert guarded.call(**bearer(RIGHT)).status == 200
    assert guarded.call(**bearer(new)).status == 200
    write(tokens, f"{digest(new)}\n")
    assert guarded.call(**bearer(RIGHT)).status == 401
    assert guarded.call(**bearer(new)).status == 200


@ERAS
@pytest.mark.threat("T9")
def test_a_token_shows_and_calls_its_own_tools_only(guarded: Listening, era: str) -> None:
    def listed(token: str) -> tuple[list[str], str | None]:
        headers = routed(era, None, "tools/list") | bearer(token)
        result = guarded.ask(message("tools/list", era), **headers).json["result"]
        return [tool["name"] for tool in result["tools"]], result.get("cacheScope")

    private, public = ("private", "public") if era == MODERN else (None, None)
    assert listed(RIGHT) == (["echo", "hang"], public)
    assert listed(NARROW) == (["echo"], private)
    assert guarded.call(era=era, **bearer(NARROW)).status == 200
    refused = guarded.call("hang", era=era, **bearer(NARROW))
    assert refused.status == 403
    assert 'scope="tool:hang"' in refused.headers["www-authenticate"]


@pytest.mark.threat("T9")
def test_headers_that_disagree_with_the_body_are_refused(guarded: Listening) -> None:
    for other in ({"mcp_name": "hang"}, {"mcp_method": "ping"}, {"mcp_protocol_version": None}, {"mcp_method": None}):
        refused = guarded.call(**bearer(RIGHT), **other)
        assert refused.status == 400
        assert refused.json["error"]["code"] == -32020


@pytest.mark.threat("T8")
def test_bodies_are_bounded_however_they_come(guarded: Listening) -> None:
    large = b" " * (limits.REQUEST_BYTES + 1)
    announced = guarded.request(**bearer(RIGHT), content_length=str(len(large)))
    assert guarded.exchange(announced).status == 413
    head = guarded.request(**bearer(RIGHT), content_length=None, transfer_encoding="chunked")
    part = b" " * 65536
    chunk = b"%x\r\n%b\r\n" % (len(part), part)
    with guarded.connect() as connection:
        connection.sendall(head)
        with contextlib.suppress(ConnectionError):
            for _ in range(len(large) // len(part) + 2):
                connection.sendall(chunk)
        assert read_answer(connection).status in {413, 0}  # a reset may overtake the answer
    fits = message("ping", LEGACY)
    fits += b" " * (limits.REQUEST_BYTES - len(fits))
    assert guarded.ask(fits, **bearer(RIGHT)).status == 200


@pytest.mark.threat("T8")
def test_heads_are_bounded(guarded: Listening) -> None:
    assert guarded.call(x="y" * limits.HTTP_HEAD_BYTES, **bearer(RIGHT)).status in {400, 431}
    many = {f"x_{number}": "y" for number in range(limits.HTTP_HEADERS)}
    assert guarded.call(**many, **bearer(RIGHT)).status == 431
    assert guarded.ask(path="/mcp?" + "x" * limits.HTTP_TARGET_CHARACTERS, **bearer(RIGHT)).status == 414


@pytest.mark.threat("T8")
def test_slow_heads_and_bodies_are_given_up(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_SECONDS", 0.2)
    with listening(token_file=str(tokens)) as server:
        for data in (b"", b"POST /mcp HTTP/1.1\r\nHost:"):
            with server.connect() as connection:
                connection.sendall(data)
                assert read_answer(connection).status == 0
        with server.connect() as connection:
            connection.sendall(server.request(**bearer("wrong"), content_length="5"))
            assert read_answer(connection).status == 401  # without waiting for a body
        assert server.call(**bearer(RIGHT)).status == 200


@pytest.mark.threat("T8")
def test_a_client_that_does_not_read_is_given_up(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 * limits.MIB  # more than both kernels' buffers hold
    ended = threading.Event()

    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})
        ended.set()

    with listening(token_file=str(tokens), app=with_lifespan(large)) as server:
        with server.connect() as connection, monkeypatch.context() as soon:
            soon.setattr(limits, "HTTP_CLOSE_SECONDS", 0.2)
            connection.sendall(server.request(message("ping", LEGACY), **bearer(RIGHT)))
            assert ended.wait(WAIT_SECONDS)
            assert not threading.Event().wait(0.5)  # nothing is read meanwhile
            assert len(drain(connection)) < size
        with server.connect() as connection:  # the negative control: one that reads gets all of it
            connection.sendall(server.request(message("ping", LEGACY), **bearer(RIGHT)))
            assert len(drain(connection)) >= size


def with_lifespan(app: Application) -> Application:
    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for stage in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})

    return whole


def drain(connection: socket.socket) -> bytes:
    got = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 20):
            got += part
    return bytes(got)


@pytest.mark.threat("T8")
@pytest.mark.usefixtures("many_descriptors")
def test_a_thousand_idle_connections_keep_nobody_out(guarded: Listening) -> None:
    idle: list[socket.socket] = []
    try:
        idle.extend(guarded.connect() for _ in range(1000))
        assert guarded.call(**bearer(RIGHT)).status == 200
    finally:
        for connection in idle:
            connection.close()
    assert guarded.call(**bearer(RIGHT)).status == 200


@ERAS
@pytest.mark.threat("T9")
def test_two_clients_at_once_never_get_each_others_answers(guarded: Listening, era: str) -> None:
    """Both use the same ids: only the connection tells their requests apart."""

    def ask(number: int) -> tuple[str, str]:
        token = (RIGHT, OTHER)[number % 2]
        body = message("tools/call", era, ident=number // 2, name="echo", arguments={"text": f"{token} {number}"})
        answer = guarded.ask(body, **(routed(era, "echo") | bearer(token)))
        assert answer.json["id"] == number // 2
        return f"token {digest(token)[:12]}|{token} {number}", answer.json["result"]["content"][0]["text"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(120)))
    assert [shown for expected, shown in answers if shown != expected] == []


@ERAS
@pytest.mark.threat("T8")
def test_a_client_that_leaves_cancels_its_call(guarded: Listening, era: str) -> None:
    body = message("tools/call", era, name="hang", arguments={})
    with guarded.connect() as connection:
        connection.sendall(guarded.request(body, **(routed(era, "hang") | bearer(RIGHT))))
        assert guarded.published.hanging.wait(WAIT_SECONDS)
        assert not guarded.published.cancelled.is_set()
    assert guarded.published.cancelled.wait(WAIT_SECONDS)


@pytest.mark.threat("T8")
def test_one_client_at_its_bound_is_told_to_wait_and_another_is_served(tokens: Path) -> None:
    with listening(token_file=str(tokens), bounds=Bounds(running=2, queued=0)) as server:
        body = message("tools/call", name="hang", arguments={})
        held = []
        for _ in range(2):
            server.published.hanging.clear()
            held.append(server.connect())
            held[-1].sendall(server.request(body, **(routed(MODERN, "hang") | bearer(RIGHT))))
            assert server.published.hanging.wait(WAIT_SECONDS)
        refused = server.call(**bearer(RIGHT))
        assert refused.status == 429
        assert refused.headers["retry-after"] == "1"
        assert server.ask(message("ping", LEGACY), **bearer(OTHER)).status == 200
        for connection in held:
            connection.close()


@pytest.mark.threat("T9")
def test_tls_is_spoken_from_1_2_on(certificate: tuple[Path, Path], tokens: Path) -> None:
    chain, key = certificate
    with listening(token_file=str(tokens), tls_certificate=str(chain), tls_key=str(key)) as server:
        assert server.opened.places[0].startswith("https://")
        request = server.request(message("ping", LEGACY), **bearer(RIGHT))
        assert server.exchange(request, trust=chain).status == 200
        assert server.exchange(request).status == 0  # in the clear
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        with server.connect() as plain, old.wrap_socket(plain) as wrapped:
            assert wrapped.version() in {"TLSv1.2", "TLSv1.3"}  # the negative control
        context = server.opened.tls
        assert context
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert server.exchange(request, trust=chain).status == 200


@pytest.mark.threat("T8")
def test_a_handshake_that_does_not_come_is_given_up(
    certificate: tuple[Path, Path], tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_HANDSHAKE_SECONDS", 0.2)
    chain, key = certificate
    with listening(token_file=str(tokens), tls_certificate=str(chain), tls_key=str(key)) as server:
        with server.connect() as silent:
            assert silent.recv(1) == b""
        assert server.exchange(server.request(message("ping", LEGACY), **bearer(RIGHT)), trust=chain).status == 200


@pytest.mark.threat("T9")
def test_a_unix_socket_is_its_owners_and_answers_no_other_uid(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listening(unix_socket=str(path)) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.call(text="own").status == 200
    with listening(unix_socket=str(path)) as server:  # over what the first one left behind
        assert server.call(text="own").status == 200


@pytest.mark.root
@pytest.mark.threat("T9")
def test_a_foreign_uid_is_closed_unless_it_is_listed(public_folder: Path) -> None:
    path, uid = public_folder / "s", 10777
    asks = (
        "import os,socket,sys\n"
        "os.setgroups([]);os.setgid(10777);os.setuid(10777)\n"
        "s=socket.socket(socket.AF_UNIX);s.settimeout(20);s.connect(sys.argv[1])\n"
        "s.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')\n"
        "print(s.recv(100)[:12].decode())"
    )

    def ask() -> str:
        command = [sys.executable, "-c", asks, str(path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        return (done.stdout.strip() or done.stderr.strip() or "closed").splitlines()[-1]

    with listening(unix_socket=str(path)):
        assert "Permission denied" in ask()  # the mode
        path.chmod(0o666)
        assert "Permission denied" not in (answer := ask())
        assert "HTTP" not in answer  # the uid
    with listening(unix_socket=str(path), peer_uids=[uid]):
        assert ask() == "HTTP/1.1 200"
    with listening(unix_socket=str(path), peer_uids=[uid + 1]):
        assert "HTTP" not in ask()


@pytest.mark.threat("T9")
def test_access_tokens_of_an_authorization_server_are_taken(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = {**jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key(), as_dict=True), "kid": "k", "alg": "ES256"}
    keys = write(tmp_path / "keys", json.dumps({"keys": [public]}))
    issuer, audience = "https://login.example", "https://files.example/mcp"

    def token(**other: object) -> str:
        claims = {"iss": issuer, "aud": audience, "sub": "ann", "exp": int(time.time()) + 600, "scope": "tools:read"}
        return jwt.encode(claims | other, key, algorithm="ES256", headers={"kid": "k", "typ": "at+jwt"})

    settings: dict[str, Any] = {"oauth_issuer": issuer, "oauth_audience": audience, "oauth_keys_file": str(keys)}
    with listening(production=True, **settings) as server:
        challenge = server.call().headers["www-authenticate"]
        where = "/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="https://files.example{where}"' in challenge
        metadata = server.ask(method="GET", path=where).json
        assert (metadata["resource"], metadata["authorization_servers"]) == (audience, [issuer])
        assert server.call(**bearer(token())).status == 200
        assert server.call(**bearer(token(aud="https://other.example"))).status == 401
        assert server.call(**bearer(token(iss="https://evil.example"))).status == 401
        assert server.call(**bearer(token(exp=1))).status == 401
        assert server.call(**bearer(jwt.encode({"iss": issuer}, "", algorithm="none"))).status == 401
        assert server.call(**bearer(token(scope="openid"))).status == 403
        assert server.call(**bearer(token(scope="tool:echo"))).status == 200
        assert server.call("hang", **bearer(token(scope="tool:echo"))).status == 403


def start(call_seconds: float) -> tuple[subprocess.Popen[bytes], int]:
    """A listener in a process of its own, and the port that it says on stderr."""
    tests = str(Path(__file__).parents[1])
    environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, tests, str(call_seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stderr
    for line in process.stderr:
        if b"serving at http://127.0.0.1:" in line:
            return process, int(line.rpartition(b":")[2].partition(b"/")[0])
    raise AssertionError(process.wait(WAIT_SECONDS))


def post(port: int, tool: str) -> bytes:
    body = message("tools/call", LEGACY, name=tool, arguments={"text": "private-path"})
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_nothing_goes_to_stdout(number: signal.Signals) -> None:
    process, port = start(call_seconds=2.0)
    with process:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as quick:
            quick.sendall(post(port, "echo"))
            assert read_answer(quick).status == 200
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as slow:
            slow.sendall(post(port, "hang"))
            assert process.stderr
            assert any(b"in flight" in line for line in process.stderr)
            process.send_signal(number)
            assert read_answer(slow).status == 200
        out, log = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 100 + number
    assert out == b""
    assert b"private-path" not in log
    assert b"/mcp" not in log
    for line in log.splitlines():
        json.loads(line)
