"""A skip that nobody foresaw is a failure: a test that silently stopped running looks like one that passes."""

import os
import re
from collections.abc import Generator

import pytest

# What an ordinary user cannot do.
_NEEDS_ROOT = re.compile(
    r"\broot\b|is an ordinary user already|an ordinary user runs the same|an ordinary user has one uid"
)
# What a machine may lack. Each skip is listed by `-ra`, with its reason.
_MACHINE = re.compile(
    r"checkout lies where another user may not read|raw system calls of Linux|no cgroup (measures|of version 1)"
    r"|no Chromium on this machine"
)
_REGISTRY = re.compile(r"(npm registry|Python index) did not answer")


def is_expected(reason: str, *, uid: int, ci: bool) -> bool:
    """Whether a test may be skipped for `reason`, by this user, on this kind of machine."""
    if _REGISTRY.search(reason):
        return not ci
    if _NEEDS_ROOT.search(reason):
        return uid != 0
    return bool(_MACHINE.search(reason))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave what is marked for root to root."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn an unexpected skip into a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if not is_expected(reason, uid=os.geteuid(), ci=bool(os.environ.get("CI"))):
            report.outcome = "failed"
            report.longrepr = f"unexpected skip of {item.nodeid}: {reason} (foreseen ones are listed in tests/skips.py)"
    return report
