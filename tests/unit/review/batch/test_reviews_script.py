"""scripts/reviews.py and the list of twenty: the table of a batch from its folders alone."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.review.batch import listing
from fumehood.review.batch.place import Place
from fumehood.review.result import Behaviour

ROOT = Path(__file__).parents[4]
Make = Callable[..., Any]


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("reviews", ROOT / "scripts/reviews.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_list_of_servers_is_taken_and_names_twenty_of_both_registries() -> None:
    made = listing.parse((ROOT / "docs/reviews.requests.jsonl").read_bytes(), folder="/")
    assert (len(made.entries), made.refused_lines, made.repeated) == (20, 0, ())
    assert {entry.target.partition(":")[0] for entry in made.entries} == {"npm", "pypi"}


def test_the_table_and_the_comparison_come_from_the_folders(
    script: Any, tmp_path: Path, fields: Make, result: Make
) -> None:
    for place, behaviours in (("one", ("aa", "bb", None)), ("two", ("aa", "cc", "dd"))):
        data = b"\n".join(json.dumps(fields(question=str(n))).encode() for n in range(3))
        with Place(tmp_path / place) as folder:
            for entry, sha in zip(listing.parse(data, folder="/").entries, behaviours, strict=True):
                more = {"behaviour": {"version": "1", "sha256": sha}} if sha else {}
                (folder.begin(entry.digest, entry.canonical) / "result.json").write_bytes(result(**more))
    assert [row.attempts for row in script.rows(tmp_path / "one")] == [1, 1, 1]
    said = script.compared(tmp_path / "one", tmp_path / "two")
    assert [said.count(f"| {word} | one only |") for word in ("equal", "differ", "one only")] == [1, 1, 1]


def test_a_digest_is_also_made_anew_of_the_same_result(
    script: Any, tmp_path: Path, fields: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = listing.parse(json.dumps(fields()).encode(), folder="/").entries[0]
    for place in ("one", "two"):
        with Place(tmp_path / place) as folder:
            (folder.begin(entry.digest, entry.canonical) / "result.json").write_bytes(b"ee")
    monkeypatch.setattr(script.reading, "result", lambda data, _: data)
    monkeypatch.setattr(script.canonical, "behaviour", lambda data: Behaviour(version="v", sha256=data.decode()))
    row = script.Row(target="t", digest=entry.digest, attempts=1, result=f"{entry.digest}/attempt-0001/result.json")
    assert script.read(tmp_path / "one", row) == "ee"
    assert (script.said("ee", "ee"), script.read(tmp_path / "one", None)) == ("equal", "")
