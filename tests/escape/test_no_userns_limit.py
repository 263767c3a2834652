"""A child on a host where the number of further user namespaces cannot be set: the filter alone refuses them."""

import dataclasses
from typing import Any

import pytest

from fumehood.sandbox.spec import Profile

pytestmark = pytest.mark.sandbox
Lab = Any
UNSHARED = "unshare=call(272, 0x10000000)"  # CLONE_NEWUSER
CLONED = "clone=call(56, 0x10000000 | 17)"


@pytest.fixture
def unlimited(lab: Lab) -> Lab:
    return dataclasses.replace(lab, host=dataclasses.replace(lab.host, no_userns_limit="Read-only file system"))


@pytest.mark.threat("C2")
def test_the_filter_refuses_a_further_user_namespace_by_itself(unlimited: Lab) -> None:
    # Of the profile for programs a Python does not start; what this one refuses that one refuses too.
    outcome = unlimited.run(f"say({UNSHARED}, {CLONED})", profile=Profile.REVIEW)
    assert outcome.said == {"unshare": "EPERM", "clone": "EPERM"}


def test_control_without_filter_and_limit_a_further_user_namespace_is_made(unlimited: Lab) -> None:
    outcome = unlimited.run(f"say({UNSHARED})", profile=Profile.REVIEW, without=("seccomp",))
    assert outcome.said["unshare"] == "OK"
