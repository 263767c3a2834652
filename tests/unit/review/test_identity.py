import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.review.identity import folder, identity

# What a program that looks for a sandbox looks for in names.
TELLING = re.compile(
    r"sandbox|fumehood|review|analys|malware|test|target|untrusted|victim|runner|virtual", re.IGNORECASE
)


@pytest.mark.threat("R13")
@given(st.integers(0, 2**32))
def test_no_name_that_a_target_sees_is_telling_or_odd(seed: int) -> None:
    chance = random.Random(seed)
    made, workspace = identity(10001, chance), folder(chance)
    assert re.fullmatch(r"[a-z][a-z-]{1,31}", made.user)
    assert re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", made.host)
    assert not TELLING.search(f"{made.user} {made.host} {workspace}")
    assert made.home == f"/home/{made.user}"


@pytest.mark.threat("R13")
def test_names_differ_from_run_to_run_and_agree_for_one_chance() -> None:
    names = {(identity(10001, random.Random(seed)).host, folder(random.Random(seed))) for seed in range(100)}
    assert len(names) > 50
    assert identity(10001, random.Random(7)) == identity(10001, random.Random(7))
