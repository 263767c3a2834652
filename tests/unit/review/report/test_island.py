"""review.report.island: the rows of a page are bounded by phase, and what is left out is counted."""

import base64
import os
import zlib

import msgspec
import pytest

import reported
from fumehood.core import limits
from fumehood.observe.model import Phase
from fumehood.review import result
from fumehood.review.report import island


def unfolded(embedded: island.Embedded, phase: Phase) -> list[bytes]:
    return zlib.decompress(base64.b64decode(embedded.streams[phase]), 16 + zlib.MAX_WBITS).splitlines()


def line(sequence: int, phase: Phase, text: str) -> bytes:
    return msgspec.json.encode({"sequence": sequence, "phase": phase.value, "detail": {"text": text}}) + b"\n"


def test_events_that_the_result_has_already_are_not_put_in_twice() -> None:
    shown = reported.sample()
    more = line(900, Phase.INSTALL, "only in the events")
    embedded = island.rows(shown, [*reported.lines(shown), more])
    assert embedded.rows == len(shown.observations.items) + 1
    assert embedded.left_out == 0
    assert unfolded(embedded, Phase.INSTALL) == [more.rstrip()]


@pytest.mark.threat("R26")
def test_a_phase_that_floods_with_what_does_not_pack_is_cut_and_pushes_no_other_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "REPORT_PHASE_PACKED_BYTES", 50_000)
    flood = [line(number, Phase.INSTALL, os.urandom(400).hex()) for number in range(1, 500)]
    last = line(1000, Phase.EXERCISE, "the one that matters")
    embedded = island.rows(reported.sample(observations=result.Observations()), [*flood, last])
    assert unfolded(embedded, Phase.EXERCISE) == [last.rstrip()]
    packed = len(base64.b64decode(embedded.streams[Phase.INSTALL]))
    assert 40_000 < packed <= 50_000 + 64  # the end of a gzip stream comes on top
    assert embedded.rows + embedded.left_out == 500


def test_what_packs_well_is_bounded_by_what_it_unfolds_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPORT_PHASE_BYTES", 100_000)
    flood = [line(number, Phase.INSTALL, "a" * 400) for number in range(1, 1001)]
    embedded = island.rows(reported.sample(observations=result.Observations()), flood)
    assert sum(len(entry) + 1 for entry in unfolded(embedded, Phase.INSTALL)) <= 100_000
    assert embedded.left_out == 1000 - embedded.rows > 0


def test_what_packs_well_is_not_cut_for_what_it_was_before_it_was_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPORT_PHASE_PACKED_BYTES", 20_000)
    flood = [line(number, Phase.INSTALL, "a" * 400) for number in range(1, 1001)]
    assert island.rows(reported.sample(observations=result.Observations()), flood).left_out == 0


def test_json_of_an_island_holds_nothing_that_html_acts_on() -> None:
    text = island.json({"</script>": ["<!--", "&amp;", "\u2028\u2029"]})
    assert not set("<>&\u2028\u2029") & set(text)
    assert msgspec.json.decode(text) == {"</script>": ["<!--", "&amp;", "\u2028\u2029"]}
