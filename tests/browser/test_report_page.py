"""A report in a browser: what it shows by eye, by hand and without its program, and what a hostile result cannot do."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import reported
from fumehood.review import result
from fumehood.review.report import island, markup, page

if TYPE_CHECKING:
    from browser.conftest import Browser

pytestmark = pytest.mark.browser
ROWS = 100_000


def rendered(shown: result.ReviewResult, made_of: page.Parts | None = None) -> bytes:
    return page.render(shown, reported.lines(shown), made_of)


def changed(take: str, put: str) -> page.Parts:
    """The parts of a page with one change to its program; the policy has the digest of the changed one."""
    parts = page.parts()
    assert parts.program.count(take) == 1
    return page.Parts(chart=parts.chart, program=parts.program.replace(take, put), style=parts.style)


@pytest.fixture(scope="module")
def sample() -> bytes:
    return rendered(reported.sample())


def harmless(seen: dict[str, Any]) -> dict[str, Any]:
    """What of a look has to be empty."""
    names = ("requests", "dialogs", "errors", "foreign", "violations", "polluted")
    return {name: seen[name] for name in names if seen[name]}


def test_every_part_shows_its_rows(browser: "Browser", sample: bytes) -> None:
    seen = browser.look("read", sample)
    assert seen["ready"] == "true"
    assert harmless(seen) == {}
    parts = seen["parts"]
    assert all(one in parts["network"] for one in ("mail.example", "answered", "POST /collect", "a=1", "198.51.100.7"))
    assert all(
        one in parts["files"] for one in (".ssh/authorized_keys", "0600", "0600 → 0644", "holds 3", "/etc/shadow")
    )
    assert all(
        one in parts["processes"] for one in ("node index.js", "sh -c 'sudo id'", "ENOENT", "status 127", "ptrace")
    )
    assert all(one in parts["protocol"] for one in ("2025-06-18", "send_mail", "a banner", "initialize", "declined"))
    assert "First line\nsecond line" in parts["protocol"]
    assert all(one in parts["canaries"] for one in ("npm token", "base64", "mail.example"))
    assert "started" in parts["output"]
    assert "exercise" in parts["timeline"]
    assert "could not be drawn" not in json.dumps(parts)


def test_the_first_minutes_need_no_program(browser: "Browser", sample: bytes) -> None:
    text = browser.look("plain", sample, javascript=False)["text"]
    for expected in (
        "npm:@scope/server",
        "COMPLETED",
        result.FIRST_LIMITATION,
        "strace lost 3",
        "use cgroup v2",
        "deadline",
    ):
        assert expected in text
    assert "This part needs JavaScript" in text
    assert "Being read" not in text


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_nothing_of_weight(browser: "Browser", sample: bytes, scheme: str, width: int) -> None:
    seen = browser.look("axe", sample, scheme=scheme, width=width, bypass=True)
    assert [found for found in seen["axe"] if found["impact"] in {"serious", "critical"}] == []


def test_the_page_can_be_walked_with_the_keyboard_alone(browser: "Browser", sample: bytes) -> None:
    seen = browser.look("keyboard", sample, steps=40, motion="reduce")
    first, *others = seen["walked"]
    assert first["text"] == "Skip to the facts"
    assert [place for place in (first, *others) if not place["outlined"]] == []
    assert {"a", "button", "summary", "div"} <= {place["tag"] for place in others}
    assert (seen["skipped"], seen["unfolded"], seen["expanded"]) == ("#seen", True, ["true", 1])
    assert seen["theme"][0] == "dark"
    assert harmless(seen) == {}


def test_search_and_filters_leave_the_rows_that_were_asked_for(browser: "Browser", sample: bytes) -> None:
    total = len(reported.rows())
    asked: list[tuple[str, dict[str, str], str]] = [
        ("", {}, f"{total} rows of {total}"),
        ("AUTHORIZED_keys", {}, f"1 row of {total}"),
        ("mail.example", {"type": "network.dns"}, f"1 row of {total}"),
        ("", {"collector": "egress", "type": "network.http"}, f"1 row of {total}"),
        ("no such word", {}, f"0 rows of {total}"),
        ("", {"phase": "EXERCISE", "step": "exercise"}, f"{total} rows of {total}"),
    ]
    seen = browser.look("search", sample, asked=[[word, filters] for word, filters, _ in asked])
    assert [one["status"].partition(" (")[0] for one in seen["asked"]] == [status for *_, status in asked]
    assert all(f"(of {total + 2} made;" in one["status"] for one in seen["asked"])


@pytest.mark.parametrize("width", [360, 1280])
def test_no_width_makes_the_page_scroll_sideways(browser: "Browser", sample: bytes, width: int) -> None:
    scrolled, inner = browser.look("narrow", sample, width=width)["overflow"]
    assert scrolled <= inner


def test_a_print_leaves_out_what_cannot_be_pressed(browser: "Browser", sample: bytes) -> None:
    assert browser.look("print", sample)["hidden"] is True


@pytest.mark.threat("R26")
def test_a_hostile_result_injects_nothing(browser: "Browser") -> None:
    seen = browser.look("read", rendered(reported.hostile()))
    assert seen["ready"] == "true"
    assert harmless(seen) == {}
    assert "could not be drawn" not in json.dumps(seen["parts"])
    assert "U+202E" in seen["parts"]["events"]
    assert "\u202e" not in json.dumps(seen["parts"], ensure_ascii=False)


@pytest.mark.threat("R26")
def test_with_the_island_left_unescaped_a_foreign_element_is_there(
    browser: "Browser", monkeypatch: pytest.MonkeyPatch
) -> None:
    def unguarded(tag: str, text: str, **attributes: str) -> markup.Element:
        made = markup.element(tag, **attributes)
        made.text = text
        return made

    monkeypatch.setattr(island, "json", json.dumps)
    monkeypatch.setattr(page, "raw", unguarded)
    seen = browser.look("plain", rendered(reported.poisoned(reported.sample(), reported.HOSTILE[0])))
    assert any("img" in found for found in seen["foreign"])
    assert any("onerror" in found for found in seen["foreign"])
    assert seen["dialogs"] == []  # the policy still stops what the element would do
    assert seen["violations"]


@pytest.mark.threat("R26")
def test_a_program_that_made_markup_of_text_would_be_stopped_by_the_policy(browser: "Browser") -> None:
    loose = changed(
        'return el("code", {}, shown(value));', 'const made = el("code"); made.innerHTML = value; return made;'
    )
    shown = rendered(reported.hostile(), loose)
    held = browser.look("read", shown)
    assert held["foreign"] == []
    assert any("require-trusted-types-for" in found for found in held["violations"])
    free = browser.look("read", shown, bypass=True)
    assert any("img" in found for found in free["foreign"])


def test_a_hundred_thousand_rows_are_read_and_searched(
    browser: "Browser", save: Callable[[str, dict[str, Any]], None]
) -> None:
    shown = page.render(reported.sample(observations=result.Observations(total=ROWS)), reported.many(ROWS))
    asked = [["", {}], ["package-77777", {}], ["work(4", {"type": "process.exec"}], ["node", {"phase": "EXERCISE"}]]
    seen = browser.look("search", shown, asked=asked)
    found = [one["status"].partition(" of ")[0] for one in seen["asked"]]
    assert found[0] == "100,000 rows"
    assert found[1:] == ["1 row", found[2], "20,000 rows"]
    assert all(one["drawn"] <= 100 for one in seen["asked"])
    assert seen["nodes"] < 20_000, seen["parts"]
    assert harmless(seen) == {}
    searches = [round(one["seconds"], 3) for one in seen["asked"]]
    figures = {
        "MiB": round(len(shown) / 2**20, 1),
        "ready_seconds": round(seen["seconds"], 2),
        "search_seconds": searches,
    }
    save("100,000 rows", {**figures, "longest_task": round(seen["longest"], 3), "heap_MiB": seen["heap"] // 2**20})
