"""What `fumehood doctor` says about running programs. Pure."""

from typing import Literal

import msgspec

from fumehood.code.attestation import Standing

_REMEDY = "fumehood code selftest"


class SelfTest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is remembered of this user's last self test that was passed; empty and 0 where nothing is."""

    counts: bool  # for what is here now: a runner starts without another one
    passed_at: str  # RFC 3339
    trials: int
    reasons: list[str]  # why it does not count


class Code(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Running programs on this host, with these settings."""

    runs: bool  # whether there is a Deno and a route
    route: Literal["user", "dropped", "root"] | None
    deno: str  # its version; empty where there is none
    why: str  # why nothing can be run
    remedy: str
    self_test: SelfTest
    runner_url: str  # where programs are sent instead; empty where they run here


def self_test(found: Standing | None) -> SelfTest:
    """What is remembered, for the document; None where there is nothing that it could be of."""
    if found is None:
        return SelfTest(counts=False, passed_at="", trials=0, reasons=["nothing can be run"])
    record = found.record
    return SelfTest(
        counts=record is not None and not found.reasons,
        passed_at=record.moment if record else "",
        trials=record.trials if record else 0,
        reasons=list(found.reasons),
    )


def as_lines(code: Code) -> list[str]:
    """The section for a person."""
    if not code.runs:
        lines = ["Running programs: none can be run here", f"      why: {code.why}"]
        lines += [f"      remedy: {code.remedy}"] if code.remedy else []
    else:
        lines = [f"Running programs: they can be run here, by the route {code.route}, with Deno {code.deno}"]
        lines += _remembered(code.self_test)
    lines += [f"  they are sent to {code.runner_url}, and none is run here"] if code.runner_url else []
    return lines


def _remembered(test: SelfTest) -> list[str]:
    passed = f"passed at {test.passed_at}, {test.trials} trials" if test.passed_at else "none is remembered"
    if test.counts:
        return [f"  self test  {passed}, with what is here"]
    return [f"  self test  {passed}; does not count: {', '.join(test.reasons)}", f"      remedy: {_REMEDY}"]
