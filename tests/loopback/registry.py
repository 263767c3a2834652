"""An npm registry on loopback: packages that a test publishes, and, when it has an upstream, those fetched once.

Tarball addresses are written with the Host that the request named, so that a client which knows the registry by
another name (a synthetic host inside a sandbox) finds its tarballs there too.
"""

import enum
import json
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

from loopback.packages import Package, manifest_of, pack
from loopback.server import LoopbackServer, Request, Response
from loopback.upstream import CORGI, PLACEHOLDER, AnsweredError, UnreachableError, Upstream


class Fault(enum.Enum):
    """What goes wrong with one package."""

    NOT_FOUND = "404"
    SERVER_ERROR = "500"
    DROPPED = "the connection is closed without an answer"
    HANGING = "nothing is answered until the registry ends"
    CUT_TARBALL = "the tarball ends half-way"
    NOT_JSON = "the packument is a page of HTML"


@dataclass
class _Published:
    versions: dict[str, Package] = field(default_factory=dict)
    tarballs: dict[str, bytes] = field(default_factory=dict)
    integrity: dict[str, str] = field(default_factory=dict)  # version → a wrong one


class LoopbackRegistry(LoopbackServer):
    """Serves what was published to it, then what its upstream has. Use it with `with`."""

    def __init__(self, upstream: Upstream | None = None) -> None:
        super().__init__()
        self._upstream = upstream
        self._published: dict[str, _Published] = {}
        self._faults: dict[str, Fault] = {}
        self.unreachable: list[str] = []  # packages that the upstream did not answer for

    def publish(self, package: Package, *, integrity: str | None = None, tarball: bytes | None = None) -> None:
        """Serve one version. `integrity` replaces the true one; `tarball` replaces the packed files."""
        entry = self._published.setdefault(package.name, _Published())
        entry.versions[package.version] = package
        entry.tarballs[package.tarball_name] = tarball if tarball is not None else pack(package)
        if integrity is not None:
            entry.integrity[package.version] = integrity

    def break_package(self, name: str, fault: Fault) -> None:
        """From now on, `fault` happens to every request for `name`."""
        self._faults[name] = fault

    def warm(self, name: str, version: str) -> None:
        """Have a packument of `name` that lists `version`; raises UnreachableError and AnsweredError."""
        assert self._upstream is not None
        if not self._upstream.has(name, version):
            self._upstream.packument(name, corgi=True, fresh=True)

    def answer(self, request: Request) -> Response:
        """A packument, a tarball, or a status with a JSON error."""
        name, file = _parse(request.path)
        if request.method != "GET" or not name or name.startswith("-/"):
            return _error(404, "not served here")
        fault = self._faults.get(name)
        broken = None if fault is None else self._broken(fault, file)
        return broken or self._found(name, file, request)

    def _broken(self, fault: Fault, file: str | None) -> Response | None:
        match fault:
            case Fault.NOT_FOUND:
                return _error(404, "not found")
            case Fault.SERVER_ERROR:
                return _error(500, "internal error")
            case Fault.DROPPED:
                return Response(drop=True)
            case Fault.HANGING:
                self.stopping.wait()
                return Response(drop=True)
            case Fault.NOT_JSON:
                return Response(body=b"<html>log in first</html>") if file is None else None
            case Fault.CUT_TARBALL:
                return None

    def _found(self, name: str, file: str | None, request: Request) -> Response:
        try:
            return self._packument(name, request) if file is None else self._tarball(name, file)
        except AnsweredError as error:
            return _error(error.status, "the operator's registry says so")
        except UnreachableError as error:
            self.unreachable.append(name)
            return _error(504, str(error))

    def _packument(self, name: str, request: Request) -> Response:
        base = f"http://{request.headers.get('Host', '127.0.0.1')}"
        corgi = CORGI in request.headers.get("Accept", "")
        if (entry := self._published.get(name)) is not None:
            body = json.dumps(_document(name, entry, base)).encode()
        elif self._upstream is not None:
            body = self._upstream.packument(name, corgi=corgi).replace(PLACEHOLDER.encode(), base.encode())
        else:
            return _error(404, "not found")
        kind = CORGI if corgi else "application/json"
        return Response(headers=(("Content-Type", kind), *_CACHEABLE), body=body)

    def _tarball(self, name: str, file: str) -> Response:
        if (entry := self._published.get(name)) is not None and file in entry.tarballs:
            body = entry.tarballs[file]
        elif self._upstream is not None:
            body = self._upstream.tarball(name, file)
        else:
            return _error(404, "not found")
        if self._faults.get(name) is Fault.CUT_TARBALL:
            body = body[: len(body) // 2]
        return Response(headers=(("Content-Type", "application/octet-stream"), *_CACHEABLE), body=body)


_CACHEABLE = (("Cache-Control", "public, max-age=300"),)  # as the public registry says


def _parse(path: str) -> tuple[str, str | None]:
    """`/name`, `/@scope%2fname` and `/@scope/name/-/file.tgz` as name and file."""
    name, found, file = urllib.parse.unquote(path).lstrip("/").partition("/-/")
    return name, file if found else None


def _document(name: str, entry: _Published, base: str) -> dict[str, Any]:
    versions = {
        version: manifest_of(
            package, entry.tarballs[package.tarball_name], integrity=entry.integrity.get(version), base=base
        )
        for version, package in entry.versions.items()
    }
    return {"name": name, "dist-tags": {"latest": list(versions)[-1]}, "versions": versions}


def _error(status: int, message: str) -> Response:
    body = json.dumps({"error": message}).encode()
    return Response(status=status, headers=(("Content-Type", "application/json"),), body=body)
