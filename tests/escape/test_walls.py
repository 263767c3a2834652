"""Every wall, with the act that it stops and the same act without it."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fumehood.core.limits import MIB
from fumehood.sandbox import bubblewrap, lineage
from fumehood.sandbox.containment import WALLS, WallState
from fumehood.sandbox.spec import End, ProcessLimits, Route

pytestmark = pytest.mark.sandbox
Lab = Any


@pytest.mark.threat("R2")
def test_nothing_of_our_environment_is_anywhere_inside(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "RUNNER_TEMP", "PLANTED_HERE"):
        monkeypatch.setenv(name, "planted-secret-value")
    program = """
seen = b''
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('environ', 'cmdline'):
        try: seen += open(f'/proc/{pid}/{name}', 'rb').read()
        except OSError as error: pass
own = open('/proc/self/environ').read().split('\\0')[:-1]
say(own=dict(pair.split('=', 1) for pair in own), planted=(b'planted-' + b'secret') in seen,
    ours=(b'/home/' + b'mira') in seen)
"""
    said = lab.run(program).said
    assert said["own"] == {"PATH": "/usr/bin:/bin", "HOME": "/home/mira", "PWD": "/home/mira/notes"}
    assert not said["planted"]
    assert said["ours"]  # the search itself is not blind


@pytest.mark.threat("R2")
def test_no_command_line_inside_names_a_folder_of_the_host(lab: Lab) -> None:
    program = "say(words=[open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()])"
    words = " ".join(lab.run(program).said["words"]).replace(str(lab.host.tools["bwrap"].path), "")
    assert str(lab.host.run_root) not in words
    assert "--setenv" not in words


def test_no_descriptor_but_the_three_is_open(lab: Lab) -> None:
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_inheritable(descriptor, True)  # noqa: FBT003  # positional only
    try:
        said = lab.run(
            "say(fds=sorted(os.readlink(f'/proc/self/fd/{n}')[:5] for n in os.listdir('/proc/self/fd')[:-1]))"
        ).said
    finally:
        os.close(reading)
        os.close(writing)
    assert said["fds"] == ["pipe:"] * 3


@pytest.fixture
def loopback_port() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_greet, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]


def _greet(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.sendall(b"reached")


@pytest.mark.threat("R3")
def test_a_loopback_service_and_an_abstract_socket_of_the_host_are_out_of_reach(lab: Lab, loopback_port: int) -> None:
    name = f"\0fumehood-test-{os.getpid()}"
    program = f"""
def tcp(): socket.create_connection(('127.0.0.1', {loopback_port}), 5).close()
def abstract():
    with socket.socket(socket.AF_UNIX) as s: s.connect({name!r})
say(tcp=attempt(tcp), abstract=attempt(abstract))
"""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        held = lab.run(program).said
        without = lab.run(program, without=("network_namespace",)).said
    assert held == {"tcp": "ECONNREFUSED", "abstract": "ECONNREFUSED"}
    assert without == {"tcp": "OK", "abstract": "OK"}


@pytest.mark.threat("R2")
def test_files_of_the_host_are_neither_read_nor_written(lab: Lab, host: Any) -> None:
    secret = host.run_root.parent / f"fumehood-secret-{os.getpid()}"
    secret.write_text("secret")
    secret.chmod(0o666)
    program = f"""
def read(): open(sys.argv[-1] if 0 else {str(secret)!r}).read()
def read_beside(): open('/host' + {str(secret)!r}).read()
say(read=attempt(read), beside=attempt(read_beside), shadow=attempt(lambda: open('/etc/shadow').read()))
"""
    try:
        held = lab.run(program).said
        without = lab.run(program, without=("mount_namespace",)).said
    finally:
        secret.unlink()
    assert held == {"read": "ENOENT", "beside": "ENOENT", "shadow": "ENOENT"}
    assert without["beside"] == "OK"


@pytest.mark.threat("R2")
def test_only_the_layer_and_shm_can_be_written(lab: Lab) -> None:
    program = """
places = ['/', '/usr', '/usr/bin', '/etc', '/etc/ssl', '/dev', '/opt', '/proc', '/proc/sys/kernel', '/sys', '/run',
          '/var', '/tmp', '/home/mira', '/home/mira/notes', '/dev/shm']
def write(place):
    with open(place + '/mark', 'w') as f: f.write('here')
