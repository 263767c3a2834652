"""sandbox.confine: the limit of open files is raised as far as it may be, and never lowered."""

import resource
from collections.abc import Iterator

import pytest

from fumehood.sandbox import confine

FILES = resource.RLIMIT_NOFILE


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit; the soft one is given back afterwards."""
    before = resource.getrlimit(FILES)
    yield before[1]
    resource.setrlimit(FILES, before)


def test_a_lower_limit_is_raised_to_what_is_needed(hard: int) -> None:
    resource.setrlimit(FILES, (200, hard))
    assert confine.allow_files(300) == 300
    assert resource.getrlimit(FILES) == (300, hard)


def test_a_higher_limit_stays(hard: int) -> None:
    resource.setrlimit(FILES, (400, hard))
    assert confine.allow_files(300) == 400
    assert resource.getrlimit(FILES) == (400, hard)


def test_nothing_is_asked_for_beyond_the_hard_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [200, 250]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.__setitem__(slice(None), pair))
    assert confine.allow_files(300) == 250
    assert limits == [250, 250]


def test_where_there_is_no_limit_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("a limit was set"))
    assert confine.allow_files(300) == 300
