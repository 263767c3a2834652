"""A git forge on loopback: smart HTTP by git's own `http-backend`, over bare repositories that a test made."""

import enum
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from loopback.repositories import Made
from loopback.server import LoopbackServer, Request, Response

BACKEND_SECONDS = 120.0
CHUNK = 64 * 1024


class Fault(enum.Enum):
    """What goes wrong with one repository."""

    SERVER_ERROR = "500"
    DROPPED = "the connection is closed without an answer"
    HANGING = "nothing is answered until the forge ends"
    ASKS_FOR_CREDENTIALS = "401"
    REDIRECTED = "301 to another repository of the same forge, elsewhere/moved"


class LoopbackForge(LoopbackServer):
    """Serves `owner/name` (with and without `.git`) from a folder. Read only. Use it with `with`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._faults: dict[str, Fault] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._configuration = folder / "gitconfig"
        self._configuration.write_text("[safe]\n\tdirectory = *\n")  # also what root serves for somebody else

    def place(self, name: str) -> Path:
        """Where the bare repository of `owner/name` has to lie."""
        return self._folder / f"{name}.git"

    def clone(self, name: str, source: Path) -> str:
        """Serve a bare clone of `source`, whoever owns it; return the id of its HEAD commit."""
        target = str(self.place(name))
        self._git("clone", "--quiet", "--bare", "--no-hardlinks", str(source), target)
        for key in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter"):
            self._git("--git-dir", target, "config", key, "true")
        return self._git("--git-dir", target, "rev-parse", "HEAD").strip()

    def _git(self, *arguments: str) -> str:
        argv, environment = ["git", *arguments], self._environment()
        return subprocess.run(
            argv, check=True, timeout=BACKEND_SECONDS, env=environment, stdout=subprocess.PIPE, text=True
        ).stdout

    def _environment(self) -> dict[str, str]:
        """Nothing of the operator's: a configuration of our own, no identity, no credential."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/nonexistent",
            "GIT_CONFIG_GLOBAL": str(self._configuration),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def serve(self, name: str, made: Made) -> str:
        """Serve a repository that a test wrote, by a link to its folder; return its commit."""
        place = self.place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(made.repository.folder, target_is_directory=True)
        return made.commit

    def break_repository(self, name: str, fault: Fault) -> None:
        """From now on, `fault` happens to every request for `owner/name`."""
        self._faults[name] = fault

    def answer(self, request: Request) -> Response:
        """Pass one request to `git http-backend`."""
        name, end = _parse(request.path)
        if (fault := self._faults.get(name)) is not None:
            return self._broken(fault, request)
        if not end or not self.place(name).is_dir():
            return Response(status=404, body=b"not found\n")
        environment = {
            **self._environment(),
            "GIT_PROJECT_ROOT": str(self._folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": f"/{name}.git{end}",
            "QUERY_STRING": request.query,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(request.body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        return _run(environment, request.body)

    def _broken(self, fault: Fault, request: Request) -> Response:
        match fault:
            case Fault.SERVER_ERROR:
                return Response(status=500, body=b"internal error\n")
            case Fault.DROPPED:
                return Response(drop=True)
            case Fault.HANGING:
                self.stopping.wait()
                return Response(drop=True)
            case Fault.ASKS_FOR_CREDENTIALS:
                return Response(status=401, headers=(("WWW-Authenticate", 'Basic realm="forge"'),))
            case Fault.REDIRECTED:
                host = request.headers.get("Host")  # a client may know us by another name
                place = f"http://{host}/elsewhere/moved.git/info/refs?{request.query}"
                return Response(status=301, headers=(("Location", place),))


def _parse(path: str) -> tuple[str, str]:
    """`/owner/name[.git]/info/refs` and `…/git-upload-pack` as name and end; no end for anything else."""
    for end in ("/info/refs", "/git-upload-pack"):
        name = path.removesuffix(end)
        if name != path and ".." not in name:
            return name.removeprefix("/").removesuffix(".git"), end
    return "", ""


def _run(environment: dict[str, str], body: bytes) -> Response:
    git = shutil.which("git", path=environment["PATH"])
    assert git is not None
    process = subprocess.Popen(
        [git, "http-backend"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(body)
    except BrokenPipeError:
        pass  # it answers without reading everything
    finally:
        process.stdin.close()
    status, headers = 200, []
    for line in iter(process.stdout.readline, b""):
        name, _, value = line.decode("latin-1").strip().partition(": ")
        if not name:
            break
        if name == "Status":
            status = int(value.split()[0])
        else:
            headers.append((name, value))
    return Response(status=status, headers=tuple(headers), body=_stream(process))


def _stream(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """The rest of its output; whoever stops reading ends the process."""
    assert process.stdout is not None
    try:
        while part := process.stdout.read1(CHUNK):  # type: ignore[attr-defined]  # a BufferedReader has it
            yield part
    finally:
        process.stdout.close()
        process.kill()
        process.wait(BACKEND_SECONDS)
