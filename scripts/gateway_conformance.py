"""Run MCP's conformance suite against `server-everything` alone, and against the same server behind the gateway.

Alone it listens itself over Streamable HTTP; behind, it is a confined child on stdio, and the gateway listens. What it
reaches alone it has to reach behind, but for the checks that `tests/fixtures/conformance/gateway.tsv` lists with the
reason; a check that is listed and is reached after all is a failure too. What it fails alone is nobody's business here:
most of the suite asks for tools of its own.

    python scripts/gateway_conformance.py [--rows]

`--rows` prints what differs as rows of that file. Packages are installed and run as by `conformance.py`.
"""

import argparse
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import conformance
from conformance import FIXTURE, FUMEHOOD, NODE_WHEEL, REVISIONS, Tools

LIST = FIXTURE / "gateway.tsv"
EVERYTHING = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
SUITE = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
_SCENARIO = re.compile(r"server-(.+)-\d{4}-\d{2}-\d{2}T[0-9-]+Z")
_NEITHER = {"INFO", "SKIPPED"}  # says nothing of whether something is reached
CONFIG = """
[gateway]
names = "plain"
show = "direct"

[servers.everything]
command = {command}
folder = {folder}
reads = ["*"]
egress = []

[servers.everything.policy]
allow_read = [{node}, {folder}]
"""


class Check(NamedTuple):
    """One check of one scenario for one revision."""

    revision: str
    scenario: str
    check: str


def main() -> int:
    """0 when only what is listed differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", action="store_true")
    rows = parser.parse_args().rows
    with conformance.installed() as tools:
        with _alone(tools) as url:
            alone = {revision: _reached(tools, url, revision) for revision in REVISIONS}
        with _behind(tools) as url:
            behind = {revision: _reached(tools, url, revision) for revision in REVISIONS}
    lost = set().union(*(alone[one] - behind[one] for one in REVISIONS))
    for revision in REVISIONS:
        both = len(alone[revision] & behind[revision])
        print(f"{revision}: {len(alone[revision])} checks reached alone, {both} of them behind the gateway")
        print(f"  and {len(behind[revision] - alone[revision])} behind the gateway only", flush=True)
    if rows:
        print("\n".join("\t".join(one) for one in sorted(lost)))
        return 0
    return told(lost, listed(LIST.read_text("ascii")))


def listed(text: str) -> dict[Check, str]:
    """What may differ, and why."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return {Check(*line[:3]): line[3] for line in lines}


def told(lost: set[Check], known: Mapping[Check, str]) -> int:
    """Say what differs and is not listed, and what is listed and does not differ; 1 when there is either."""
    for one in sorted(lost - known.keys()):
        print(f"FAILED  {' '.join(one)}: reached alone, not behind the gateway")
    for one in sorted(known.keys() - lost):
        print(f"FAILED  {' '.join(one)}: listed, and does not differ")
    print(f"{len(lost & known.keys())} differences, as listed")
    return int(lost != known.keys())


def reached(results: Mapping[str, list[tuple[str, str]]], revision: str) -> set[Check]:
    """The checks that succeeded: of each scenario its checks with their statuses, some of which come more than once."""
    found: set[Check] = set()
    for scenario, checks in results.items():
        said: dict[str, set[str]] = {}
        for check, status in checks:
            said.setdefault(check, set()).add(status)
        found |= {
            Check(revision, scenario, one) for one, all_of_it in said.items() if all_of_it - _NEITHER == {"SUCCESS"}
        }
    return found


def _reached(tools: Tools, url: str, revision: str) -> set[Check]:
    out = f"out-{revision}-{url.rpartition(':')[2].partition('/')[0]}"
    words = ("server", "--url", url, "--requirements", revision, "--output-dir", out)
    done = tools.node(tools.folder / SUITE, *words)
    results = {}
    for file in sorted((tools.folder / out).glob("*/checks.json")):  # a scenario that broke off has none
        if name := _SCENARIO.fullmatch(file.parent.name):
            checks = json.loads(file.read_text("utf-8"))
            results[name[1]] = [(str(one["id"]), str(one["status"])) for one in checks]
    if not results:
        raise SystemExit(f"the suite did not run:\n{done.stdout}{done.stderr}")
    return reached(results, revision)


@contextlib.contextmanager
def _alone(tools: Tools) -> Iterator[str]:
    """Where `server-everything` listens itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*tools.drop, str(NODE_WHEEL / "bin/node"), str(tools.folder / EVERYTHING), "streamableHttp"]
    environment = tools.environment | {"PORT": str(port)}
    with subprocess.Popen(
        command,
        cwd=tools.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as server:
        try:
            assert server.stdout
            for line in server.stdout:
                if str(port).encode() in line:
                    break
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.terminate()
            assert server.stdout
            server.stdout.close()


@contextlib.contextmanager
def _behind(tools: Tools) -> Iterator[str]:
    """Where the gateway listens with the same server behind it."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as place:
        node = NODE_WHEEL / "bin/node"
        command = json.dumps([str(node), str(tools.folder / EVERYTHING), "stdio"])
        config = Path(place) / "gateway.toml"
        config.write_text(
            CONFIG.format(command=command, folder=json.dumps(str(tools.folder)), node=json.dumps(str(NODE_WHEEL))),
            "utf-8",
        )
        config.chmod(0o600)
        words = [str(FUMEHOOD), "gateway", "--config", str(config), "--transport", "http", "--port", "0"]
        tools.folder.chmod(0o755)  # confined, the server has a user of its own
        with conformance.serving(words) as url:
            _demand_tools(url)
            yield url


def _demand_tools(url: str) -> None:
    """Without the server behind it the gateway would be measured alone, and much would be reached all the same."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISIONS[-1],
        "io.modelcontextprotocol/clientInfo": {"name": "conformance", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": REVISIONS[-1], "Mcp-Method": "tools/list"}
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60) as answer:
        names = [one["name"] for one in json.load(answer)["result"]["tools"]]
    if "echo" not in names:
        raise SystemExit(f"the server is not behind the gateway: its tools are {names}")


if __name__ == "__main__":
    sys.exit(main())
