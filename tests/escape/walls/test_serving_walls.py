"""The walls of the serving process and of the child that parses, tried from inside real processes."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STANDING = """
import asyncio, errno, json, os, socket, sys, threading
from fumehood.core.sections import HttpSettings, Settings
from fumehood.sandbox import confine
from fumehood.serve import walls
root = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
outside, http, standing = sys.argv[2], sys.argv[3] == 'http', sys.argv[4] == 'walls'
tokens = sys.argv[5]
settings = Settings(http=HttpSettings(token_file=tokens))
def attempt(act):
    try:
        answer = act()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return answer if isinstance(answer, (str, int, list)) else 'OK'
listening = socket.create_server(('127.0.0.1', 0))
port = listening.getsockname()[1]
if standing:
    stood = walls.stand(root, settings, http=http)
    assert all(wall.state == 'enforced' for wall in stood), stood
def say(**what):
    print(json.dumps(what), flush=True)
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
def inside(flags=os.O_RDONLY):
    return os.close(os.open('inside.txt', flags, dir_fd=root))
"""
ACTS = """
said = {
    'read inside': attempt(inside),
    'read outside': attempt(lambda: open(outside).read()),
    'read passwd': attempt(lambda: open('/etc/passwd').close()),
    'read tokens': attempt(lambda: open(tokens).close()),
    'read /proc': attempt(lambda: os.listdir('/proc/self/fd') and None),
    'write inside': attempt(lambda: inside(os.O_WRONLY)),
    'empty inside': attempt(lambda: inside(os.O_RDONLY | os.O_TRUNC)),
    'make a file': attempt(lambda: os.close(os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=root))),
    'remove a file': attempt(lambda: os.unlink('removable', dir_fd=root)),
    'change a mode': attempt(lambda: os.chmod('inside.txt', 0o600, dir_fd=root)),
    'change times': attempt(lambda: os.utime('inside.txt', dir_fd=root)),
    'fork': attempt(fork),
    'unix socket': attempt(lambda: socket.socket(socket.AF_UNIX).close()),
    'tcp socket': attempt(lambda: socket.socket().close()),
    'signal': attempt(lambda: os.kill(os.getppid(), 0)),
    'listen': attempt(lambda: listening.listen(5)),
}
async def threads():
    return await asyncio.to_thread(lambda: 'OK')
said['threads'] = asyncio.run(threads())
import fileinput, tomllib, xml.dom
said['late import'] = 'OK'
said['execute'] = attempt(lambda: os.execv('/usr/bin/true', ['true']))
say(**said)
"""
REFUSED = {
    "read outside": "EACCES",
    "read passwd": "EACCES",
    "read tokens": "EACCES",
    "read /proc": "EACCES",
    "write inside": "EACCES",
    "empty inside": "EACCES",
    "make a file": "EACCES",
    "remove a file": "EPERM",
    "change a mode": "EPERM",
    "change times": "EPERM",
    "fork": "EPERM",
    "unix socket": "EAFNOSUPPORT",
    "tcp socket": "EAFNOSUPPORT",
    "signal": "EPERM",
    "listen": "EPERM",
    "execute": "EPERM",
}
KEPT = dict.fromkeys(("read inside", "threads", "late import"), "OK")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A workspace, a file beside it, and a token file elsewhere."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "tokens").mkdir()
    for name in ("workspace/inside.txt", "workspace/removable", "outside.txt", "tokens/tokens"):
        (tmp_path / name).write_text(name)
    return tmp_path


def run(place: Path, program: str, *, http: bool = False, walls: bool = True) -> Any:
    """What a program said that stood behind the walls, or did the same without them."""
    words = [str(place / "workspace"), str(place / "outside.txt"), "http" if http else "stdio"]
    words += ["walls" if walls else "none", str(place / "tokens" / "tokens")]
    argv = [sys.executable, "-c", STANDING + program, *words]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout) if done.stdout else None


@pytest.mark.threat("T1")
@pytest.mark.threat("T14")
def test_over_stdio_nothing_stays_but_reading_inside_and_computing(place: Path) -> None:
    assert run(place, ACTS) == REFUSED | KEPT


@pytest.mark.threat("T1")
@pytest.mark.threat("T9")
def test_over_http_listening_and_the_tokens_stay_too(place: Path) -> None:
    assert run(place, ACTS, http=True) == REFUSED | KEPT | {"listen": "OK", "read tokens": "OK"}


def test_without_the_walls_every_act_works(place: Path) -> None:
    """The negative control of all of them at once; the last act becomes another program, so it is left out."""
    harmless = ACTS.replace("os.execv('/usr/bin/true', ['true'])", "'OK'")
    said = run(place, harmless, walls=False)
    assert said == dict.fromkeys([*REFUSED, *KEPT], "OK") | {
        "read outside": "outside.txt",
        "read tokens": "OK",
        "execute": "OK",
    }
    assert run(place, ACTS, walls=False) is None  # it became /usr/bin/true


def test_a_connection_is_accepted_over_http_and_refused_over_stdio(place: Path) -> None:
    accepting = """
