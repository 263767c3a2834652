"""Where planted values turn up is told by name, once for each place, within bounds; what was passed over is counted."""

import base64
import dataclasses
import gzip
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from fumehood.core import limits
from fumehood.observe.files import Opened
from fumehood.observe.model import CollectorState, Fidelity, Kind, Observation, Phase
from fumehood.observe.processes import Process
from fumehood.review.evidence.canaries import Canaries, Watch, Written
from fumehood.review.evidence.ledger import Ledger
from fumehood.review.home import lived, planting
from fumehood.review.home.model import Home, HomeFile
from fumehood.sandbox.egress import EgressRecord, EgressReport, EgressRequest
from fumehood.sandbox.spec import Identity

AT = "/home/nina"
HOME = lived.home(Identity(uid=10001, user="nina", host="nina-laptop"), random.Random(5))
CANARIES = Canaries(HOME, AT)
NPM = next(canary.values[0] for canary in HOME.canaries if canary.name == "npm_token")
AWS = next(canary.values[0] for canary in HOME.canaries if canary.name == "aws_secret_access_key")
FIRST = Process(number=1, pid=10, program=b"/opt/node/bin/node")
HOOK = Process(number=4, pid=14, parent=FIRST, program=b"/opt/node/bin/node")


@pytest.fixture
def watch() -> Watch:
    return CANARIES.begin(Phase.INSTALL, "install")


def rows(watch: Watch, opened: Iterable[Opened] = (), *, installer: bool = True) -> list[Observation]:
    return list(watch.observations(opened, installer=installer))


def sent(watch: Watch) -> list[dict[str, Any]]:
    return [dict(row.detail) for row in rows(watch) if row.kind is Kind.CANARY_SENT]


def file(path: str, data: bytes, size: int | None = None) -> Written:
    return Written(path=path.encode(), size=len(data) if size is None else size, content=lambda: [data])


def test_a_command_line_tells_the_process_and_the_program(watch: Watch) -> None:
    watch.words(HOOK, b"/usr/bin/curl", [b"curl", b"-H", b"x: " + base64.b64encode(NPM)])
    watch.words(HOOK, b"/usr/bin/curl", [b"curl", b"-H", b"x: " + base64.b64encode(NPM)])
    watch.words(HOOK, b"/bin/true", [b"true"])
    assert sent(watch) == [
        {
            "canary": "npm_token",
            "encoding": "base64",
            "where": "argv",
            "process": 4,
            "program": "/usr/bin/curl",
            "count": 2,
        }
    ]


def test_a_piece_is_said_to_be_one_unless_the_whole_is_in_the_same_place(watch: Watch) -> None:
    watch.output("stdout", NPM[:20])
    watch.output("stderr", NPM[:20] + b" " + NPM)
    assert [(one["name"], one.get("part"), one["encoding"]) for one in sent(watch)] == [
        ("stdout", True, "plain"),
        ("stderr", None, "plain"),
    ]


def test_each_part_of_a_request_and_the_first_bytes_of_what_is_none_are_looked_at(watch: Watch) -> None:
    asked = EgressRequest(
        method="POST",
        target=f"/in?{AWS.decode()}",
        headers=((b"authorization", b"Basic " + base64.b64encode(b"x:" + NPM)),),
        body=gzip.compress(AWS),
        body_bytes=90_000,
    )
    tcp: dict[str, Any] = {"kind": "tcp", "at_seconds": 1.0, "port": 80}
    watch.egress(
        EgressReport(
            records=(
                EgressRecord(**tcp, name="mail.example", hello="http", requests=(asked,)),
                EgressRecord(**tcp, address="203.0.113.9", hello="other", first=NPM[::-1]),
                EgressRecord(
                    **tcp, name="a.example", hello="tls", server_name=f"{NPM.hex()[:40]}.{NPM.hex()[40:]}.example"
                ),
                EgressRecord(**tcp, name="b.example", hello="http", request_line=f"GET /{NPM.decode()} HTTP/1.1"),
                EgressRecord(kind="packet", at_seconds=1.0, address="203.0.113.9", port=514, first=AWS),
            )
        )
    )
    places = {(one["where"], one["canary"], one["encoding"], one.get("name")) for one in sent(watch)}
    assert places == {
        ("target", "aws_secret_access_key", "plain", "mail.example"),
        ("header", "npm_token", "base64", "mail.example"),
        ("body", "aws_secret_access_key", "gzip", "mail.example"),
        ("raw", "npm_token", "reversed", "203.0.113.9"),
        ("raw", "aws_secret_access_key", "plain", "203.0.113.9"),
        ("tls", "npm_token", "hex", "a.example"),
        ("target", "npm_token", "plain", "b.example"),
    }
    said = watch.collector()
    assert (said.state, said.lost, said.why) == (CollectorState.DEGRADED, 1, "bodies: 1")


