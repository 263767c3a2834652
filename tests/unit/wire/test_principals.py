"""What stands for a connection where the protocol knows none."""

import pytest

from fumehood.core import limits
from fumehood.core.errors import BusyError
from fumehood.wire.principals import Principals


@pytest.mark.threat("G16")
def test_each_principal_has_a_value_of_its_own() -> None:
    principals = Principals(lambda _: None)
    with principals.using("ada") as first, principals.using("bob") as other, principals.using("ada") as second:
        assert first is second
        assert first is not other
    with principals.using("ada") as again:
        assert again is first


@pytest.mark.threat("G15")
def test_whoever_was_here_longest_ago_is_forgotten_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRINCIPALS", 2)
    left: list[object] = []
    principals = Principals(left.append)
    with principals.using("ada") as ada, principals.using("bob") as bob:
        with pytest.raises(BusyError), principals.using("eve"):
            pass
        assert left == []
    with principals.using("eve") as eve:
        assert left == [ada]
    principals.close()
    assert set(left) == {ada, bob, eve}
    assert len(left) == 3


@pytest.mark.threat("G12")
def test_whoever_was_forgotten_comes_again_as_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRINCIPALS", 1)
    principals = Principals(lambda _: None)
    with principals.using("ada") as ada:
        pass
    with principals.using("bob") as bob:
        assert bob != ada
    with principals.using("ada") as again:
        assert again == ada


def test_whoever_is_used_again_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRINCIPALS", 2)
    left: list[object] = []
    principals = Principals(left.append)
    for name in ("ada", "bob", "ada", "eve"):
        with principals.using(name) as value:
            if name == "bob":
                bob = value
    assert left == [bob]
