"""review.node.packument: what the registry said of an attestation, as npm kept it."""

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.node import packument

REGISTRY = "https://registry.example/npm/"
KEY = f"make-fetch-happen:request-cache:{REGISTRY}@unit%2fserver"
KIND = "https://slsa.example/provenance/v1"


def cache(dist: Any, *, key: str = KEY, content: bytes | None = None) -> packument.Read:
    """A cache as npm lays it out, with one answer."""
    body = json.dumps({"name": "@unit/server", "versions": {"1.0.0": {"dist": dist}}}).encode()
    digest = hashlib.sha512(body).digest()
    entry = json.dumps({"key": key, "integrity": f"sha512-{base64.b64encode(digest).decode()}"})
    where = hashlib.sha256(KEY.encode()).hexdigest()
    hexed = digest.hex()
    files = {
        f"index-v5/{where[:2]}/{where[2:4]}/{where[4:]}": f"\nabc\t{entry}\n\nabc\tnot json".encode(),
        f"content-v2/sha512/{hexed[:2]}/{hexed[2:4]}/{hexed[4:]}": body if content is None else content,
    }
    return lambda path, size: data if (data := files.get(path)) is None or len(data) <= size else None


@pytest.mark.parametrize(
    ("dist", "state", "types"),
    [
        ({"attestations": {"provenance": {"predicateType": KIND}}}, "present", (KIND,)),
        ({"attestations": {"url": "x"}}, "present", ()),
        ({"attestations": {"provenance": {"predicateType": "bad\ntype"}}}, "present", ()),
        ({"signatures": [{"keyid": "x"}]}, "absent", ()),
        ({"integrity": "x"}, "unknown", ()),
        (None, "unknown", ()),
        ([], "unknown", ()),
    ],
)
def test_an_attestation_is_present_absent_or_not_known(dist: Any, state: str, types: tuple[str, ...]) -> None:
    said = packument.attestation(cache(dist), REGISTRY, "@unit/server", "1.0.0")
    assert (said.state, said.predicate_types) == (state, types)
    assert said.why


def test_another_answer_no_answer_and_an_unreadable_one_are_not_known() -> None:
    signed = {"signatures": [1]}
    for read in (cache(signed, key="other"), cache(signed, content=b"<html>"), lambda *_: None):
        assert packument.attestation(read, REGISTRY, "@unit/server", "1.0.0").state == "unknown"
    assert packument.attestation(cache(signed), REGISTRY, "@unit/server", "2.0.0").state == "unknown"


@given(st.binary(max_size=200))
def test_any_bytes_in_the_cache_are_not_known(data: bytes) -> None:
    said = packument.attestation(lambda *_: b"x\t" + data, REGISTRY, "@unit/server", "1.0.0")
    assert said.state == "unknown"


@pytest.mark.parametrize("integrity", ["sha1-abc", "sha512-" + "A" * 86 + "==", "sha512-../../x", None])
def test_an_index_leads_nowhere_but_to_content_by_its_digest(integrity: str | None) -> None:
    asked: list[str] = []

    def read(path: str, size: int) -> bytes | None:
        asked.append(path)
        assert size <= packument.PACKUMENT_BYTES
        return b"x\t" + json.dumps({"key": KEY, "integrity": integrity}).encode() if len(asked) == 1 else None

    packument.attestation(read, REGISTRY, "@unit/server", "1.0.0")
    assert all(path.startswith(("index-v5/", "content-v2/sha512/")) and ".." not in path for path in asked)
