"""What was met in the field is recorded: each fact, in its phase, by its collector; and of a quiet twin nothing."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from behaviours import Behaviour, behaviours
from e2e.bench import Bench, Reviewed
from fumehood.review import result
from fumehood.review.behaviour import diff
from fumehood.sandbox.hostfacts import HostFacts

pytestmark = pytest.mark.sandbox
ALL = {behaviour.number: behaviour for behaviour in behaviours()}
Make = Callable[[Behaviour], "Pair"]


class Pair:
    """A package and its quiet twin, each reviewed when it is asked for."""

    def __init__(self, behaviour: Behaviour, bench: Bench) -> None:
        """Make both folders."""
        self._behaviour = behaviour
        self._bench = bench
        self._folders = {quiet: behaviour.make(bench.out, quiet=quiet) for quiet in (False, True)}
        self.package = self.review(quiet=False)
        self.twin = self.review(quiet=True)

    def review(self, *, quiet: bool) -> Reviewed:
        """One review more."""
        wishes = {"network_mode": "SINKHOLE", "canaries": True, **self._behaviour.request}
        return self._bench.folder(self._folders[quiet], **wishes)


@pytest.fixture(scope="session")
def pair(review_host: HostFacts, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The pair of a behaviour."""
    kept: dict[int, Pair] = {}

    def find(behaviour: Behaviour) -> Pair:
        if behaviour.number not in kept:
            out = tmp_path_factory.mktemp(f"behaviour-{behaviour.number}")
            kept[behaviour.number] = Pair(behaviour, Bench(host=review_host, out=out))
        return kept[behaviour.number]

    return find


def compared(old: Reviewed, new: Reviewed) -> diff.Comparison:
    """What `review diff` says of two results."""
    one, other = (msgspec.json.decode(review.raw, type=result.ReviewResult) for review in (old, new))
    return diff.compare(one, other)


@pytest.mark.threat("R4")
@pytest.mark.parametrize("number", sorted(ALL))
def test_each_fact_is_recorded_in_its_phase_by_its_collector(pair: Make, number: int) -> None:
    review = pair(ALL[number]).package
    assert review.ended == ("COMPLETED", "")
    rows: list[dict[str, Any]] = review.result["observations"]["items"]
    places = {"home": review.home, "workspace": review.workspace}
    assert [fact for fact in ALL[number].fact if not any(fact.is_row(row, places) for row in rows)] == []


@pytest.mark.parametrize("number", sorted(ALL))
def test_of_a_quiet_twin_no_such_fact_is_invented(pair: Make, number: int) -> None:
    review = pair(ALL[number]).twin
    assert review.ended == ("COMPLETED", "")
    said = json.dumps(review.result["observations"]["items"])
    assert [word for word in ALL[number].differs if word in said] == []


@pytest.mark.parametrize("number", sorted(ALL))
def test_two_reviews_of_a_quiet_twin_show_no_difference(pair: Make, number: int) -> None:
    one = pair(ALL[number])
    again = one.review(quiet=True)
    assert compared(one.twin, again).differs is False
    assert one.twin.result["behaviour"] == again.result["behaviour"]


@pytest.mark.parametrize("number", sorted(ALL))
def test_the_difference_to_the_quiet_twin_names_the_act(pair: Make, number: int) -> None:
    one = pair(ALL[number])
    said = json.dumps(msgspec.to_builtins(compared(one.twin, one.package).sections))
    assert [word for word in ALL[number].differs if word not in said] == []
