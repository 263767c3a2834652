import json
import urllib.request

import pytest

from loopback.fixtures import NpmRegistry
from loopback.packages import integrity_of

SERVER = "@modelcontextprotocol/server-filesystem"


@pytest.mark.registry
def test_a_real_server_is_fetched_once_and_matches_its_integrity(npm_registry: NpmRegistry) -> None:
    npm_registry.need(f"{SERVER}@2026.8.31")
    request = urllib.request.Request(f"{npm_registry.url}/{SERVER.replace('/', '%2f')}")
    with urllib.request.urlopen(request, timeout=180) as answer:
        dist = json.load(answer)["versions"]["2026.8.31"]["dist"]
    assert dist["tarball"].startswith(npm_registry.url)
    with urllib.request.urlopen(dist["tarball"], timeout=180) as answer:
        assert integrity_of(answer.read()) == dist["integrity"]
