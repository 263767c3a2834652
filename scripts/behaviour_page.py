"""Write docs/reference/behaviours.md from the fixtures of behaviours and the ends of fixture servers."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "behaviours.md"
sys.path.insert(0, str(ROOT / "tests"))

from behaviours import Behaviour, behaviours  # noqa: E402  # after the path is known

_ANSWERS = {  # fixture → what it does instead of answering as it should
    "noisy": "prints a banner before its first frame",
    "answers-twice": "answers twice",
    "huge-line": "answers with a line of 60 MB",
    "flooding": "sends 200,000 notifications first",
    "deep": "answers with JSON nested 100,000 deep",
    "silent": "never answers",
    "exit-early": "exits",
    "other-id": "answers with another id",
}
_HEAD = """# Behaviours that a review records

Each was met in the field. Its package is a fixture; its quiet twin is the same package without the act. A review of the
package records the facts below, in this phase and by this collector; two reviews of the twin show no difference to each
other, and the difference between twin and package names the act (`e2e/test_behaviours.py`; behaviour 11:
`e2e/test_fixture_servers.py`). All run under `SINKHOLE` with canaries: what is sent reaches nobody.

Limits first: the facts are those of one run under these conditions ([limits of a review](../limits/review.md)). A row
says what was recorded, not what it means.
"""


def page() -> str:
    """The whole page."""
    known = {behaviour.number: behaviour for behaviour in behaviours()}
    sections = (_section(known[number]) if number in known else _answers(number) for number in range(1, 13))
    return "\n".join([_HEAD, *("\n".join(section) for section in sections)])


def _section(behaviour: Behaviour) -> Iterator[str]:
    yield f"## {behaviour.number}. {behaviour.name[0].upper()}{behaviour.name[1:]}"
    yield ""
    yield "| fact | phase | type | collector | recorded |"
    yield "|---|---|---|---|---|"
    for fact in behaviour.fact:
        said = ", ".join(f"`{name}` `{pattern}`" for name, pattern in fact.detail.items())
        where = f"{fact.phase} (`{fact.step}`)" if fact.step else fact.phase
        yield f"| {fact.words} | {where} | `{fact.type}` | {fact.collector} | {said} |"
    yield ""


def _answers(number: int) -> Iterator[str]:
    ends = tomllib.loads((ROOT / "tests/fixtures/servers/ends.toml").read_text(encoding="utf-8"))
    yield f"## {number}. A server that does not answer as it should"
    yield ""
    yield "The noise is counted by the collector `protocol`; memory and time are bounded."
    yield ""
    yield "| it | fixture | state | code |"
    yield "|---|---|---|---|"
    for name, words in _ANSWERS.items():
        state, code = ends[name]
        yield f"| {words} | `{name}` | `{state}` | {f'`{code}`' if code else ''} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
