"""`report.html`: one page, one file, without a request to anywhere. Pure, but for reading its own packaged parts.

Invariants: the policy in the page allows its own two scripts and its style by their digests and nothing else, not even
to load an image; it requires trusted types and defines none, so that no text ever becomes an element. What comes from
the target stands in the page as escaped text, or in an island of data that the page's program reads and shows as text.
The parts of a reviewer's first minutes are HTML and need no program.

Threats: markup, bidirectional text and keys like `__proto__` in any field of a result; a result that is too large to
open. Not promised: a browser without DecompressionStream (before 2023) shows the parts that need no program only.
"""

import base64
import functools
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from fumehood.review.report import island, standing
from fumehood.review.report.island import Embedded
from fumehood.review.report.markup import Element, element, listing, raw, section, source
from fumehood.review.result import ReviewResult, encode

_PROGRAM = (
    *("text.js", "data.js", "parts.js", "timeline.js", "network.js", "files.js", "processes.js", "protocol.js"),
    *("canaries.js", "output.js", "events.js", "main.js"),
)
# What the page's program fills in: name, title, introduction.
_FILLED = (
    ("timeline", "Timeline", "How long each step took, and what was seen when."),
    ("network", "Network", "What was asked for and contacted, joined by step, name and port."),
    ("files", "Files", "What each phase left behind, from its layer; and what was read outside the workspace."),
    ("processes", "Processes", "Each program under the one that started it."),
    ("protocol", "Protocol", "What the server said of itself, what it defines, and the frames in order."),
    (
        "canaries",
        "Planted credentials",
        "Made up for this run, and worthless: where they were read, and where they went.",
    ),
    ("output", "Captured text", "What each step wrote to its streams, made inert."),
    ("events", "Every row", "All that the sensors recorded. The details of a row open below it."),
)
_LATER = ("timeline", "network", "files", "processes", "protocol", "canaries", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The packaged parts of a page."""

    chart: str
    program: str
    style: str


@functools.cache
def parts() -> Parts:
    """The parts as they are packaged: the bundled chart library, the page's program and style."""
    folder = resources.files("fumehood").joinpath("data/report")
    program = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _PROGRAM)
    return Parts(
        chart=folder.joinpath("uplot/uPlot.iife.min.js").read_text(encoding="utf-8").strip(),
        program=f'(() => {{\n"use strict";\n{program}\n}})();',
        style=folder.joinpath("uplot/uPlot.min.css").read_text(encoding="utf-8").strip()
        + "\n"
        + folder.joinpath("report.css").read_text(encoding="utf-8"),
    )


def render(result: ReviewResult, lines: Iterable[bytes], made_of: Parts | None = None) -> bytes:
    """The page of a result and of the lines of its `events.ndjson`."""
    made_of = made_of or parts()
    embedded = island.rows(result, lines)
    digest = hashlib.sha256(encode(result)).hexdigest()
    return source(_page(result, embedded, digest, made_of)).encode("utf-8")


def policy(made_of: Parts) -> str:
    """What the page may do: run its own two scripts and wear its own style, each by its digest."""
    return (
        f"default-src 'none'; script-src {_digest(made_of.chart)} {_digest(made_of.program)}; "
        f"style-src {_digest(made_of.style)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _page(result: ReviewResult, embedded: Embedded, digest: str, made_of: Parts) -> Element:
    name, version = standing.target(result)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy(made_of)),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{name} {version}: fumehood review"),
        raw("style", made_of.style),
    )
    return element("html", head, _body(result, embedded, digest, made_of), lang="en")


def _body(result: ReviewResult, embedded: Embedded, digest: str, made_of: Parts) -> Element:
    filled = {name: _filled(name, title, intro) for name, title, intro in _FILLED}
    filled["timeline"].insert(2, standing.steps(result))
    ended = standing.errors(result)
    sections = [
        *((ended,) if ended is not None else ()),
        standing.seen(result),
        standing.unseen(result, embedded),
        *(filled[name] for name in _LATER),
        standing.walls(result),
        filled["events"],
        standing.origin(result, digest),
    ]
    links = [element("a", part[0].text or "", href=f"#{part.get('id', '')}") for part in sections]
    return element(
        "body",
        element("a", "Skip to the facts", href="#seen", class_="skip"),
        element("nav", listing(*links), aria_label="Parts of this report"),
        element("div", standing.masthead(result), element("main", *sections), class_="page"),
        raw("script", island.json(island.head(result)), type="application/json", id="result"),
        *(
            raw("script", stream, type="text/plain", data_phase=phase.value, class_="rows")
            for phase, stream in embedded.streams.items()
        ),
        raw("script", made_of.chart),
        raw("script", made_of.program),
    )


def _filled(name: str, title: str, intro: str) -> Element:
    view = element(
        "div", element("p", "Being read …", class_="waiting"), id=f"{name}-view", class_="view", hidden="hidden"
    )
    without = element(
        "noscript", element("p", "This part needs JavaScript. result.json and events.ndjson have it too.")
    )
    return section(name, title, without, view, intro=intro)


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
