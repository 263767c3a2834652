"""review.batch.listing: each line is checked, and one request has one digest however it is written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.review import request as requests
from fumehood.review.batch import listing
from fumehood.review.batch.listing import ListRefusedError

BASE = {
    "schema_version": 2,
    "target": {"kind": "npm", "name": "@s/p", "version": "1.2.3"},
    "adapter": "node_stdio",
    "action_profile": "mcp_initialize",
    "network_mode": "NONE",
    "credentials": "NONE",
    "question": "what does it do on start?",
    "evidence": ["process", "network"],
    "timeout_seconds": 60,
}
FOLDER = {"entrypoint": "server.js", "target": {"kind": "dir", "path": "server"}}


def line(**changes: Any) -> bytes:
    return json.dumps({**BASE, **changes}).encode()


def digest_of(data: bytes, folder: str = "/lists") -> str:
    (entry,) = listing.parse(data, folder=folder).entries
    return entry.digest


def test_each_line_is_a_request_of_its_own(lines: Any) -> None:
    made = listing.parse(lines(3), folder="/lists")
    assert [entry.line for entry in made.entries] == [1, 2, 3]
    assert len({entry.digest for entry in made.entries}) == 3
    assert made.entries[0].target == "npm:@s/p@1.2.3"
    assert (made.refused, made.refused_lines, made.repeated) == ((), 0, ())


def test_what_is_kept_of_a_request_is_the_same_request() -> None:
    (entry,) = listing.parse(line(argv=["--x"]), folder="/lists").entries
    assert requests.parse(entry.canonical) == requests.parse(line(argv=["--x"]))


def test_neither_order_nor_defaults_nor_space_make_another_digest() -> None:
    turned = json.dumps(dict(reversed({**BASE, "canaries": False, "repeat": 1, "argv": []}.items())), indent=None)
    assert digest_of(line()) == digest_of(turned.encode() + b"  \r\n")


@pytest.mark.parametrize(
    "change", [{"question": "another"}, {"argv": ["x"]}, {"timeout_seconds": 61}, {"linger_seconds": 3}]
)
def test_another_wish_is_another_digest(change: dict[str, Any]) -> None:
    assert digest_of(line()) != digest_of(line(**change))


def test_the_folder_counts_where_a_target_is_found_from_it() -> None:
    assert digest_of(line(**FOLDER), "/a") != digest_of(line(**FOLDER), "/b")
    assert digest_of(line(), "/a") == digest_of(line(), "/b")


def test_the_same_request_twice_is_run_once_and_told() -> None:
    made = listing.parse(line() + b"\n" + line(question="x") + b"\n" + line(repeat=1), folder="/lists")
    assert [entry.line for entry in made.entries] == [1, 2]
    assert made.repeated == ((3, 1),)


def test_every_bad_line_is_named_with_all_its_reasons() -> None:
    data = b"\n".join([line(), b"{", b"", b"# a remark", line(command="rm", timeout_seconds=1), b'"npm:x@1.0.0"'])
    made = listing.parse(data, folder="/lists")
    assert [bad.line for bad in made.refused] == [2, 3, 4, 5, 6]
    assert made.refused[0].reasons[0].startswith("not JSON: column ")
    assert len(made.refused[3].reasons) == 2
    assert "timeout_seconds" in " ".join(made.refused[3].reasons)
    assert "must be an object" in made.refused[4].reasons[0]
    assert [entry.line for entry in made.entries] == [1]


@pytest.mark.parametrize("data", [b"", b"\n" * (limits.BATCH_LINES + 1)])
def test_a_list_without_lines_or_with_too_many_is_refused_as_a_whole(data: bytes) -> None:
    with pytest.raises(ListRefusedError):
        listing.parse(data, folder="/lists")


def test_the_reasons_of_many_bad_lines_are_bounded_and_the_rest_is_counted() -> None:
    count = limits.BATCH_REFUSED_LINES + 7
    made = listing.parse(b"\n".join([b"x"] * count), folder="/lists")
    assert len(made.refused) == limits.BATCH_REFUSED_LINES
    assert made.refused_lines == count


@given(st.binary(max_size=300))
def test_whatever_a_line_holds_it_is_an_entry_or_a_reason(data: bytes) -> None:
    one = data.replace(b"\n", b"")
    made = listing.parse(one + b"\n" + line(), folder="/lists")
    assert len(made.entries) + made.refused_lines + len(made.repeated) == 2
    assert all(reason.isprintable() for bad in made.refused for reason in bad.reasons)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        (
            {"kind": "git", "repository": "o/r", "ref": "0123456789abcdef0123456789abcdef01234567"},
            "github:o/r@0123456789ab",
        ),
        ({"kind": "pypi", "name": "p", "version": "1.0"}, "pypi:p==1.0"),
        ({"kind": "dir", "path": "a/b"}, "dir:a/b"),
        (None, "?"),
    ],
)
def test_a_target_is_shown_as_it_is_typed(target: Any, shown: str) -> None:
    assert listing.target({"target": target}) == shown
