"""Whether a registry offers an attestation for an npm package, read from what npm itself was answered. Pure.

While it writes the lock, npm keeps the registry's answer in its cache: so nothing is asked a second time, and what is
told here is what the lock was made from. Source: the layout of `cacache` (index-v5, content-v2) and the registry's
documentation of `dist.signatures` and `dist.attestations`. Every byte is the registry's: bounded, and never believed.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable

from fumehood.core import jsonio
from fumehood.review.result import Attestation

INDEX_BYTES = 256 * 1024
PACKUMENT_BYTES = 32 * 1024 * 1024  # the largest in the field, of thousands of versions, has some 20 MiB
_PREFIX = "make-fetch-happen:request-cache:"
_SHA512 = re.compile(r"sha512-([A-Za-z0-9+/]{86}==)")
_TYPE = re.compile(r"[\x21-\x7e]{1,200}")

Read = Callable[[str, int], bytes | None]  # a file of npm's cache, below `_cacache`, of at most so many bytes


def attestation(read: Read, registry: str, name: str, version: str) -> Attestation:
    """What the registry's answer says of one version. `registry`: its URL as npm was given it, with a slash."""
    packument = _packument(read, f"{registry}{name.replace('/', '%2f')}")
    versions = packument.get("versions") if isinstance(packument, dict) else None
    manifest = versions.get(version) if isinstance(versions, dict) else None
    dist = manifest.get("dist") if isinstance(manifest, dict) else None
    if not isinstance(dist, dict):
        return Attestation(state="unknown", why="the registry's answer was not found in npm's cache")
    offered = dist.get("attestations")
    if isinstance(offered, dict):
        provenance = offered.get("provenance")
        kind = provenance.get("predicateType") if isinstance(provenance, dict) else None
        types = (kind,) if isinstance(kind, str) and _TYPE.fullmatch(kind) else ()
        return Attestation(state="present", predicate_types=types, why="its signature was not verified")
    if dist.get("signatures"):
        return Attestation(state="absent", why="the registry names none for this version")
    why = "the registry's answer has neither signatures nor attestations: a mirror may leave them out"
    return Attestation(state="unknown", why=why)


def _packument(read: Read, url: str) -> object:
    """The registry's answer for one address, or None."""
    digest = hashlib.sha256(f"{_PREFIX}{url}".encode()).hexdigest()
    index = read(f"index-v5/{digest[:2]}/{digest[2:4]}/{digest[4:]}", INDEX_BYTES)
    for line in reversed((index or b"").splitlines()):
        content = _content(line, f"{_PREFIX}{url}")
        if content is not None:
            data = read(content, PACKUMENT_BYTES)
            try:
                return None if data is None else jsonio.parse(data, size=PACKUMENT_BYTES)
            except jsonio.JsonError:
                return None
    return None


def _content(line: bytes, key: str) -> str | None:
    """Where one line of the index says that the content is; None where it is no line of this key."""
    try:
        entry = json.loads(line.partition(b"\t")[2])
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("key") != key:
        return None
    found = _SHA512.fullmatch(str(entry.get("integrity")))
    if found is None:
        return None
    try:
        digest = base64.b64decode(found[1], validate=True).hex()
    except binascii.Error:
        return None
    return f"content-v2/sha512/{digest[:2]}/{digest[2:4]}/{digest[4:]}"
