"""Of a package the program that npx would take, and a record that is its own."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core.errors import FumehoodError
from fumehood.gateway.guard import installed, walls
from fumehood.gateway.guard.command import Package
from fumehood.gateway.guard.installed import Installed, NoProgramError, PackageError, Record
from fumehood.gateway.guard.policy import GuardPolicy
from fumehood.gateway.guard.walls import Ready

SCOPED = Package(name="@a/server", version="1.2.3", arguments=())
INTEGRITY = "sha512-" + "A" * 86 + "=="
RECORD = Record(
    name="@a/server",
    version="1.2.3",
    integrity=INTEGRITY,
    lock_sha256="0" * 64,
    packages=3,
    install_scripts=0,
    registry="http://r/",
    acquired="2026-11-30T00:00:00.000Z",
    program="dist/index.js",
)


@pytest.mark.parametrize(
    ("bins", "found"),
    [
        ("index.js", "index.js"),
        ("./dist/../index.js", "index.js"),
        ({"other": "dist/index.js"}, "dist/index.js"),
        ({"server": "a.js", "other": "b.js"}, "a.js"),
        ({"x": "a.js", "y": "a.js"}, "a.js"),
    ],
)
def test_the_program_is_the_one_that_npx_takes(bins: Any, found: str) -> None:
    assert installed.program({"bin": bins}, SCOPED) == found


@pytest.mark.threat("G2")
@pytest.mark.parametrize(
    "manifest", [None, [], {}, {"bin": {}}, {"bin": 7}, {"bin": {"x": 7}}, {"bin": {"x": "a.js", "y": "b.js"}}]
)
def test_without_one_program_none_is_guessed(manifest: Any) -> None:
    with pytest.raises(NoProgramError):
        installed.program(manifest, SCOPED)


@pytest.mark.threat("G2")
@pytest.mark.parametrize("path", ["../x.js", "/etc/passwd", "a/../../x.js", ".", "..", "a\0.js"])
def test_a_program_never_leads_out_of_its_package(path: str) -> None:
    with pytest.raises(PackageError):
        installed.program({"bin": path}, SCOPED)


@given(st.text(max_size=40))
def test_whatever_a_bin_says_it_stays_inside_or_is_refused(path: str) -> None:
    try:
        found = installed.program({"bin": path}, SCOPED)
    except FumehoodError:
        return
    assert not found.startswith("/")
    assert ".." not in found.split("/")


@pytest.mark.parametrize(
    ("path", "head", "of_node"),
    [
        ("a.js", b"console.log(1)", True),
        ("a", b"#!/usr/bin/env node\nx", True),
        ("a.js", b"#!/bin/sh\nexec x", False),
        ("a", b"\x7fELF", False),
    ],
)
def test_node_runs_what_is_of_node(path: str, head: bytes, *, of_node: bool) -> None:
    assert installed.is_of_node(path, head) is of_node


def test_a_folder_is_of_one_package_in_one_version() -> None:
    name = installed.folder(SCOPED, INTEGRITY)
    assert installed.is_of(name, SCOPED)
    assert "/" not in name
    for other in ("1.2.3-rc", "1.2", "1.2.34"):
        assert not installed.is_of(name, Package(name="@a/server", version=other, arguments=()))
    longer = installed.folder(Package(name="@a/server", version="1.2.3-rc", arguments=()), INTEGRITY)
    assert not installed.is_of(longer, SCOPED)
    assert installed.folder(SCOPED, "sha512-" + "B" * 86 + "==") != name


def test_a_record_is_of_its_package_or_refused() -> None:
    data = msgspec.json.encode(RECORD)
    assert installed.record(data, SCOPED) == RECORD
    for wrong in (b"", b"{}", data.replace(b"sha512-", b"md5-"), data.replace(b"1.2.3", b"1.2.4")):
        with pytest.raises(PackageError, match="record"):
            installed.record(wrong, SCOPED)


def test_hooks_are_counted() -> None:
    lock: Any = {"packages": {"": {}, "a": {"hasInstallScript": True}, "b": {"hasInstallScript": 1}, "c": 7}}
    assert installed.hooks(lock) == 1
    assert installed.hooks({"packages": 7}) == installed.hooks(None) == 0


def test_a_package_is_started_by_node_from_a_place_of_its_own() -> None:
    found = Installed(record=RECORD, folder="/cache/x", node="/n/bin/node", arguments=("--a",))
    ready = walls.package(found, Ready(argv=(), policy=GuardPolicy()))
    assert ready.argv == ("/.node/bin/node", "/.package/node_modules/@a/server/dist/index.js", "--a")
    assert [(str(one.source), one.target, one.writable) for one in ready.binds] == [
        ("/n/bin/node", "/.node/bin/node", False),
        ("/cache/x", "/.package", False),
    ]
    assert dict(walls.spec(ready, 1).environment)["PATH"].startswith("/.node/bin:/usr/local/sbin")
