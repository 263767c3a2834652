"""sandbox.programs.sdist: an archive is checked, and laid out as files and folders, or refused whole."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.sandbox.programs import sdist
from loopback.index import LoopbackIndex
from loopback.sources import Sources


def member(name: str, kind: bytes = tarfile.REGTYPE, **changes: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def laid(data: bytes, folder: Path) -> dict[str, Any]:
    return sdist.laid(io.BytesIO(data), folder)


def packed(*members: tarfile.TarInfo, **files: bytes) -> bytes:
    return Sources(name="unit", files=files, members=members).pack()


def test_files_and_folders_are_laid_out_with_their_time_and_whether_they_are_programs(tmp_path: Path) -> None:
    tool = member("unit-1.0/bin/tool", size=3, mode=0o4775, mtime=1_700_000_000)
    said = laid(packed(member("unit-1.0/empty", tarfile.DIRTYPE), tool, setup=b"x"), tmp_path)
    assert said == {"said": "ok", "files": 2}
    assert (tmp_path / "src/setup").read_bytes() == b"x"
    assert (tmp_path / "src/setup").stat().st_mtime == sdist.EARLIEST
    made = (tmp_path / "src/bin/tool").stat()
    assert (made.st_mode & 0o7111, made.st_mtime) == (0o111, 1_700_000_000)
    assert (tmp_path / "src/empty").is_dir()
    assert (tmp_path / "dist").is_dir()


@pytest.mark.threat("R34")
@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        (member("unit-1.0/../../up"), "a path that leads elsewhere"),
        (member("../up"), "a path that leads elsewhere"),
        (member("/up"), "a path that leads elsewhere"),
        (member("unit-1.0/" + "x/" * 600 + "y"), "a path that leads elsewhere"),
        (member("unit-1.0/l", tarfile.SYMTYPE, linkname="/etc"), "a link or a device"),
        (member("unit-1.0/l", tarfile.LNKTYPE, linkname="unit-1.0/a"), "a link or a device"),
        (member("unit-1.0/l", tarfile.FIFOTYPE), "a link or a device"),
        (member("unit-1.0/l", tarfile.CHRTYPE), "a link or a device"),
        (member("other/x"), "more than one folder"),
        (member("unit-1.0"), "more than one folder"),
        (member("unit-1.0/a"), "a name twice"),
        (member("unit-1.0/a/b"), "a name twice"),
        (member("unit-1.0/" + "n" * 300), "a file that cannot be written"),
    ],
)
def test_an_archive_with_anything_else_is_refused(tmp_path: Path, hostile: tarfile.TarInfo, why: str) -> None:
    assert laid(packed(hostile, a=b"x"), tmp_path) == {"said": "bad", "why": why}
    assert [path.name for path in tmp_path.iterdir() if path.name not in {"src", "dist"}] == []


@pytest.mark.threat("R34")
def test_an_archive_of_too_many_or_too_large_members_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdist, "MEMBERS", 2)
    few, many = {"a": b"", "b": b""}, {"a": b"", "b": b"", "c": b""}
    assert laid(packed(**few), tmp_path / "few") == {"said": "ok", "files": 2}
    assert laid(packed(**many), tmp_path / "many") == {"said": "bad", "why": "too large"}
    monkeypatch.setattr(sdist, "UNPACKED_BYTES", 10)
    assert laid(packed(a=bytes(10)), tmp_path / "small") == {"said": "ok", "files": 1}
    assert laid(packed(a=bytes(11)), tmp_path / "large") == {"said": "bad", "why": "too large"}


@pytest.mark.parametrize("data", [b"", b"sources", packed(a=b"x" * 5000)[:-30], gzip.compress(b"no tar" * 200)])
def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path, data: bytes) -> None:
    assert laid(data, tmp_path) == {"said": "bad", "why": "no archive of its kind"}


@given(name=st.text(max_size=40))
def test_no_name_of_a_member_leads_out(name: str) -> None:
    try:
        parts = sdist.inside(name)
    except (sdist.BadSourcesError, UnicodeEncodeError):
        return
    assert ".." not in parts
    assert not any("/" in part or "\0" in part for part in parts)


def test_only_the_file_of_that_hash_is_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = packed(a=b"x")
    digest = hashlib.sha256(body).hexdigest()

    def said(path: str, sha256: str, place: str) -> dict[str, Any]:
        sdist.main(f"{index.url}/{path}", sha256, str(tmp_path / place))
        value: dict[str, Any] = json.loads(capsys.readouterr().out)
        return value

    with LoopbackIndex() as index:
        index.publish_sources("unit", "1.0", body)
        file = "files/unit/unit-1.0.tar.gz"
        assert said(file, digest, "good") == {"said": "ok", "files": 1}
        assert said(file, "0" * 64, "wrong") == {"said": "hash"}
        assert not (tmp_path / "wrong").exists()
        assert said("files/unit/absent", digest, "absent") == {"said": "network", "why": "status 404"}
        monkeypatch.setattr(sdist, "SDIST_BYTES", len(body) - 1)
        assert said(file, digest, "large") == {"said": "bad", "why": "too large"}
    assert said(file, digest, "gone")["said"] == "network"
