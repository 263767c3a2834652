"""Asks a Python index for one project, and prints what it says of one version, as JSON: confined, before the lock.

Runs inside a sandbox that reaches the index alone, as `python3 -I -S -c TEXT INDEX NAME VERSION`, with the standard
library and nothing else. What it prints is the index's word in a shorter form, and is read as such: by nobody who
trusts it. JSON (PEP 691) or HTML (PEP 503), whichever the index answers with.

Bounds: a page of 32 MiB, 64 files, an attestation of 1 MiB.
"""

import base64
import html.parser
import http.client
import json
import re
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

PAGE_BYTES = 32 * 1024 * 1024  # the largest pages of the public index are a tenth of this
PROVENANCE_BYTES = 1024 * 1024
SECONDS = 20
FILES = 64
TYPES = 8
URL = 1000  # characters; the public index has some 150
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_BAD = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, http.client.HTTPException)
ENDINGS = (".whl", ".tar.gz", ".zip", ".tar.bz2", ".tgz")


class Links(html.parser.HTMLParser):
    """The anchors of a page of PEP 503."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__()
        self.files: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an anchor says."""
        said = dict(attrs)
        if tag == "a" and (link := said.get("href")):
            url, _, fragment = link.partition("#")
            filename = urllib.parse.unquote(url.rpartition("/")[2])
            digest = fragment[7:] if fragment.startswith("sha256=") else None
            file: dict[str, Any] = {
                "filename": filename,
                "url": url,
                "hashes": {"sha256": digest},
                "yanked": "data-yanked" in said,
            }
            if said.get("data-provenance"):
                file["provenance"] = said["data-provenance"]
            self.files.append(file)


def get(url: str, accept: str, size: int) -> tuple[str, bytes, str]:
    """The content type and the body of an answer, and where it came from."""
    request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": "uv"})  # noqa: S310 - of the settings
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request) as answer:
        body = answer.read(size + 1)
        if len(body) > size:
            raise ValueError("too large")
        return answer.headers.get("Content-Type", ""), body, answer.geturl()


def release(text: str) -> str:
    """A version, so that 1.0 and 1.0.0 are one."""
    head, plus, local = text.lower().partition("+")
    found = re.match(r"v?((?:\d+!)?\d+(?:\.\d+)*)(.*)$", head)
    if not found:
        return text.lower()
    numbers = re.sub(r"(?:\.0+)+$", "", found.group(1))
    return numbers + found.group(2) + plus + local


def version_of(filename: str, name: str) -> str | None:
    """The version that a file's name says, or nothing where it is of another project."""
    ending = next((one for one in ENDINGS if filename.endswith(one)), None)
    if ending is None:
        return None
    stem = filename[: -len(ending)]
    if ending == ".whl":
        parts = stem.split("-")
        return parts[1] if len(parts) > 1 else None
    if len(stem) <= len(name) + 1 or re.sub(r"[-_.]+", "-", stem[: len(name)]).lower() != name:
        return None
    return stem[len(name) + 1 :]


def origin(url: str) -> list[Any]:
    """Scheme, host and port of an address."""
    parts = urllib.parse.urlsplit(url)
    return [parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)]


def predicates(url: str, index: str) -> list[str]:
    """The types of the statements behind an attestation, where the index itself has them."""
    if origin(url) != origin(index):
        return []
    try:
        bundles = json.loads(get(url, "application/json", PROVENANCE_BYTES)[1])["attestation_bundles"]
        statements = [
            json.loads(base64.b64decode(one["envelope"]["statement"]))
            for bundle in bundles[:TYPES]
            for one in bundle["attestations"][:TYPES]
        ]
        return sorted({str(statement["predicateType"])[:200] for statement in statements})[:TYPES]
    except _BAD:
        return []


def page(index: str, name: str) -> tuple[list[Any], str, str]:
    """The files of a project as the index lists them, the API's version, and the page's own address."""
    kind, body, address = get(index + name + "/", ACCEPT, PAGE_BYTES)
    if "json" in kind:
        value = json.loads(body)
        return list(value["files"]), str(value.get("meta", {}).get("api-version", "1.0"))[:20], address
    links = Links()
    links.feed(body.decode("utf-8", "replace"))
    return links.files, "html", address


def described(file: dict[str, Any], address: str, index: str) -> dict[str, Any]:
    """One file, in the words that are handed on."""
    url = urllib.parse.urljoin(address, str(file.get("url", "")))
    hashes = file.get("hashes")
    provenance = file.get("provenance")
    said = {
        "filename": str(file.get("filename"))[:300],
        "sha256": hashes.get("sha256") if isinstance(hashes, dict) else None,
        "yanked": bool(file.get("yanked", False)),
        "uploaded": str(file["upload-time"])[:40] if file.get("upload-time") else None,
        "origin": origin(url),
        "url": url if len(url) <= URL else "",
        "attested": bool(provenance),
    }
    if provenance:
        said["predicate_types"] = predicates(urllib.parse.urljoin(address, str(provenance)), index)
    return said


def main(index: str, name: str, version: str) -> None:
    """Print what the index says. The status is 0 whatever it says, so that a failure of ours is another one."""
    try:
        files, api, address = page(index, name)
        wanted = [f for f in files if isinstance(f, dict) and _is_of(str(f.get("filename", "")), name, version)]
        told = [described(file, address, index) for file in wanted[:FILES]]
        said = {"status": 200, "api": api, "files": told, "more": max(0, len(wanted) - FILES)}
    except urllib.error.HTTPError as error:
        said = {"status": error.code}
    except urllib.error.URLError as error:
        said = {"status": 0, "why": type(error.reason).__name__}
    except _BAD as error:
        said = {"status": 0, "why": type(error).__name__}
    sys.stdout.write(json.dumps(said))


def _is_of(filename: str, name: str, version: str) -> bool:
    found = version_of(filename, name)
    return found is not None and release(found.replace("_", "-")) == release(version.replace("_", "-"))


if __name__ == "__main__":
    socket.setdefaulttimeout(SECONDS)  # of this whole process, and of no one that imports it
    main(*sys.argv[1:4])
