"""review.batch.facts and review.batch.table: what one line says of one result."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.review.batch import facts, table
from fumehood.review.batch.facts import Facts, UnreadableResultError
from fumehood.review.batch.table import Row

Make = Callable[..., Any]


def test_a_line_holds_what_the_result_holds(result: Make, a_row: Make) -> None:
    rows = [
        a_row("protocol.fact", fact="initialized", protocol_version="2025-06-18", server_name="s", server_version="1"),
        a_row("network.connect", "egress", name="mail.example", port=443, decision="sinkhole"),
        a_row("network.connect", "strace", name="unseen.example", port=1, decision="x"),
        a_row("network.dns", name="mail.example"),
        a_row("process.exec", outcome="started", program="/usr/bin/node"),
        a_row("process.exec", outcome="ENOENT", program="/usr/bin/missing"),
        a_row("process.exec", phase="FETCH", outcome="started", program="/usr/bin/npm"),
        a_row("filesystem.created", "layer", "INSTALL", path="/x"),
        a_row("filesystem.created", "strace", "INSTALL", path="/x"),
        a_row("canary.read", canary="ssh key"),
        a_row("canary.sent", canary="ssh key", where="body"),
    ]
    found = facts.read(
        result(
            rows=rows,
            behaviour={"version": "behaviour/1", "sha256": "ab" * 32},
            errors=[{"code": "late", "message": "said"}],
        )
    )
    assert found.state == "COMPLETED"
    assert (found.protocol, found.server, found.tools) == ("2025-06-18", "s 1", 3)
    assert found.hosts.names == ("mail.example:443 sinkhole",)
    assert found.names_asked.names == ("mail.example",)
    assert found.programs.names == ("node",)
    assert found.files == {"install created": 1}
    assert found.canaries_read.names == ("ssh key",)
    assert found.canaries_sent.names == ("ssh key in body",)
    assert (found.behaviour, found.seconds, found.lost) == ("ab" * 32, 1.2, 2)
    assert found.error == "late: said"


def test_names_are_cut_and_counted() -> None:
    made = facts.named(["b", *(f"n{n}" for n in range(limits.BATCH_CELL_ITEMS + 4)), "b"])
    assert made.names[0] == "b"
    assert len(made.names) == limits.BATCH_CELL_ITEMS
    assert made.more == 5


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"request": {}, "execution": {"status": 5}}', b"[" * 100_000])
def test_what_is_no_result_is_an_error(data: bytes) -> None:
    with pytest.raises(UnreadableResultError):
        facts.read(data)


def test_a_result_larger_than_one_may_be_is_not_parsed(monkeypatch: pytest.MonkeyPatch, result: Make) -> None:
    monkeypatch.setattr(limits, "JSON_RESULT_BYTES", 10)
    with pytest.raises(UnreadableResultError, match="bytes"):
        facts.read(result())


@given(st.binary(max_size=200))
def test_whatever_lies_there_is_facts_or_an_error(data: bytes) -> None:
    with contextlib.suppress(UnreadableResultError):
        assert isinstance(facts.read(data), Facts)


def rows() -> list[Row]:
    made = Facts(state="COMPLETED", protocol="2025-06-18", tools=2, seconds=1.0)
    failed = Facts(state="TARGET_FAILED", error="hook: it failed")
    return [
        Row(target="npm:a@1.0.0", digest="0" * 64, attempts=1, result="x/result.json", facts=made),
        Row(target="npm:b@1.0.0", digest="1" * 64, attempts=2, result="y/result.json", facts=failed),
        Row(target="npm:c@1.0.0", digest="2" * 64, attempts=3, words="killed"),
    ]


def test_the_summary_counts_states_and_names_what_has_none() -> None:
    made = table.summary(rows(), refused_lines=2, repeated_lines=1)
    assert made.states == {"COMPLETED": 1, "NO_RESULT": 1, "TARGET_FAILED": 1}
    value = json.loads(table.encode(made))
    assert [row["target"] for row in value["rows"]] == ["npm:a@1.0.0", "npm:b@1.0.0", "npm:c@1.0.0"]
    text = table.markdown(made).decode()
    assert "3 requests: COMPLETED 1, NO_RESULT 1, TARGET_FAILED 1." in text
    assert "2 lines of the list were refused" in text
    assert "TARGET\\_FAILED (hook)" in text


def test_no_word_of_the_schema_judges() -> None:
    text = (table.encode(table.summary(rows())) + table.markdown(table.summary(rows()))).decode().lower()
    judging = ("verdict", "score", "severity", "risk", "unsafe", "malicious", "benign")
    assert [word for word in judging if word in text] == []


@given(st.text(max_size=300))
def test_a_cell_neither_ends_its_cell_nor_makes_a_link_a_tag_or_a_line(text: str) -> None:
    made = table.cell(text)
    bare = made.replace("\\\\", "")
    assert "\n" not in made
    assert all(f"\\{mark}" in bare or mark not in bare for mark in "|`[]*_")
    assert "<" not in made.replace("&lt;", "")
    assert "://" not in made


@pytest.mark.parametrize(
    "text",
    [
        "a|b",
        "[x](https://mail.example)",
        "![x](y)",
        "<script>alert(1)</script>",
        "https://mail.example",
        "www.mail.example",
        "a`b`",
    ],
)
def test_marks_of_a_target_stay_text(text: str) -> None:
    made = table.cell(text)
    assert made != text
    assert "<" not in made
