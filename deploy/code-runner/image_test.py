"""Try the image of the code runner with the options that it is run with: containment inside, then a WebSocket client.

    python deploy/code-runner/image_test.py [IMAGE]

Needs podman and runc, and says so where they are missing (status 3). Every check is one line; the status is 1 when one
of them fails. The container has no network but its own loopback: the client runs inside it. Nothing is left afterwards.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENGINE = ("podman", "--runtime", "runc", "--cgroup-manager", "cgroupfs")
IMAGE = "localhost/fumehood-code-runner:latest"
PYTHON = "/usr/bin/python3"
TOKENS = "/run/secrets/code-runner-tokens"
URL = "ws://127.0.0.1:8777"
CANARY = "/run/fumehood/canary"
TOOLS = ["x", "slow", "after-result"]
LIMITS = {"wall_seconds": 10, "cpu_seconds": 2}
# Besides the states of tests/escape, which give a program back what the harness takes away, on a machine of its own.
ENDED = {"user_error", "timeout_cpu", "timeout_wall"}
GREEDY = {"dos", "mem"}  # a forger, who has less here to forge with, may end as an honest program does
WARM = 4  # children that a runner keeps ready, unless a setting says otherwise
REPEATED = 20
START_SECONDS = 120.0
STEP_SECONDS = 300.0
NO_CHILD = 3  # fumehood's status where a host cannot do it
HEAD = re.compile(r"^//== (?P<name>[\w-]+): (?P<kind>\w+)(?: !)?(?: -> (?P<states>[a-z_ ]+))?\n", re.MULTILINE)
PLANTED = ["closed.txt", *sorted(f"secret.{kind}" for kind in ("txt", "json", "js", "ts", "cjs", "wasm"))]


class FailedError(Exception):
    """A check did not hold."""


def holds(what: str, truth: object, seen: object = "") -> None:
    """One line for one check."""
    print(f"{'ok  ' if truth else 'FAIL'} {what}{f'  ({seen})' if seen else ''}", flush=True)
    if not truth:
        raise FailedError(what)


def engine(*words: str, given: str = "", check: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run podman to its end."""
    environment = {"STORAGE_DRIVER": "vfs", **os.environ}
    done = subprocess.run(
        [*ENGINE, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
        check=False,
        env=environment,
    )
    if check and done.returncode:
        raise FailedError(f"podman {words[0]}: status {done.returncode}: {done.stderr[-2000:]}")
    return done


def options(*, without: str = "") -> list[str]:
    """The words of `options` beside this file, paths made whole; perhaps without those that begin with `without`."""
    lines = (HERE / "options").read_text(encoding="utf-8").splitlines()
    words = [line for line in lines if line and not line.startswith("#") and not (without and line.startswith(without))]
    words.append("--read-only-tmpfs=false")  # Podman's own word: it would make /tmp, /run and /var/tmp places to write
    return [word.replace("seccomp=deploy", f"seccomp={ROOT}/deploy") for word in words]


def once(image: str, *words: str, more: Sequence[str] = (), without: str = "") -> "subprocess.CompletedProcess[str]":
    """One command of fumehood in a container of its own."""
    return engine("run", "--rm", "--network=none", *options(without=without), *more, image, *words, check=False)


def attempts() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, kind, states and program of every attempt of the containment tests."""
    for path in sorted((ROOT / "tests/fixtures/code").glob("*.js")):
        text = path.read_text(encoding="utf-8")
        heads = list(HEAD.finditer(text))
        ends = [*(head.start() for head in heads[1:]), len(text)]
        for head, end in zip(heads, ends, strict=True):
            yield head["name"], head["kind"], tuple((head["states"] or "").split()), text[head.end() : end].strip()


def mounted(folder: Path, token: str) -> list[str]:
    """The words that give a container the SHA-256 of a token."""
    (folder / "tokens").write_text(hashlib.sha256(token.encode()).hexdigest() + "\n")
    (folder / "tokens").chmod(0o644)
    return [f"--env=FUMEHOOD_CODE__TOKEN_FILE={TOKENS}", f"--volume={folder}/tokens:{TOKENS}:ro"]


class Container:
    """A running runner, and what is asked of it from inside."""

    def __init__(self, image: str, token: str, tokens: Sequence[str]) -> None:
        """Start it and wait until it says that it takes programs."""
        self.token = token
        began = time.monotonic()
        self.name = engine("run", "--detach", "--network=none", *tokens, *options(), image).stdout.strip()
        while self.python("/opt/fumehood/health.py").returncode:
            if time.monotonic() > began + START_SECONDS:
                raise FailedError(f"no health: {engine('logs', self.name).stderr[-2000:]}")
            time.sleep(0.2)
        self.start_seconds = time.monotonic() - began

    def python(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Python inside."""
        return engine("exec", "--interactive", self.name, PYTHON, "-I", *words, given=given, check=False)

    def inside(self, script: str, *words: str, given: str = "") -> Any:  # noqa: ANN401  # JSON
        """A script of `inside/`, and the JSON that it prints."""
        done = self.python("-c", (HERE / "inside" / script).read_text(encoding="utf-8"), *words, given=given)
        if done.returncode:
            raise FailedError(f"{script}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def runs(self, jobs: list[dict[str, Any]], *, token: str = "", at_once: int = 4) -> list[dict[str, Any]]:
        """Programs, each over a socket of its own."""
        asked = {"url": URL, "token": token or self.token, "at_once": at_once, "jobs": jobs}
        told: list[dict[str, Any]] = self.inside("client.py", given=json.dumps(asked))
        return told

    def settled(self) -> dict[str, Any]:
        """What health says once no program runs and as many children wait as are kept ready."""
        deadline, health = time.monotonic() + START_SECONDS, {}
        while time.monotonic() < deadline:
            health = json.loads(self.python("/opt/fumehood/health.py").stdout)
            if (health["running"], health["warm"]) == (0, WARM):
                break
            time.sleep(0.2)
        return health

    def processes(self) -> list[str]:
        """The command lines inside."""
        return engine("top", self.name, "args").stdout.splitlines()[1:]

    def memory(self) -> str:
        """What its cgroup counts, in the engine's words."""
        return engine("stats", "--no-stream", "--format={{.MemUsage}}", self.name).stdout.strip()


def without_namespaces() -> dict[str, Any]:
    """Our filter without what it has for bubblewrap: as in Docker's own, `clone` takes no flag of a namespace."""
    profile: dict[str, Any] = json.loads((HERE / "seccomp.json").read_text(encoding="utf-8"))
    added = {"clone", "mount", "sethostname"}
    rules = [rule for rule in profile["syscalls"] if not added & set(rule["names"])]
    flags = {"index": 0, "value": 0x7E02_0000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    clone = {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [flags]}
    clone3 = {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}
    return {**profile, "defaultErrnoRet": errno.EPERM, "syscalls": [*rules, clone, clone3]}


def check_refusals(image: str, tokens: Sequence[str]) -> None:
    """Where a wall cannot stand nothing runs, and the reason is told."""
    default = once(image, "code", "runner", more=tokens, without="--security-opt=seccomp")
    why = default.stderr.strip().splitlines()[-1:]
    refused = default.returncode == NO_CHILD and "no route to a sandbox" in default.stderr
    holds("with the engine's own seccomp profile no runner starts, and it says why", refused, *why)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(without_namespaces(), file)
        file.flush()
        likewise = once(
            image,
            "code",
            "runner",
            more=[*tokens, f"--security-opt=seccomp={file.name}"],
            without="--security-opt=seccomp",
        )
    refused = likewise.returncode == NO_CHILD and "No permissions to creat" in likewise.stderr
    holds(
        "nor with one that refuses namespaces and mounts, as Docker's own does",
        refused,
        f"status {likewise.returncode}",
    )
    for name in ("SETUID", "SETGID", "CHOWN", "KILL"):
        less = once(image, "code", "selftest", without=f"--cap-add={name}")
        holds(f"without CAP_{name} the self test does not pass", less.returncode != 0, f"status {less.returncode}")


def check_self_test(image: str) -> None:
    """The containment programs with their negative controls, and what doctor sees."""
    tried = once(image, "code", "selftest", "--json")
    report = json.loads(tried.stdout)
    told = Counter(one["outcome"] for one in report["trials"])
    holds("fumehood code selftest", tried.returncode == 0 and set(told) == {"held"}, dict(told))
    print("     " + ", ".join(f"{name} {state}" for name, state in report["containment"].items()))
    # Also as an ordinary user without any capability: there a child has its uid, in a user namespace of its own.
    place = "--tmpfs=/run/fumehood:rw,nosuid,nodev,noexec,size=64m,mode=1777"
    plain = [word for word in options() if not word.startswith(("--cap-add", "--tmpfs"))]
    words = ["run", "--rm", "--network=none", *plain, place, "--user=10001:10001", image, "code", "selftest"]
    user = engine(*words, check=False)
    holds("also as user 10001 without capabilities", user.returncode == 0, user.stdout.strip())


def check_client(box: Container) -> None:
    """Allowed, denied, enforced: over a real WebSocket."""
    numbers = [20, 22]
    first, sums, calls, fetch, loop, thrown = box.runs(
        [
            {"code": "return 1"},
            {
                "code": "console.log('hello'); return input.reduce((a: number, b: number) => a + b, 0)",
                "input": [20, 22],
            },
            {"code": "return (await tools.x({n: 1})).text", "tools": ["x"]},
            {"code": "return await fetch('http://127.0.0.1:8777/healthz')"},
            {"code": "while (true) {}", "limits": LIMITS | {"cpu_seconds": 1}},
            {"code": "throw new TypeError('on purpose')"},
        ],
        at_once=1,
    )
    holds("a program runs", first["last"]["result"]["value"] == 1, f"{first['seconds'] * 1000:.0f} ms")
    holds(
        "its value and its console", sums["last"]["result"]["value"] == sum(numbers) and sums["last"]["result"]["logs"]
    )
    holds("its calls reach the client alone", calls["calls"] == [["run", ["x", {"n": 1}]]])
    holds("fetch comes back as NotCapable", fetch["last"]["result"]["error"]["name"] == "NotCapable")
    holds("a loop ends at its deadline", loop["last"]["result"]["state"] == "timeout_cpu")
    holds("what it throws is a result", thrown["last"]["result"]["state"] == "user_error")
    refused = box.runs([{"code": "return 1"}], token="x" * 43)[0]["last"]
    holds("another token is refused", (refused["type"], refused["code"]) == ("refused", "bad_token"))
    again = box.runs([{"code": "return 1"}] * REPEATED, at_once=1)
    print(f"     return 1, socket and all: median {statistics.median(one['seconds'] for one in again) * 1000:.0f} ms")
    walls = first["last"]["result"]["containment"]
    lacking = sorted(name for name, state in walls.items() if state == "unavailable")
    holds("every wall stands", not lacking, ", ".join(lacking))


@contextlib.contextmanager
def planted(box: Container, mark: str) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Files and a listener in the container; the port, and what is known of them at the end."""
    script = (HERE / "inside/plant.py").read_text(encoding="utf-8")
    words = [*ENGINE, "exec", "--interactive", box.name, PYTHON, "-I", "-c", script, CANARY, mark]
    environment = {"STORAGE_DRIVER": "vfs", **os.environ}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin and process.stdout  # noqa: PT018  # pipes, as asked for

        def end() -> list[str]:
            return process.communicate(timeout=STEP_SECONDS)[0].split()

        try:
            yield process.stdout.readline().strip(), end
        finally:
            process.kill()


def check_attempts(box: Container) -> None:
    """Every attempt of the containment tests, through the runner."""
    mark = f"mark{secrets.token_hex(8)}"
    with planted(box, mark) as (port, end):
        reached = box.python("-c", f"import socket; s = socket.create_connection(('127.0.0.1', {port})); "
                             "s.sendall(b'x'); print(s.recv(1000).decode())")  # fmt: skip
        holds("control: who is not behind walls reaches the listener", mark in reached.stdout)
        places = {
            "CANARY_URL": f"file://{CANARY}/", "CANARY_FOLDER": f"{CANARY}/", "CANARY_RELATIVE": f".{CANARY}/",
            "HARNESS_URL": "file:///harness.js", "IMPORT_MAP_URL": "file:///import_map.json", "PORT": port,
        }  # fmt: skip
        every = list(attempts())
        jobs = []
        for _, _, _, program in every:
            for name, place in places.items():
                program = program.replace(f"@{name}@", place)  # noqa: PLW2901  # filled in, step by step
            jobs.append({"code": program, "input": {"a": 1}, "tools": TOOLS, "limits": LIMITS})
        told = box.runs(jobs)
        visits, *left = end()
    states = Counter(one["last"]["result"]["state"] for one in told)
    leaked = [name for (name, *_), one in zip(every, told, strict=True) if mark in json.dumps(one)]
    holds(f"{len(told)} attempts: none has the mark", not leaked, ", ".join(leaked) or dict(states))
    holds("none reached the listener, none wrote", (visits, left) == ("1", PLANTED), f"visits {visits}, files {left}")
    wrong = [
        f"{name}: {one['last']['result']['state']}"
        for (name, kind, wanted, _), one in zip(every, told, strict=True)
        if kind in GREEDY and one["last"]["result"]["state"] not in {*wanted, *ENDED}
    ]
    holds("what takes too much ends in its state, is refused, or ends at a deadline", not wrong, "; ".join(wrong))
    called = {call[1][0] for one in told for call in one["calls"] if call[0] == "run"}
    holds("no tool was called that was not allowed", called <= set(TOOLS))


def check_left(box: Container) -> None:
    """Nothing of any run is left, and the end is orderly."""
    health = box.settled()
    processes = box.processes()
    children = [line for line in processes if line.startswith("/deno ")]
    holds("no program runs, and only children that wait are there", len(children) == health["warm"], health)
    holds(
        "nor a zombie",
        not any("defunct" in line or line.startswith("[") for line in processes),
        f"{len(processes)} processes",
    )
    engine("stop", "--time=40", box.name)
    status = engine("inspect", "--format={{.State.ExitCode}}", box.name).stdout.strip()
    holds("SIGTERM ends it with status 0", status == "0", status)


def main(image: str) -> int:
    """Every check, until one fails."""
    missing = [
        name for name in ("podman", "runc") if shutil.which(name, path=f"{os.environ.get('PATH')}:/usr/sbin") is None
    ]
    if missing:
        print(f"missing: run  sudo apt-get update && sudo apt-get install -y {' '.join(missing)}", file=sys.stderr)
        return NO_CHILD
    if engine("image", "exists", image, check=False).returncode:
        print(f"there is no {image}: run  make image", file=sys.stderr)
        return NO_CHILD
    with tempfile.TemporaryDirectory(prefix="fumehood-image-") as folder:
        box, token = None, secrets.token_urlsafe(32)
        tokens = mounted(Path(folder), token)
        try:
            check_refusals(image, tokens)
            check_self_test(image)
            box = Container(image, token, tokens)
            box.settled()
            print(f"     ready after {box.start_seconds:.1f} s, {box.memory()} with {WARM} children that wait")
            found = box.inside("look.py")
            holds("all of it is root's, read-only, without shell or set-id program", not any(found.values()), found)
            check_client(box)
            check_attempts(box)
            check_left(box)
        except FailedError as error:
            print(f"FAILED: {error}", file=sys.stderr)
            if box is not None:
                print(engine("logs", box.name, check=False).stderr[-4000:], file=sys.stderr)
            return 1
        finally:
            if box is not None:
                engine("rm", "--force", box.name, check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2] or (IMAGE,)))
