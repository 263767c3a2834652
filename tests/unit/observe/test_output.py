"""Captured text as observations."""

from hypothesis import given
from hypothesis import strategies as st

from fumehood.core import limits
from fumehood.observe import output
from fumehood.observe.model import CollectorState, Kind, Phase
from fumehood.observe.output import Captured, whole_words

WHERE = (Phase.EXERCISE, "initialize")


def plain(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace").replace("ghp_0123456789", "«token»")


def test_each_stream_that_carried_something_is_one_observation() -> None:
    streams = (
        Captured(stream="stdout", data=b"", total_bytes=0),
        Captured(stream="stderr", data=b"a\nghp_0123456789\n\xff", total_bytes=18),
    )
    (made,) = output.observe(streams, WHERE, plain)
    assert made.kind is Kind.OUTPUT_TEXT
    assert made.detail == {
        "stream": "stderr",
        "text": "a\n«token»\n\\xff",
        "bytes": 18,
        "dropped_bytes": 0,
        "lines": 2,
    }
    assert output.collector(Phase.EXERCISE, streams).state is CollectorState.ACTIVE


def test_a_secret_that_the_capture_cut_is_not_kept_in_half() -> None:
    cut = Captured(stream="stderr", data=b"token: ghp_0123", total_bytes=5000)
    (made,) = output.observe((cut,), WHERE, plain)
    assert made.detail["text"] == "token: "
    assert made.detail["dropped_bytes"] == 5000 - 7
    collector = output.collector(Phase.EXERCISE, (cut,))
    assert (collector.state, collector.lost, collector.counts) == (
        CollectorState.DEGRADED,
        4985,
        {"stderr_bytes": 5000},
    )


def test_more_than_the_bound_is_cut_here_as_well() -> None:
    data = b"word " * (limits.CAPTURE_BYTES // 2)
    kept = whole_words(data, cut=False)
    assert len(kept) <= limits.CAPTURE_BYTES
    assert kept.endswith(b" ")


@given(data=st.binary(max_size=9000), cut=st.booleans())
def test_what_is_kept_is_the_beginning_and_loses_little(data: bytes, cut: bool) -> None:
    kept = whole_words(data, cut=cut)
    assert data.startswith(kept)
    assert len(data) - len(kept) <= (4096 if cut else 0)
