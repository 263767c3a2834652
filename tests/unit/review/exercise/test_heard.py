"""review.exercise.heard: what two starts are compared by, within bounds."""

from typing import Any

import pytest

from fumehood.core import limits
from fumehood.review.exercise import heard


def test_each_capability_has_the_digest_of_what_is_said_of_it() -> None:
    told = dict(heard.digests({"tools": {"listChanged": True}, "prompts": {}}))
    assert list(told) == ["tools", "prompts"]
    assert told["tools"] != told["prompts"]


@pytest.mark.threat("R6")
def test_of_many_capabilities_the_last_ones_have_one_digest_together() -> None:
    many: Any = {f"c{number}": {} for number in range(100_000)}
    told = dict(heard.digests(many))
    assert len(told) == limits.CAPABILITIES + 1
    changed = dict(heard.digests({**many, "c99999": {"x": 1}}))
    assert [name for name in told if told[name] != changed[name]] == ["…"]
