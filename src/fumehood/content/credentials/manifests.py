"""Values of Kubernetes' Secret manifests, whatever they are called. Pure.

Source: Kubernetes' API, Secret v1: `data` holds Base64, `stringData` plain text; in YAML both are mappings of names.
"""

import re
from collections.abc import Iterator

from fumehood.content.credentials.model import Span

KEYWORDS = (b"kind: secret",)

_BEFORE_BYTES = 2048  # `kind` may stand behind `data`, as `kubectl get` prints it
_MANIFEST_BYTES = 16 * 1024  # behind `kind`; a manifest with two certificates is 8 KiB
_KIND = re.compile(rb"(?m)^kind: Secret[ \t]*\r?$")
_APART = re.compile(rb"(?m)^---")
_DATA = re.compile(rb"(?m)^(?:stringData|data):[ \t]*\r?\n((?:[ \t]{1,64}[^\n]{0,8192}\n?){1,256})")
_MEMBER = re.compile(rb"(?m)^[ \t]{1,64}[\w.-]{1,253}:[ \t]{1,8}([\"']?)([^\s\"'#|>{$<][^\s\"']{3,8192})\1[ \t]*\r?$")


def secret_manifests(data: bytes) -> Iterator[Span]:
    """The value of each member on one line; a block that follows `|` is judged by the other rules."""
    reached = 0
    for kind in _KIND.finditer(data):
        if kind.start() < reached:
            continue
        begin, end = _document(data, kind.start())
        reached = end
        for mapping in _DATA.finditer(data, begin, end):
            for member in _MEMBER.finditer(data, mapping.start(1), mapping.end(1)):
                yield Span(start=member.start(2), end=member.end(2), rule="kubernetes-secret")


def _document(data: bytes, place: int) -> tuple[int, int]:
    """Where the document begins and ends in which a place stands."""
    low = max(0, place - _BEFORE_BYTES)
    begin = max((match.end() for match in _APART.finditer(data, low, place)), default=low)
    behind = _APART.search(data, place, place + _MANIFEST_BYTES)
    return begin, behind.start() if behind else min(len(data), place + _MANIFEST_BYTES)
