"""review.report: one page without a request to anywhere, in which words of the target's are words."""

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from importlib import resources
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reported
from fumehood.observe.model import Phase
from fumehood.review import result
from fumehood.review.report import island, markup, page
from fumehood.review.states import State

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "a", "nav", "ul", "ol", "li", "div", "header", "p", "h1", "h2"),
    *("h3", "span", "dl", "dt", "dd", "strong", "time", "main", "section", "article", "code", "table", "caption"),
    *("thead", "tbody", "tr", "th", "td", "details", "summary", "noscript", "script", "wbr"),
}
JUDGING = ("verdict", "score", "severity", "risk", "safe", "unsafe", "malicious", "benign")
SMALL = page.Parts(chart="var uPlot;", program="main();", style="p{}")  # in place of what is packaged, for many pages
LIBRARY = "https://github.com/leeoniya/uPlot"  # stands in the library's own comment
words = st.one_of(
    st.sampled_from(reported.HOSTILE), st.text(max_size=60), st.text(alphabet="<>&\"'/!-]scriptSTYLE \u2028")
)


class Reader(HTMLParser):
    """What a page is made of, as a parser sees it that knows nothing of us."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.islands: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.words: list[str] = []
        self._inside: tuple[str, dict[str, str | None]] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in {"script", "style"}:
            self._inside = tag, dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[0]:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words.append(data)
        elif self._inside[0] == "script":
            self.islands.append((self._inside[1], data))
        else:
            self.styles.append(data)

    @property
    def told(self) -> dict[str, Any]:
        """The result without its rows."""
        found: dict[str, Any] = json.loads(next(text for where, text in self.islands if where.get("id") == "result"))
        return found

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows, in the order of the streams."""
        streams = [text for where, text in self.islands if where.get("class") == "rows"]
        unfolded = [zlib.decompress(base64.b64decode(text), 16 + zlib.MAX_WBITS) for text in streams]
        return [json.loads(line) for stream in unfolded for line in stream.splitlines()]

    @property
    def programs(self) -> list[str]:
        return [text for where, text in self.islands if "type" not in where]

    @property
    def policy(self) -> str:
        return next(
            value or "" for tag, name, value in self.attributes if name == "content" and value and "default" in value
        )


def read(shown: result.ReviewResult, made_of: page.Parts | None = None) -> Reader:
    return Reader(page.render(shown, reported.lines(shown), made_of).decode())


def foreign(reader: Reader) -> list[object]:
    """What is no element or attribute of ours, and what could act or lead out."""
    acting = [a for a in reader.attributes if a[1].startswith("on") or a[1] in {"style", "src", "srcdoc", "action"}]
    leading = [a for a in reader.attributes if a[1] == "href" and not re.fullmatch(r"#[a-z]+", a[2] or "")]
    return [*sorted(reader.tags - TAGS), *acting, *leading]


@pytest.mark.threat("R26")
@given(word=words)
@settings(max_examples=60)
def test_whatever_stands_in_a_result_is_text_in_the_page(word: str) -> None:
    shown = reported.poisoned(reported.sample(), word)
    reader = read(shown, SMALL)
    assert foreign(reader) == []
    assert len(reader.programs) == 2
    assert len(reader.styles) == 1


@pytest.mark.threat("R26")
@given(word=words)
@settings(max_examples=60)
def test_the_islands_give_back_what_was_put_in(word: str) -> None:
    shown = reported.poisoned(reported.sample(), word)
    reader = read(shown, SMALL)
    whole = json.loads(msgspec.json.encode(shown))
    items = whole["observations"].pop("items")
    assert reader.told == whole
    assert reader.rows == items


@pytest.mark.threat("R26")
def test_an_ordinary_result_stands_in_the_page_as_it_is() -> None:
    reader = read(reported.sample())
    text = "".join(reader.words)
    for expected in (
        "npm:@scope/server 1.2.3",
        "COMPLETED",
        "the trace was cut",
        result.FIRST_LIMITATION,
        "use cgroup v2",
    ):
        assert expected in text
    assert foreign(reader) == []


