"""What was under way at a moment."""

from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.evidence.timeline import Timeline

MOMENTS = st.floats(min_value=0, max_value=2e9)


def test_before_anything_began_an_event_belongs_to_the_step_alone() -> None:
    timeline = Timeline("exercise")
    timeline.begin("start", 10.0)
    assert timeline.at(9.9) == "exercise"
    assert timeline.at(None) == "exercise"


def test_an_event_belongs_to_what_began_last_before_it() -> None:
    timeline = Timeline("exercise")
    for activity, moment in (("start", 10.0), ("initialize", 11.0), ("linger", 12.5)):
        timeline.begin(activity, moment)
    assert [timeline.at(moment) for moment in (10.0, 10.9, 11.0, 12.4, 99.0)] == [
        "exercise/start",
        "exercise/start",
        "exercise/initialize",
        "exercise/initialize",
        "exercise/linger",
    ]


@given(st.lists(MOMENTS, max_size=20), MOMENTS)
def test_what_began_later_is_never_before_what_began_earlier(begun: list[float], asked: float) -> None:
    timeline = Timeline("s")
    for number, moment in enumerate(begun):
        timeline.begin(str(number), moment)
    order = [-1 if "/" not in found else int(found[2:]) for found in map(timeline.at, sorted([asked, *begun]))]
    assert order == sorted(order)