say(**{place: attempt(lambda: write(place)) for place in places})
"""
    outcome = lab.run(program)
    written = {place for place, answer in outcome.said.items() if answer == "OK"}
    assert written == {"/var", "/tmp", "/home/mira", "/home/mira/notes", "/dev/shm"}
    assert set(outcome.upper) == {"mark", "tmp/mark", "home/mira/mark", "home/mira/notes/mark"}


@pytest.mark.threat("R2")
@pytest.mark.threat("R4")
def test_nobody_writes_into_the_memory_of_the_process_that_builds_the_sandbox(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
ways = ['/proc/1/mem', '/proc/1/task/1/mem', '/proc/1/root/proc/1/mem', '/proc/self/root/proc/1/mem', '/proc/1/exe']
told = {name: open('/proc/1/' + name).read() for name in os.listdir('/proc/1') if name in ('cmdline', 'comm')}
say(told=told, ways=[attempt(lambda: os.close(os.open(way, os.O_RDWR))) for way in ways],
    planted=attempt(lambda: os.mkdir('/proc/1/task')))
"""
    held = lab.run(program).said
    assert held == {
        "told": {"cmdline": "/sbin/init\0", "comm": "init\n"},
        "ways": ["ENOENT"] * 5,
        "planted": "EROFS",
    }
    if lab.route is not Route.ROOT:  # there pid 1 is root's, and the target is not
        monkeypatch.setattr(bubblewrap, "_INIT", "/opt/elsewhere")
        assert lab.run(program).said["ways"][:2] == ["OK", "OK"]


@pytest.mark.threat("R2")
def test_processes_of_the_host_are_not_seen(lab: Lab) -> None:
    program = "say(pids=sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))"
    assert len(lab.run(program).said["pids"]) == 2
    assert os.getpid() in lab.run(program, without=("pid_namespace",)).said["pids"]


