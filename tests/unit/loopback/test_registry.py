import json
import os
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback.packages import WRONG_INTEGRITY, Package, from_folder, integrity_of, pack
from loopback.registry import Fault, LoopbackRegistry
from loopback.server import RefusedPort
from loopback.upstream import CORGI, AnsweredError, UnreachableError, Upstream, node_wheel

SMALL = Package(
    manifest={"name": "@unit/small", "version": "1.0.0", "bin": "cli.js", "dependencies": {"leaf": "^1.0.0"}},
    files={"cli.js": b"console.log(require('leaf'))\n"},
    executable=("cli.js",),
)
LEAF = Package(manifest={"name": "leaf", "version": "1.2.0"}, files={"index.js": b"module.exports = 'leaf'\n"})


def npm(folder: Path, registry: str, *argv: str) -> subprocess.CompletedProcess[str]:
    wheel = node_wheel()
    (folder / "home").mkdir(exist_ok=True)
    environment = {
        "PATH": f"{wheel / 'bin'}:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "npm_config_registry": registry,
        "npm_config_fetch_retries": "0",
        "npm_config_audit": "false",
        "npm_config_update_notifier": "false",
    }
    command = [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js"), *argv]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def get(url: str, accept: str = "*/*") -> Any:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def test_npm_installs_what_a_test_published(registry: LoopbackRegistry, tmp_path: Path) -> None:
    registry.publish(SMALL)
    registry.publish(LEAF)
    (tmp_path / "package.json").write_text('{"dependencies": {"@unit/small": "1.0.0"}}')
    done = npm(tmp_path, registry.url, "install")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "node_modules/leaf/index.js").read_bytes() == LEAF.files["index.js"]
    assert os.access(tmp_path / "node_modules/@unit/small/cli.js", os.X_OK)
    lock = json.loads((tmp_path / "package-lock.json").read_text())
    assert lock["packages"]["node_modules/leaf"]["integrity"] == integrity_of(pack(LEAF))


def test_npm_refuses_a_package_whose_integrity_is_wrong(registry: LoopbackRegistry, tmp_path: Path) -> None:
    registry.publish(LEAF, integrity=WRONG_INTEGRITY)
    (tmp_path / "package.json").write_text('{"dependencies": {"leaf": "1.2.0"}}')
    done = npm(tmp_path, registry.url, "install")
    assert done.returncode != 0
    assert "EINTEGRITY" in done.stderr


@pytest.mark.parametrize(("fault", "status"), [(Fault.NOT_FOUND, 404), (Fault.SERVER_ERROR, 500)])
def test_a_broken_package_answers_with_its_status(registry: LoopbackRegistry, fault: Fault, status: int) -> None:
    registry.publish(LEAF)
    registry.break_package("leaf", fault)
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(f"{registry.url}/leaf")
    assert caught.value.code == status
    caught.value.close()


def test_a_dropped_connection_has_no_answer(registry: LoopbackRegistry) -> None:
    registry.break_package("leaf", Fault.DROPPED)
    with pytest.raises(OSError, match="without response"):
        get(f"{registry.url}/leaf")


def test_a_cut_tarball_is_half_as_long_and_its_packument_stays_whole(registry: LoopbackRegistry) -> None:
    registry.publish(LEAF)
    registry.break_package("leaf", Fault.CUT_TARBALL)
    dist = json.loads(get(f"{registry.url}/leaf"))["versions"]["1.2.0"]["dist"]
    assert dist["integrity"] == integrity_of(pack(LEAF))
    assert len(get(dist["tarball"])) == len(pack(LEAF)) // 2


def test_a_page_of_html_stands_in_for_a_packument(registry: LoopbackRegistry) -> None:
    registry.publish(LEAF)
    registry.break_package("leaf", Fault.NOT_JSON)
    assert get(f"{registry.url}/leaf").startswith(b"<html>")
    assert get(f"{registry.url}/leaf/-/leaf-1.2.0.tgz") == pack(LEAF)


def test_tarballs_bear_the_host_that_the_client_named(registry: LoopbackRegistry) -> None:
    registry.publish(LEAF)
    request = urllib.request.Request(f"{registry.url}/leaf", headers={"Host": "registry.example:4873"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        document = json.load(answer)
    assert document["versions"]["1.2.0"]["dist"]["tarball"] == "http://registry.example:4873/leaf/-/leaf-1.2.0.tgz"


def test_a_folder_becomes_a_package_with_its_executables(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "made", "version": "0.1.0"}')
    (tmp_path / "run.js").write_text("1\n")
    (tmp_path / "run.js").chmod(0o755)
    (tmp_path / "node_modules/x").mkdir(parents=True)
    (tmp_path / "node_modules/x/index.js").write_text("2\n")
    made = from_folder(tmp_path)
    assert (made.name, made.version, made.executable) == ("made", "0.1.0", ("run.js",))
    assert set(made.files) == {"run.js"}
    assert pack(made) == pack(made)


def test_an_install_script_is_announced(registry: LoopbackRegistry) -> None:
    registry.publish(Package(manifest={"name": "h", "version": "1.0.0", "scripts": {"postinstall": "true"}}))
    assert json.loads(get(f"{registry.url}/h"))["versions"]["1.0.0"]["hasInstallScript"] is True


def test_a_registry_leaves_no_thread_and_no_listener_even_with_a_hanging_request() -> None:
    before = set(threading.enumerate())
    with LoopbackRegistry() as registry:
        registry.break_package("leaf", Fault.HANGING)
        port = registry.port

        def ask() -> None:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"GET /leaf HTTP/1.1\r\nHost: x\r\n\r\n")
                assert client.recv(1) == b""  # cut when the registry ends

        client = threading.Thread(target=ask)
        client.start()
        assert registry.asked.wait(30)
    client.join(30)
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_refused_port_refuses(refused_url: str) -> None:
    host, _, port = refused_url.removeprefix("http://").partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


# --- the upstream half, with another loopback registry in the place of the operator's


@pytest.fixture
def operator() -> Iterator[LoopbackRegistry]:
    with LoopbackRegistry() as running:
        running.publish(SMALL)
        running.publish(LEAF)
        yield running


def test_what_was_fetched_once_is_served_when_the_upstream_is_gone(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with LoopbackRegistry() as operator:
        operator.publish(LEAF)
        registry = operator.url
        with LoopbackRegistry(Upstream(cache, registry=registry)) as first:
            tarball = json.loads(get(f"{first.url}/leaf", CORGI))["versions"]["1.2.0"]["dist"]["tarball"]
            assert tarball.startswith(first.url)
            assert get(tarball) == pack(LEAF)
    with LoopbackRegistry(Upstream(cache, registry=registry, attempts=1)) as second:
        second.warm("leaf", "1.2.0")
        document = json.loads(get(f"{second.url}/leaf", CORGI))
        assert document["versions"]["1.2.0"]["dist"]["tarball"].startswith(second.url)
        assert get(f"{second.url}/leaf/-/leaf-1.2.0.tgz") == pack(LEAF)


def test_a_tarball_is_found_without_its_packument_being_asked_for_first(
    operator: LoopbackRegistry, tmp_path: Path
) -> None:
    upstream = Upstream(tmp_path, registry=operator.url)
    assert upstream.tarball("@unit/small", "small-1.0.0.tgz") == pack(SMALL)
    assert upstream.tarball("@unit/small", "small-1.0.0.tgz") == pack(SMALL)
    asked = [request.path for request in operator.requests]
    assert asked == ["/@unit%2Fsmall", "/@unit/small/-/small-1.0.0.tgz"]


def test_a_version_that_the_stored_packument_lacks_is_asked_for_anew(
    operator: LoopbackRegistry, tmp_path: Path
) -> None:
    with LoopbackRegistry(Upstream(tmp_path, registry=operator.url)) as registry:
        registry.warm("leaf", "1.2.0")
        assert not Upstream(tmp_path, registry=operator.url).has("leaf", "1.3.0")
        operator.publish(Package(manifest={"name": "leaf", "version": "1.3.0"}))
        registry.warm("leaf", "1.3.0")
        assert "1.3.0" in json.loads(get(f"{registry.url}/leaf", CORGI))["versions"]


def test_a_silent_upstream_is_a_gateway_time_out_and_is_remembered(tmp_path: Path) -> None:
    with RefusedPort() as url, LoopbackRegistry(Upstream(tmp_path, registry=url, attempts=1)) as registry:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(f"{registry.url}/leaf")
        assert caught.value.code == 504
        caught.value.close()
        assert registry.unreachable == ["leaf"]
        with pytest.raises(UnreachableError):
            registry.warm("leaf", "1.2.0")


def test_an_upstream_that_says_404_is_believed_at_once(operator: LoopbackRegistry, tmp_path: Path) -> None:
    upstream = Upstream(tmp_path, registry=operator.url)
    with pytest.raises(AnsweredError, match="404"):
        upstream.packument("absent", corgi=True)
    with pytest.raises(AnsweredError, match="404"):
        upstream.tarball("leaf", "leaf-9.9.9.tgz")
    assert [request.path for request in operator.requests] == ["/absent", "/leaf"]


def test_an_upstream_that_fails_is_asked_again_until_it_is_told_to_give_up(
    operator: LoopbackRegistry, tmp_path: Path
) -> None:
    operator.break_package("leaf", Fault.SERVER_ERROR)
    upstream = Upstream(tmp_path, registry=operator.url)
    upstream.give_up()
    with pytest.raises(UnreachableError, match="500"):
        upstream.packument("leaf", corgi=True)
    assert len(operator.requests) == 1
