"""`make bench-serve`: the workspace server beside its peers, interleaved in one run, through one client.

Peers: npm's server-filesystem and mcp-ripgrep, PyPI's mcp-server-git, a server of nothing but the SDK, and bare
ripgrep. Every control of fumehood is on. A file of more lines than one reply holds is read page by page to its end.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import corpus
import peers
from mcpclient import Client
from measure import Candidate, Samples, interleaved, machine, table

HERE = Path(__file__).parent
PATTERN = {"literal": corpus.WORD, "regex": r"def \w+_server\(", "none": "zqzqzq_never_there"}


def main() -> int:
    """Measure; 1 when something could not be measured."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=15)
    rounds = asked.parse_args().rounds
    print(f"fumehood serve beside its peers: {machine()}, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory(prefix="fumehood-bench-") as folder, contextlib.ExitStack() as stack:
        Path(folder).chmod(0o755)
        root = corpus.make(Path(folder))
        print(f"the repository: {sum(1 for path in root.rglob('*') if path.is_file())} files")
        clients = {name: stack.enter_context(talking(argv)) for name, argv in _servers(root).items()}
        said = _compare(root, clients, rounds)
        _resident(clients)
    said += _starting(rounds)
    print("\nBeside the aims (medians)")
    for line in said:
        print(f"  {line}")
    return 0 if len(clients) == len(ALL) else 1


ALL = ("fumehood", "server-filesystem", "mcp-ripgrep", "mcp-server-git", "bare SDK")


def _servers(root: Path) -> dict[str, list[str]]:
    """Every server that can be had, by name."""
    servers = {"fumehood": ours(root), "bare SDK": bare(root)}
    try:
        modules, node = peers.fetched_npm(), str(peers.node_path())
        files = modules / "@modelcontextprotocol/server-filesystem/dist/index.js"
        servers["server-filesystem"] = peers.as_ordinary_user([node, str(files), str(root)])
        servers["mcp-ripgrep"] = peers.as_ordinary_user([node, str(modules / "mcp-ripgrep/dist/index.js")])
        library = peers.fetched_pypi()
        git = [sys.executable, "-m", "mcp_server_git", "--repository", str(root)]
        servers["mcp-server-git"] = ["/usr/bin/env", f"PYTHONPATH={library}", *peers.as_ordinary_user(git)]
    except (OSError, subprocess.SubprocessError) as error:
        print(f"a peer is left out: {error}")
    return servers


def ours(root: Path) -> list[str]:
    """fumehood, with its defaults."""
    return [str(Path(sys.executable).parent / "fumehood"), "serve", "--workspace", str(root)]


def bare(root: Path) -> list[str]:
    """The SDK alone."""
    return [sys.executable, str(HERE / "baresdk.py"), str(root)]


@contextlib.contextmanager
def talking(argv: list[str]) -> Iterator[Client]:
    """A server that has shaken hands."""
    client = Client(argv, environment=peers.environment())
    try:
        client.initialize()
        yield client
    finally:
        client.close()


def _compare(root: Path, clients: Mapping[str, Client], rounds: int) -> list[str]:
    """Each job by everybody who does it."""
    said = []
    for title, jobs in _jobs(root, clients).items():
        candidates = {name: Candidate(run=_silent(job)) for name, job in jobs.items()}
        samples = interleaved(candidates, 3 if title == "find names" else rounds)
        table(title, samples, "fumehood")
        said += [f"{title}: {_ratio(samples, name)}" for name in jobs if name != "fumehood"]
        said.append(f"{title}: fumehood {1000 * _median(samples, 'fumehood'):.1f} ms")
    return said


def _jobs(root: Path, clients: Mapping[str, Client]) -> dict[str, dict[str, Callable[[], object]]]:
    ours, absolute = clients["fumehood"], str(root)
    files, find = clients.get("server-filesystem"), clients.get("mcp-ripgrep")
    git, sdk = clients.get("mcp-server-git"), clients["bare SDK"]
    jobs: dict[str, dict[str, Callable[[], object]]] = {}
    for name in ("small.txt", "medium.txt", "large.txt"):
        jobs[f"read {name} ({(root / name).stat().st_size // 1024} KB)"] = {
            "fumehood": partial(pages, ours, "read_file", path=name),
            "bare SDK": partial(sdk.call, "read_file", path=name),
            **_if(files, "server-filesystem", "read_text_file", path=f"{absolute}/{name}"),
        }
    jobs["list 200 entries"] = {
        "fumehood": partial(ours.call, "list_directory", path="flat"),
        **_if(files, "server-filesystem", "list_directory", path=f"{absolute}/flat"),
    }
    jobs["find names"] = {
        "fumehood": partial(pages, ours, "find_files", glob="**/*server*.py"),
        **_if(files, "server-filesystem", "search_files", path=absolute, pattern="**/*server*.py"),
    }
    for kind, pattern in PATTERN.items():
        jobs[f"search {kind}"] = {
            "fumehood": partial(ours.call, "search_code", pattern=pattern, regex=kind == "regex"),
            "bare ripgrep": partial(_ripgrep, root, pattern),
            **_if(find, "mcp-ripgrep", "search", pattern=pattern, path=absolute),
        }
    jobs["log of 10"] = {
        "fumehood": partial(ours.call, "git_log", limit=10),
        **_if(git, "mcp-server-git", "git_log", repo_path=absolute, max_count=10),
    }
    jobs["diff"] = {
        "fumehood": partial(ours.call, "git_diff"),
        **_if(git, "mcp-server-git", "git_diff_unstaged", repo_path=absolute),
    }
    return jobs


def _if(client: Client | None, name: str, tool: str, **arguments: object) -> dict[str, Callable[[], object]]:
    """The job of a peer that could be had."""
    return {name: partial(client.call, tool, **arguments)} if client is not None else {}


def pages(client: Client, tool: str, **arguments: object) -> int:
    """Everything, page by page; how many there were."""
    cursor: object = None
    for number in range(1, 1000):
        more = {"cursor": cursor} if cursor else {}
        found = client.call(tool, **arguments, **more)["structuredContent"]
        cursor = found.get("next_cursor")
        if not cursor:
            return number
    raise RuntimeError("pages without end")


def _ripgrep(root: Path, pattern: str) -> None:
    words = [str(peers.ripgrep_path()), "--no-config", "--no-ignore", "--hidden", "--line-number", "-e", pattern, "."]
    done = subprocess.run(words, cwd=root, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode > 1:
        raise RuntimeError(done.stderr.decode())


def _starting(rounds: int) -> list[str]:
    """From nothing to the answer to `initialize`, and to the list of tools."""
    with tempfile.TemporaryDirectory(prefix="fumehood-bench-") as folder:
        (Path(folder) / "a.txt").write_text("a\n")

        def start(argv: list[str]) -> None:
            with talking(argv) as client:
                client.request("tools/list")

        candidates = {
            "bare SDK": Candidate(run=_silent(lambda: start(bare(Path(folder))))),
            "fumehood": Candidate(run=_silent(lambda: start(ours(Path(folder))))),
        }
        samples = interleaved(candidates, max(3, rounds // 2))
    table("start, initialize, list of tools, end", samples, "bare SDK")
    more = 1000 * (_median(samples, "fumehood") - _median(samples, "bare SDK"))
    return [f"start to the list of tools: {more:+.0f} ms beside a bare SDK server (aim: at most +200)"]


def _resident(clients: Mapping[str, Client]) -> None:
    print("\nresident memory after all this, with children (MiB)")
    for name, client in clients.items():
        print(f"  {name:20} {client.resident_kib() / 1024:7.0f}")


def _silent(job: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        job()

    return run


def _median(samples: Samples, name: str) -> float:
    walls = sorted(one.wall for one in samples[name])
    return walls[len(walls) // 2]


def _ratio(samples: Samples, peer: str) -> str:
    return f"{_median(samples, 'fumehood') / _median(samples, peer):.2f} x {peer}"


if __name__ == "__main__":
    sys.exit(main())