def unguarded(tag: str, text: str, **attributes: str) -> markup.Element:
    """A script that may hold anything."""
    made = markup.element(tag, **attributes)
    made.text = text
    return made


def unescaped(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Take one of the two escapings out."""
    if what == "island":
        monkeypatch.setattr(island, "json", json.dumps)
        monkeypatch.setattr(page, "raw", unguarded)
    else:
        monkeypatch.setattr("xml.etree.ElementTree._escape_cdata", str)


@pytest.mark.threat("R26")
@pytest.mark.parametrize("what", ["island", "text"])
def test_without_one_of_the_escapings_a_foreign_element_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unescaped(monkeypatch, what)
    assert "img" in read(reported.poisoned(reported.sample(), reported.HOSTILE[0])).tags


@pytest.mark.threat("R26")
def test_a_script_that_would_end_early_is_never_written() -> None:
    with pytest.raises(ValueError, match="may not hold a tag"):
        markup.raw("script", "</SCRIPT>")


@pytest.mark.threat("R26")
def test_the_page_may_do_nothing_but_run_its_own_two_programs() -> None:
    reader = read(reported.sample())
    digests = [
        base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (*reader.programs, *reader.styles)
    ]
    chart, program, style = digests
    assert reader.policy == (
        f"default-src 'none'; script-src 'sha256-{chart}' 'sha256-{program}'; style-src 'sha256-{style}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


@pytest.mark.threat("R26")
def test_no_address_from_outside_stands_in_the_page() -> None:
    reader = read(reported.sample())
    ours = [*reader.programs, *reader.styles, *(value or "" for _, _, value in reader.attributes)]
    found = [one for text in ours for one in re.findall(r"https?://[^\s\"'`]+|url\([^)]*\)|@import[^;]*", text)]
    assert found == [LIBRARY]
    assert [
        word for text in ours for word in re.findall(r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource)\(", text)
    ] == []


def test_no_word_of_ours_judges() -> None:
    reader = read(reported.sample(limitations=("first",)))
    text = " ".join([*reader.words, *(p for p in reader.programs if "fumehood" in p)]).lower()
    assert [word for word in JUDGING if re.search(rf"\b{word}\b", text)] == []


def test_every_link_leads_to_a_part_of_the_page() -> None:
    reader = read(reported.sample())
    names = {value for _, name, value in reader.attributes if name == "id"}
    assert {f"#{name}" for name in names} >= {value for _, name, value in reader.attributes if name == "href"}


def test_a_result_of_a_review_that_started_nothing_is_a_page_too() -> None:
    nothing: dict[str, object] = {
        "execution": result.Execution(status=State.HARNESS_ERROR, started_at="", ended_at=""),
        "observations": result.Observations(),
        "collectors": (),
        "containment": (),
        "errors": (),
        "limitations": (result.FIRST_LIMITATION,),
    }
    reader = read(reported.sample(**nothing))
    text = " ".join(reader.words)
    assert "no wall stood" in text
    assert "no sensor of this ran" in text
    assert "No step was started" in text
    assert reader.rows == []


def test_rows_beyond_the_bounds_are_left_to_the_events_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumehood.core.limits.REPORT_PHASE_BYTES", 2000)
    shown = reported.sample()
    reader = read(shown)
    assert 0 < len(reader.rows) < len(shown.observations.items)
    left = len(shown.observations.items) - len(reader.rows)
    assert f"{left} rows left to events.ndjson" in " ".join(reader.words)
    assert {row["phase"] for row in reader.rows} == {Phase.EXERCISE.value}


def test_the_bundled_library_is_the_published_one() -> None:
    folder = resources.files("fumehood").joinpath("data/report/uplot")
    digests = {entry.name: hashlib.sha256(entry.read_bytes()).hexdigest() for entry in folder.iterdir()}
    assert digests == {  # of the package's version 1.6.32
        "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
