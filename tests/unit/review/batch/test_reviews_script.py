"""scripts/reviews.py and the list of twenty: the table of a batch from its folders alone."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fumehood.review.batch import listing
from fumehood.review.batch.place import Place

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
    first, second = (script.rows(tmp_path / place) for place in ("one", "two"))
    assert [row.attempts for row in first] == [1, 1, 1]
    said = script.compared(first, second)
    assert said.count("| equal |") == said.count("| differ |") == said.count("| one only |") == 1