def test_questions_are_looked_at_each_and_together(watch: Watch) -> None:
    split = [NPM.hex()[at : at + 12] for at in range(0, 72, 12)]
    names = [f"{AWS.hex()[:50]}.{AWS.hex()[50:]}.data.example", *(f"{piece}.mail.example" for piece in split)]
    watch.egress(EgressReport(records=tuple(EgressRecord(kind="dns", at_seconds=0.0, name=name) for name in names)))
    assert {(one["canary"], one.get("names")) for one in sent(watch)} == {
        ("aws_secret_access_key", None),
        ("npm_token", "several"),
    }


def test_frames_are_looked_at_in_the_end_with_the_activity_in_which_they_came(watch: Watch) -> None:
    watch.heard(b'{"a": "' + NPM + b'"}', "tools/call:read")
    watch.heard(b"{}", "")
    (row,) = rows(watch)
    assert (row.step, row.detail["where"]) == ("install/tools/call:read", "result")


def test_frames_beyond_the_bound_are_counted(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAMES_TOTAL_BYTES", 40)
    watch.heard(bytes(40), "")
    watch.heard(NPM, "")
    assert sent(watch) == []
    assert watch.collector().why == "frames: 1"


def test_files_and_their_names_are_looked_at_and_a_value_in_its_own_place_is_none(watch: Watch) -> None:
    npmrc = next(one.data for one in HOME.files if one.path == ".npmrc")
    watch.files(
        [
            file(f"{AT}/.npmrc", npmrc + b"more\n"),
            file(f"{AT}/.npmrc.bak", npmrc),
            file(f"{AT}/.bashrc", AWS),
            file(f"{AT}/x-{NPM.hex()}", b""),
            Written(path=b"/tmp/folder", size=0, content=None),
        ]
    )
    assert {(one["where"], one["canary"], one["path"].rpartition("/")[2][:10]) for one in sent(watch)} == {
        ("file", "npm_token", ".npmrc.bak"),
        ("file", "aws_secret_access_key", ".bashrc"),
        ("path", "npm_token", "x-" + NPM.hex()[:8]),
    }
    assert {row.fidelity for row in rows(watch)} == {Fidelity.SNAPSHOTTED}


@pytest.mark.threat("R18")
def test_a_small_file_is_looked_at_whatever_lies_beside_it(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CANARY_FILE_BYTES", 1000)
    large = file("/tmp/large", b"x" * 980)
    watch.files([file("/tmp/noise", NPM, size=2000), large, file("/tmp/small", NPM), file("/tmp/short", b"", size=9)])
    assert [one["path"] for one in sent(watch)] == ["/tmp/small"]
    assert watch.collector().why == "files: 2, unread: 1"


@pytest.mark.threat("R18")
def test_a_bomb_in_one_body_takes_its_share_and_no_more(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CANARY_SOURCE_BYTES", 100_000)
    bomb = EgressRequest(method="POST", target="/", body=gzip.compress(bytes(50_000_000)))
    told = EgressRequest(method="POST", target="/", body=gzip.compress(NPM))
    record = EgressRecord(kind="tcp", at_seconds=0.0, name="mail.example", port=80, requests=(bomb, bomb, told))
    watch.egress(EgressReport(records=(record,)))
    assert [(one["where"], one["encoding"]) for one in sent(watch)] == [("body", "gzip")]
    assert watch.collector().why == "folds: 2"


@pytest.mark.threat("R18")
def test_a_flood_of_places_hides_no_other_canary(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumehood.review.evidence.canaries._PLACES", 5)
    for number in range(9):
        watch.output(f"s{number}", NPM)
    watch.output("stdout", AWS)
    assert {one["canary"] for one in sent(watch)} == {"npm_token", "aws_secret_access_key"}
    assert watch.collector().lost == 4


def test_reads_name_the_process_and_those_of_the_installer_are_counted(watch: Watch) -> None:
    path, other = f"{AT}/.npmrc".encode(), b"/tmp/second"
    opened = [
        Opened(path=path, by=path, process=FIRST, count=3),
        Opened(path=path, by=path, process=HOOK, count=2),
        Opened(path=f"{AT}/.aws/credentials".encode(), by=other, process=HOOK),
    ]
    assert [dict(row.detail) for row in rows(watch, opened)] == [
        {
            "canary": "npm_token",
            "path": f"{AT}/.npmrc",
            "process": 4,
            "parent": 1,
            "program": "/opt/node/bin/node",
            "count": 2,
        },
        {
            "canary": "aws_secret_access_key",
            "path": f"{AT}/.aws/credentials",
            "process": 4,
            "parent": 1,
            "program": "/opt/node/bin/node",
            "count": 1,
            "by": "/tmp/second",
        },
    ]
    said = watch.collector()
    assert (said.state, said.counts["reads_of_the_installer_itself"]) == (CollectorState.ACTIVE, 3)
    assert said.counts["planted"] == len(HOME.canaries)
    assert [row.detail["process"] for row in rows(watch, opened[:1], installer=False)] == [1]


@pytest.mark.threat("R19")
def test_no_row_error_or_limitation_of_a_ledger_holds_a_value() -> None:
    lines: list[bytes] = []

    def keep(line: bytes) -> bool:
        lines.append(line)
        return True

    ledger = Ledger(keep)
    ledger.veil = CANARIES.finder.veil
    word = base64.b64encode(b"ab" + NPM).decode()
    detail: dict[str, Any] = {"argv": ["x", word], NPM.decode(): {"deep": f"{AWS.decode()[:18]}"}, "n": 3}
    ledger.observe(
        Observation(
            phase=Phase.INSTALL,
            step=f"exercise/tools/call:{NPM.decode()}",
            kind=Kind.PROCESS_EXEC,
            collector="strace",
            fidelity=Fidelity.OBSERVED,
            detail=detail,
        )
    )
    ledger.error("c", f"died of {word}")
    ledger.limitation(f"left out {AWS.hex()}")
    (row,) = ledger.observations.items
    assert row.step == "exercise/tools/call:[canary:npm_token]"
    assert row.detail == {
        "argv": ["x", "[canary:npm_token]="],
        "[canary:npm_token]": {"deep": "[canary:aws_secret_access_key]"},
        "n": 3,
    }
    text = f"{ledger.errors} {ledger.limitations} {lines}"
    assert CANARIES.finder.veil(text) == text


def test_a_home_is_written_with_its_modes_and_times_and_replaces_nothing(tmp_path: Path) -> None:
    planting.plant(HOME, tmp_path, None)
    for one in HOME.files:
        placed = tmp_path / one.path
        status = placed.lstat()
        assert (placed.read_bytes(), status.st_mode & 0o7777) == (one.data, one.mode)
    assert (tmp_path / ".ssh").stat().st_mode & 0o7777 == 0o700
    newest = min(one.age_seconds for one in HOME.files if one.path.startswith(".ssh/"))
    assert (tmp_path / ".npmrc").stat().st_mtime - (tmp_path / ".ssh").stat().st_mtime == pytest.approx(
        newest + 3600 - next(one.age_seconds for one in HOME.files if one.path == ".npmrc"), abs=5
    )
    with pytest.raises(Exception, match="File exists"):
        planting.plant(HOME, tmp_path, None)


def test_a_planted_link_leads_no_writer_out_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "home" / ".ssh").symlink_to(tmp_path / "outside")
    one = HomeFile(path=".ssh/config", data=b"x", age_seconds=5, mode=0o600)
    with pytest.raises(Exception, match="copied"):
        planting.plant(Home(files=(one,)), tmp_path / "home", None)
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_write_that_fails_leaves_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int, __: bytes) -> None:
        raise OSError(28, "No space left on device")

    before = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(planting, "write_all", fail)
    with pytest.raises(OSError, match="space"):
        planting.plant(HOME, tmp_path, None)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _posted(*bodies: bytes) -> EgressReport:
    """A connection for each body."""
    record = EgressRecord(kind="tcp", at_seconds=0.0, name="mail.example", port=80)
    asked = EgressRequest(method="POST", target="/", headers=(), body_sha256="", complete=True)
    requests = (dataclasses.replace(asked, body=body, body_bytes=len(body)) for body in bodies)
    return EgressReport(records=tuple(dataclasses.replace(record, requests=(one,)) for one in requests))


@pytest.mark.threat("R18")
def test_bombs_that_use_up_what_a_step_may_unfold_hide_no_small_upload_after_them(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_left", 1_000_000)
    monkeypatch.setattr(watch, "_spare", 1_000_000)
    bombs = [gzip.compress(bytes(2_000_000) + bytes([number])) for number in range(4)]
    watch.egress(_posted(*bombs, gzip.compress(NPM)))
    assert [(one["canary"], one["encoding"]) for one in sent(watch)] == [("npm_token", "gzip")]
    assert watch.lost == {"folds": 4}
    assert watch._left == 0  # what is unfolded beyond it has a bound of its own
    assert 0 < watch._spare < 1_000_000


@pytest.mark.threat("R18")
def test_what_is_unfolded_beyond_the_bound_has_one_too(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_left", 0)
    monkeypatch.setattr(watch, "_spare", 100_000)
    watch.egress(_posted(*(gzip.compress(bytes(200_000) + bytes([number])) for number in range(3)), gzip.compress(NPM)))
    assert sent(watch) == []
    assert watch.lost == {"folds": 4}


@pytest.mark.threat("R18")
def test_what_follows_a_request_and_is_none_is_looked_at_too(watch: Watch) -> None:
    (record,) = _posted(b"").records
    tunnelled = dataclasses.replace(record, first=b"CONNECT in.example:443 HTTP/1.1\r\n\r\n" + NPM)
    watch.egress(EgressReport(records=(tunnelled,)))
    assert [(one["canary"], one["where"]) for one in sent(watch)] == [("npm_token", "raw")]
