"""`make bench-serve`: the workspace server beside its peers, interleaved in one run, through one client.

Peers: npm's server-filesystem and mcp-ripgrep, PyPI's mcp-server-git, a server of nothing but the SDK, and bare
ripgrep over the same files. Every control of fumehood is on. A file of more lines than one reply holds is read page by
page to its end, and no two rounds in a row read the same file.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import corpus
import peers
from mcpclient import Client
from measure import Candidate, Samples, beside, beyond, interleaved, machine, mean_cpu, ratio

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
        clients = {name: stack.enter_context(talking(argv)) for name, argv in _servers(root).items()}
        _said_of(root, clients["fumehood"])
        lines = _compare(root, clients, rounds)
        _resident(clients)
    lines += _starting(rounds)
    print("\nBeside the aims: medians, the least of each, and the mean CPU of each server with what it starts")
    for line in lines:
        print(f"  {line}")
    return 0 if len(clients) == len(ALL) else 1


@dataclass(frozen=True, slots=True)
class Aim:
    """What one job is to reach: at most so many times the wall time of a peer."""

    peer: str
    times: float


AIMS = {
    "read medium": Aim("server-filesystem", 1.0),
    "read large": Aim("server-filesystem", 1.5),
    "find names": Aim("server-filesystem", 0.1),
    "search literal": Aim("bare ripgrep", 1.25),
    "search regex": Aim("bare ripgrep", 1.25),
    "search none": Aim("bare ripgrep", 1.25),
    "log of 10": Aim("mcp-server-git", 1.0),
}
SMALL_MILLISECONDS, START_MILLISECONDS, LIST_BYTES = 5, 200, 8 * 1024


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


def _said_of(root: Path, ours: Client) -> None:
    """What is measured: how many files there are, how many each side searches, and how large the tools' list is."""
    bare = len(_ripgrep(root, "--files").splitlines())
    found = ours.call("search_code", pattern="zqzqzq_never_there")["structuredContent"]
    tools = len(json.dumps(ours.request("tools/list")["tools"], separators=(",", ":"), ensure_ascii=False))
    print(f"the repository: {bare} files for bare ripgrep; fumehood passes over {json.dumps(found.get('skipped'))}")
    print(f"the list of tools: {tools} bytes (aim: at most {LIST_BYTES})")
    counted = pages(ours, "read_file", path="large00.txt"), pages(ours, "read_file", path="medium00.txt")
    print(f"pages of one read: {counted[0]} of large, {counted[1]} of medium")


def _compare(root: Path, clients: Mapping[str, Client], rounds: int) -> list[str]:
    """Each job by everybody who does it."""
    said = []
    for title, jobs in _jobs(root, clients).items():
        spent = {name: client.cpu_seconds for name, client in clients.items()}
        candidates = {name: Candidate(run=_silent(job), used=spent.get(name)) for name, job in jobs.items()}
        samples = interleaved(candidates, 3 if title == "find names" else rounds)
        beside(title, samples, "fumehood")
        said.append(_aimed(title, samples))
    return said


def _aimed(title: str, samples: Samples) -> str:
    aim = AIMS.get(next((name for name in AIMS if title.startswith(name)), ""))
    least = min(one.wall for one in samples["fumehood"]) * 1e3
    if title.startswith("read small"):
        return f"{title}: {least:.1f} ms at the least (aim: at most {SMALL_MILLISECONDS} ms)"
    peer = aim.peer if aim else next((name for name in samples if name != "fumehood"), "")
    if peer not in samples:
        return f"{title}: not measured, for the peer is missing"
    wanted = f" (aim: at most {aim.times})" if aim else ""
    found = ratio(samples, "fumehood", peer, "wall")
    cpu = mean_cpu(samples, "fumehood", peer)
    return f"{title}: {found[0]:.2f} (least {found[1]:.2f}, CPU {cpu:.2f}) x {peer}{wanted}"


def _jobs(root: Path, clients: Mapping[str, Client]) -> dict[str, dict[str, Callable[[], object]]]:
    ours, absolute = clients["fumehood"], str(root)
    files, find = clients.get("server-filesystem"), clients.get("mcp-ripgrep")
    git, sdk = clients.get("mcp-server-git"), clients["bare SDK"]
    jobs: dict[str, dict[str, Callable[[], object]]] = {}
    for name, suffix in (("small", "txt"), ("medium", "txt"), ("large", "txt"), ("source", "py")):
        paths = [f"{name}{number:02d}.{suffix}" for number in range(corpus.COPIES)]
        jobs[f"read {name} ({(root / paths[0]).stat().st_size // 1024} KB)"] = {
            "fumehood": _each([partial(pages, ours, "read_file", path=path) for path in paths]),
            "bare SDK": _each([partial(sdk.call, "read_file", path=path) for path in paths]),
        }
        if files is not None:
            peers_own = [partial(files.call, "read_text_file", path=f"{absolute}/{path}") for path in paths]
            jobs[f"read {name} ({(root / paths[0]).stat().st_size // 1024} KB)"]["server-filesystem"] = _each(peers_own)
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
            "bare ripgrep": partial(_ripgrep, root, "--line-number", "-e", pattern),
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


def _each(jobs: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """One job after the other, round and round."""
    turns = itertools.cycle(jobs)

    def run() -> object:
        return next(turns)()

    return run


def _ripgrep(root: Path, *words: str) -> bytes:
    """Over the files that fumehood searches, in the same tree, with the same files passed over."""
    everything = ("--no-config", "--no-ignore", "--hidden", "--glob=!.git", *words, ".")
    done = subprocess.run(
        [str(peers.ripgrep_path()), *everything], cwd=root, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode > 1:
        raise RuntimeError(done.stderr.decode())
    return done.stdout


def _starting(rounds: int) -> list[str]:
    """From nothing to the answer to `initialize`, and to the list of tools."""
    with tempfile.TemporaryDirectory(prefix="fumehood-bench-") as folder:
        (Path(folder) / "a.txt").write_text("a\n")

        def start(argv: list[str]) -> None:
            with talking(argv) as client:
                client.request("tools/list")

        candidates = {
            "fumehood": Candidate(run=_silent(lambda: start(ours(Path(folder))))),
            "bare SDK": Candidate(run=_silent(lambda: start(bare(Path(folder))))),
        }
        samples = interleaved(candidates, rounds)
    beside("start, initialize, list of tools, end", samples, "fumehood")
    median, least = (1000 * more for more in beyond(samples, "fumehood", "bare SDK"))
    return [f"start to the list of tools: {median:+.0f} and {least:+.0f} ms (aim: at most +{START_MILLISECONDS})"]


def _resident(clients: Mapping[str, Client]) -> None:
    print("\nresident memory after all this, with children (MiB)")
    for name, client in clients.items():
        print(f"  {name:20} {client.resident_kib() / 1024:7.0f}")


def _silent(job: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        job()

    return run


if __name__ == "__main__":
    sys.exit(main())