print(port, flush=True)
listening.settimeout(10)
print(json.dumps(attempt(lambda: listening.accept() and None)), flush=True)
"""
    for http, expected in ((True, "OK"), (False, "EPERM")):
        words = [str(place / "workspace"), "/x", "http" if http else "stdio", "walls", str(place / "tokens" / "tokens")]
        argv = [sys.executable, "-c", STANDING + accepting, *words]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            with socket.create_connection(("127.0.0.1", port)):
                assert json.loads(server.stdout.readline()) == expected
            server.wait(20)


def test_nothing_is_put_up_while_a_second_thread_runs(place: Path) -> None:
    program = """
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
try:
    walls.stand(root, settings, http=http)
except confine.ThreadsError as error:
    said = str(error)
done.set()
thread.join()
say(said=said, outside=attempt(lambda: open(outside).read()))
walls.stand(root, settings, http=http)
say(outside=attempt(lambda: open(outside).read()))
"""
    argv = [sys.executable, "-c", STANDING + program, str(place / "workspace"), str(place / "outside.txt")]
    done = subprocess.run([*argv, "stdio", "none", "/srv/tokens"], capture_output=True, timeout=60, check=True, cwd="/")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"said": "2 threads run; walls are put up while there is one", "outside": "outside.txt"}
    assert second == {"outside": "EACCES"}


def test_no_other_process_of_the_user_reads_its_memory(place: Path) -> None:
    program = "import ctypes\nsay(dumpable=ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    assert run(place, program) == {"dumpable": 0}
    assert run(place, program, walls=False) == {"dumpable": 1}


PARSING = """
import ctypes, errno, json, os, signal, socket, sys
from fumehood.sandbox import confine, landlock
from fumehood.sandbox.spec import Profile
standing = sys.argv[2] == 'walls'
def attempt(act):
    try:
        answer = act()
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return answer if isinstance(answer, (str, int, list)) else 'OK'
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
def acts():
    return {
        'read': attempt(lambda: open(sys.argv[1]).read()),
        'socket': attempt(lambda: socket.socket(socket.AF_UNIX).close()),
        'pair': attempt(lambda: [one.close() for one in socket.socketpair()] and None),
        'fork': attempt(fork),
        'mode': attempt(lambda: os.chmod(sys.argv[1], 0o600)),
        'working folder': attempt(lambda: os.chdir('/')),
        'execute': attempt(lambda: os.execv('/usr/bin/true', ['true'])) if standing else 'OK',
        'compute': sum(len(str(n)) for n in range(200_000)) and 'OK',
    }
if standing:
    stood = confine.confine(confine.Walls(ruleset=landlock.NOTHING, profile=Profile.ZYGOTE))
    assert all(wall.state == 'enforced' for wall in stood), stood
zygote = acts()
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    if standing:
        wall = confine.filter_calls(Profile.WORKER)
        assert wall.state == 'enforced', wall
    theirs.sendall(json.dumps(acts()).encode())
    os._exit(0)
theirs.close()
worker = json.loads(ours.recv(65536))
_, status = os.waitpid(pid, 0)
print(json.dumps([zygote, worker, os.waitstatus_to_exitcode(status)]), flush=True)
"""


def parsing(place: Path, *, walls: bool) -> Any:
    argv = [sys.executable, "-c", PARSING, str(place / "outside.txt"), "walls" if walls else "none"]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.threat("T14")
def test_the_child_that_parses_forks_and_its_worker_only_computes(place: Path) -> None:
    zygote, worker, status = parsing(place, walls=True)
    refused = dict.fromkeys(("read", "socket", "mode", "working folder", "execute"), "EPERM")
    assert zygote == refused | {"pair": "OK", "fork": "OK", "compute": "OK"}
    assert worker == refused | {"pair": "EPERM", "fork": "EPERM", "compute": "OK"}
    assert status == 0
    without = dict.fromkeys(zygote, "OK") | {"read": "outside.txt"}
    assert parsing(place, walls=False) == [without, without, 0]


def test_a_signal_from_behind_the_walls_reaches_nobody_outside_and_from_outside_it_does(place: Path) -> None:
    waiting = "say(ready=True)\nthreading.Event().wait(60)"
    words = [str(place / "workspace"), "/x", "stdio", "walls", str(place / "tokens" / "tokens")]
    with subprocess.Popen([sys.executable, "-c", STANDING + waiting, *words], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline()) == {"ready": True}
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(20) == -signal.SIGTERM