def test_no_capability_and_no_new_privilege(lab: Lab) -> None:
    program = """
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
names = ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Uid', 'Groups')
say(**{name: status[name].split() for name in names})
"""
    said = lab.run(program).said
    assert [said[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [["0" * 16]] * 5
    assert said["NoNewPrivs"] == ["1"]
    assert said["Seccomp"] == ["2"]
    assert said["Uid"] != ["0"] * 4
    assert lab.run(program, without=("seccomp",)).said["Seccomp"] == ["0"]


@pytest.mark.threat("R2")
def test_the_child_believes_to_be_who_it_was_told(lab: Lab) -> None:
    program = """
import pwd
me = pwd.getpwuid(os.getuid())
say(user=me.pw_name, home=me.pw_dir, host=socket.gethostname(), cwd=os.getcwd(),
    resolv=open('/etc/resolv.conf').read().split()[:2], own=socket.gethostbyname(socket.gethostname()))
"""
    assert lab.run(program).said == {
        "user": "mira",
        "home": "/home/mira",
        "host": "birch-7",
        "cwd": "/var/home/mira/notes",
        "resolv": ["nameserver", "127.0.0.1"],
        "own": "127.0.0.1",
    }


LIMITED: dict[str, tuple[str, ProcessLimits, Callable[[Any], bool]]] = {
    "processes": (
        """
answers = []
for _ in range(60):
    try: child = os.fork()
    except OSError as error: answers.append(errno.errorcode[error.errno]); continue
    if child == 0: signal.pause()
    answers.append('OK')
say(refused=answers.count('EAGAIN'))
""",
        ProcessLimits(processes=30),
        lambda outcome: outcome.said["refused"] >= 30,
    ),
    "open_files": (
        "say(refused=[attempt(lambda: os.dup(0)) for _ in range(100)].count('EMFILE'))",
        ProcessLimits(open_files=40),
        lambda outcome: outcome.said["refused"] >= 60,
    ),
    "file_size": (
        "open('big', 'wb').write(b'x' * (4 << 20)); say(done=1)",
        ProcessLimits(file_bytes=1 * MIB),
        lambda outcome: outcome.exit.signal == 25 or b"File too large" in outcome.stderr.data,
    ),
    "cpu_time": (
        "while time.process_time() < 1.5: pass\nsay(done=1)",
        ProcessLimits(cpu_seconds=1),
        lambda outcome: outcome.exit.signal in {9, 24},
    ),
    "memory": (
        "kept = [bytearray(8 << 20) for _ in range(24)]; say(done=len(kept))",
        ProcessLimits(memory_bytes=96 * MIB),
        # Without a cgroup RLIMIT_DATA refuses the memory, and the program may end before the poll sees it.
        lambda outcome: outcome.exit.end is End.MEMORY or b"MemoryError" in outcome.stderr.data,
    ),
}


@pytest.mark.threat("R10")
@pytest.mark.parametrize("wall", LIMITED)
def test_a_limit_holds_and_a_larger_one_lets_the_same_act_through(lab: Lab, wall: str) -> None:
    program, limits, broken = LIMITED[wall]
    held = lab.run(program, limits=limits)
    assert broken(held), (held.exit, held.stderr.data)
    assert held.state(wall) is WallState.ENFORCED
    free = lab.run(program)
    assert free.exit.end is End.EXITED
    assert not broken(free)


@pytest.mark.threat("R10")
def test_a_limit_cannot_be_raised_from_inside(lab: Lab) -> None:
    program = """
import resource
names = ('NOFILE', 'NPROC', 'FSIZE', 'CPU', 'CORE')
def up(name): resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (resource.RLIM_INFINITY,) * 2)
def outcome(name):
    try: up(name)
    except (ValueError, OSError): return 'refused'
    return 'raised'
say(**{name: outcome(name) for name in names})
"""
    assert set(lab.run(program).said.values()) == {"refused"}


@pytest.mark.threat("R10")
def test_memory_of_a_tree_counts_together(lab: Lab) -> None:
    program = """
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(24 << 20)
        signal.pause()
signal.pause()
"""
    outcome = lab.run(program, limits=ProcessLimits(memory_bytes=96 * MIB), wall_seconds=30.0)
    assert outcome.exit.end is End.MEMORY


@pytest.mark.threat("R12")
def test_every_wall_is_in_the_record_once(lab: Lab) -> None:
    outcome = lab.run("say(ok=1)")
    assert sorted(wall.name for wall in outcome.containment.walls) == sorted(WALLS)
    assert outcome.containment.route == lab.route.value
    unavailable = [wall for wall in outcome.containment.walls if wall.state is WallState.UNAVAILABLE]
    assert all(wall.why for wall in unavailable)


@pytest.mark.threat("R10")
def test_a_layer_that_outgrows_its_bound_ends_the_sandbox(lab: Lab) -> None:
    program = """
for n in range(10**6):
    with open(f'file-{n}', 'wb') as f: f.write(b'x' * (1 << 20))
"""
    outcome = lab.run(program, layer_bytes=24 * MIB, wall_seconds=60.0)
    assert outcome.exit.end is End.LAYER
    assert outcome.exit.status is None


@pytest.mark.threat("R10")
def test_files_without_a_name_count_towards_the_layer(lab: Lab) -> None:
    program = """
kept = []
for n in range(400):
    f = open('gone', 'wb'); os.unlink('gone'); f.write(b'x' * (1 << 20)); f.flush(); kept.append(f)
signal.pause()
"""
    outcome = lab.run(program, layer_bytes=64 * MIB, wall_seconds=60.0)
    assert outcome.exit.end is End.LAYER


def test_an_ordinary_amount_of_writing_is_no_reason_to_end(lab: Lab) -> None:
    outcome = lab.run("open('file', 'wb').write(b'x' * (4 << 20)); time.sleep(0.4); say(ok=1)", layer_bytes=24 * MIB)
    assert outcome.exit.end is End.EXITED


def statuses() -> Iterator[dict[str, str]]:
    """What the kernel says, outside, of this process and everything below it."""
    for pid in lineage.tree(os.getpid()):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
            yield {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@pytest.mark.threat("R2")
def test_pid_1_stands_behind_the_same_walls_for_a_target_of_its_uid_may_rewrite_it(lab: Lab) -> None:
    seen: list[dict[str, str]] = []

    async def look(running: Any) -> None:
        await running.read()
        seen.extend(status for status in statuses() if status["NSpid"].split()[1:] == ["1"])

    lab.run("print('up', flush=True); signal.pause()", act=look, stdout_bytes=None)
    (init,) = seen
    assert (init["CapEff"], init["CapPrm"], init["NoNewPrivs"], init["Seccomp"]) == ("0" * 16, "0" * 16, "1", "2")


@pytest.mark.threat("R2")
def test_a_whiteout_cannot_be_forged_and_marks_of_the_overlay_stay_the_targets_own(lab: Lab) -> None:
    program = """
os.makedirs('folder/inner')
say(device=attempt(lambda: os.mknod('gone', 0o020600, 0)),
    trusted=attempt(lambda: os.setxattr('folder', 'trusted.overlay.opaque', b'y')),
    opaque=attempt(lambda: os.setxattr('folder', 'user.overlay.opaque', b'y')), still=os.listdir('folder'))
"""
    marks: list[str] = []

    async def look(running: Any) -> None:
        running.close_stdin()
        await running.wait()
        folder = running._plan.spec.overlay.upper / "home/mira/notes/folder"
        marks.extend(os.listxattr(folder))

    said = lab.run(program, act=look).said
    assert (said["device"], said["trusted"], said["still"]) == ("EPERM", "EPERM", ["inner"])
    # Older kernels refuse the mark; newer ones keep it under another name, which means nothing to them.
    assert "user.overlay.opaque" not in marks
    assert ("user.overlay.overlay.opaque" in marks) == (said["opaque"] == "OK")
