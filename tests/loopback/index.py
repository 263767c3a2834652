"""A Python index on loopback: wheels that a test publishes, as JSON (PEP 691) or as HTML (PEP 503).

Addresses of files are relative, so that a client which knows the index by another name finds them there too.
"""

import hashlib
import html
import json
import re
from dataclasses import dataclass, field
from typing import Any

from loopback.server import LoopbackServer, Request, Response
from loopback.wheels import Wheel, pack

JSON = "application/vnd.pypi.simple.v1+json"


@dataclass
class _Project:
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)


class LoopbackIndex(LoopbackServer):
    """Serves what was published to it. Use it with `with`."""

    def __init__(self, *, api: str = "1.3", html_only: bool = False) -> None:
        super().__init__()
        self._projects: dict[str, _Project] = {}
        self._api = api
        self._html = html_only
        self.status = 200  # of every page
        self.provenance: dict[str, Any] = {}

    def publish(self, wheel: Wheel, *, body: bytes | None = None, **said: Any) -> None:
        """Serve a wheel. `said` replaces what its page says of it; `body` what is served under its name."""
        packed = pack(wheel)
        sha256 = {"sha256": hashlib.sha256(packed).hexdigest()}
        metadata = wheel.metadata.encode()
        project = self._project(wheel.name)
        project.bodies |= {wheel.filename: packed if body is None else body, f"{wheel.filename}.metadata": metadata}
        project.files[wheel.filename] = {
            "filename": wheel.filename,
            "url": f"../../files/{normal(wheel.name)}/{wheel.filename}",
            "hashes": sha256,
            "requires-python": wheel.python,
            "core-metadata": {"sha256": hashlib.sha256(metadata).hexdigest()},
            "upload-time": "2026-01-31T12:00:00.000000Z",
            "yanked": False,
            **said,
        }

    def publish_sources(self, name: str, version: str, body: bytes = b"sources", **said: Any) -> None:
        """Serve a source distribution; `said` replaces what its page says of it."""
        filename = f"{name.replace('-', '_')}-{version}.tar.gz"
        project = self._project(name)
        project.bodies[filename] = body
        project.files[filename] = {
            "filename": filename,
            "url": f"../../files/{normal(name)}/{filename}",
            "hashes": {"sha256": hashlib.sha256(body).hexdigest()},
            "upload-time": "2026-01-31T12:00:00.000000Z",
            "yanked": False,
            **said,
        }

    def answer(self, request: Request) -> Response:
        """A page, a file, an attestation, or a status."""
        place, _, rest = request.path.lstrip("/").partition("/")
        if place == "simple":
            return self._page(rest.strip("/"), request)
        if place == "provenance":
            return _json(self.provenance)
        project = self._projects.get(rest.partition("/")[0])
        body = project.bodies.get(rest.rpartition("/")[2]) if project and place == "files" else None
        return Response(status=404) if body is None else Response(body=body)

    def _page(self, name: str, request: Request) -> Response:
        project = self._projects.get(name)
        if self.status != 200 or project is None:
            return Response(status=self.status if self.status != 200 else 404)
        files = list(project.files.values())
        if self._html or JSON not in request.headers.get("Accept", ""):
            links = "".join(_link(file) for file in files)
            return Response(
                headers=(("Content-Type", "text/html"),), body=f"<html><body>{links}</body></html>".encode()
            )
        return _json({"meta": {"api-version": self._api}, "name": name, "files": files})

    def _project(self, name: str) -> _Project:
        return self._projects.setdefault(normal(name), _Project())


def normal(name: str) -> str:
    """The name of PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _link(file: dict[str, Any]) -> str:
    yanked = ' data-yanked=""' if file["yanked"] else ""
    python = html.escape(file.get("requires-python", ""))
    address = f"{file['url']}#sha256={file['hashes'].get('sha256', '')}"
    metadata = f' data-core-metadata="sha256={file["core-metadata"]["sha256"]}"' if "core-metadata" in file else ""
    return f'<a href="{address}" data-requires-python="{python}"{metadata}{yanked}>{file["filename"]}</a>\n'


def _json(value: Any) -> Response:
    return Response(headers=(("Content-Type", JSON),), body=json.dumps(value).encode())
