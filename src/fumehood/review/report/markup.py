"""Elements of the report's page. Pure.

Invariants: a word of the target's is only ever the text of an element or the value of an attribute that this package
named, and the serialiser escapes both; what a browser, an editor or a reader would act on (control, bidirectional and
zero-width characters) is shown as its escape. No element carries `style`, a handler or a link that leads out.
"""

from typing import TypeAlias
from xml.etree import ElementTree as ET

from fumehood.core import limits
from fumehood.review.evidence.ledger import inert

Element: TypeAlias = ET.Element
Child: TypeAlias = "Element | str"


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """One element. `class_` and `aria_label` become `class` and `aria-label`; text is made inert once more."""
    made = ET.Element(tag, {_name(key): inert(value) for key, value in attributes.items()})
    for child in children:
        append(made, child)
    return made


def append(parent: Element, child: Child) -> None:
    """Add an element, or text behind what the parent has already."""
    if not isinstance(child, str):
        parent.append(child)
        return
    text = inert(child, characters=limits.CAPTURE_BYTES)
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def code(text: str) -> Element:
    """A word of a machine: a path, a digest, a name."""
    return element("code", text)


def terms(*pairs: tuple[str, Child], **attributes: str) -> Element:
    """A list of terms with what each is; a pair stays together in a row."""
    rows = [element("div", element("dt", term), element("dd", value)) for term, value in pairs]
    return element("dl", *rows, **attributes)


def listing(*entries: Child, **attributes: str) -> Element:
    """A list of points."""
    return element("ul", *(element("li", entry) for entry in entries), **attributes)


def table(caption: str, heads: tuple[str, ...], rows: list[tuple[Child, ...]]) -> Element:
    """A table whose first column heads its rows, in a region that scrolls by itself and can be reached by keyboard."""
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    body = element("tbody", *(_row(cells) for cells in rows))
    whole = element("table", element("caption", caption), head, body)
    return element("div", whole, class_="scroll", role="region", aria_label=caption, tabindex="0")


def section(name: str, title: str, *children: Child, intro: str = "") -> Element:
    """One part of the page, a landmark by its heading."""
    heading = element("h2", title, id=f"{name}-title")
    before = (element("p", intro, class_="intro"),) if intro else ()
    return element("section", heading, *before, *children, id=name, aria_labelledby=f"{name}-title")


def source(page: Element) -> str:
    """The page as HTML. `script` and `style` are written as they are: only what is ours, or an island, stands there."""
    return "<!doctype html>\n" + ET.tostring(page, encoding="unicode", method="html") + "\n"


def raw(tag: str, text: str, **attributes: str) -> Element:
    """A `script` or `style` of ours; refuses text that would end it or open another."""
    if any(mark in text.lower() for mark in ("</", "<!--", "<script")):
        raise ValueError(f"text of a {tag} may not hold a tag")
    made = ET.Element(tag, {_name(key): value for key, value in attributes.items()})
    made.text = text
    return made


def _row(cells: tuple[Child, ...]) -> Element:
    first, *others = cells
    return element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in others))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
