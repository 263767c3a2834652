"""The fuzz target of the bridge: its checks hold over inputs of hypothesis too, and find a broken bridge."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fumehood.code.bridge import Bridge
from fumehood.code.events import Event
from fuzz import bridge as target

URL = "data:application/typescript;base64,"
WORDS = [
    {"type": "ready"},
    {"type": "call", "id": 1, "method": "run", "args": ["a", {}]},
    {"type": "call", "id": 2, "method": "search", "args": ["a"]},
    {"type": "call", "id": 7, "method": "describe", "args": [5]},
    {"type": "log", "level": "log", "message": "x"},
    {"type": "result", "ok": True, "value": [1]},
    {"type": "result", "ok": False, "error": {"name": "E", "message": "m", "stack": f" at {URL}:9:9"}},
]
LINES = [json.dumps(words).encode() + b"\n" for words in WORDS]
_inputs = st.builds(
    lambda head, parts: head + b"".join(parts),
    st.binary(min_size=2, max_size=2),
    st.lists(st.sampled_from(LINES) | st.binary(max_size=40), max_size=15),
)


@given(_inputs)
def test_every_input_holds(data: bytes) -> None:
    target.check(data)


@pytest.mark.long
@settings(max_examples=50_000, deadline=None)
@given(_inputs)
def test_every_input_holds_for_minutes(data: bytes) -> None:
    target.check(data)


def test_a_bridge_that_reads_on_after_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Bridge.feed

    def feed(self: Bridge, data: bytes) -> list[Event]:
        events = whole(self, data)
        return events * 2 if self.terminal else events

    data = b"\x03\x05" + LINES[5]
    target.check(data)
    monkeypatch.setattr(Bridge, "feed", feed)
    with pytest.raises(AssertionError):
        target.check(data)
