"""Open what came from the other side, for a person or a model: redacted, inert, bounded, marked.

Invariants: this module is the only one in `content` that opens an `Untrusted`, and only it makes `ControlledContent`.
For a person everything is inert; for a model (`present`) the bytes are those of the workspace, redaction and announced
clipping apart, inside a fence that they cannot close.
Credentials are looked for before the text is cut and a little beyond the cut, so that a cut shows no half of one; then
everything that a terminal, a log or a page would act on becomes a visible escape.
"""

import secrets as os_secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, final

from fumehood.content import secrets, terminal
from fumehood.content.passage import Answer
from fumehood.core import limits
from fumehood.core.jsonio import JsonValue
from fumehood.core.untrusted import Untrusted

_BEYOND_BYTES = 16 * 1024  # as far as a private key can reach
_SEAL: Final = object()


@final
class ControlledContent:
    """Text that has passed the control: a proof type, without a public constructor."""

    __slots__ = ("cut_bytes", "hits", "source", "text")

    def __init__(self, seal: object, *, text: str, source: str, hits: Mapping[str, int], cut_bytes: int) -> None:
        """Refuse whoever is not this module."""
        if seal is not _SEAL:
            raise TypeError("ControlledContent is made by content.control only")
        self.text: Final = text
        self.source: Final = source
        self.hits: Final = hits  # rule → how many were replaced in what is shown
        self.cut_bytes: Final = cut_bytes

    def __repr__(self) -> str:
        """Size and source, never content."""
        return f"<ControlledContent {len(self.text)} characters from {self.source}>"


def control(untrusted: Untrusted, *, limit_bytes: int = limits.TEXT_BYTES, lines: bool = False) -> ControlledContent:
    """The beginning of what came, redacted and inert; `lines` keeps line ends and tabs."""
    data = untrusted.reveal()
    end = terminal.boundary(data, limit_bytes)
    # A character never spans the two parts: `end` is a boundary, and a byte that is no UTF-8 decodes alone.
    shown = terminal.decode(data[:end])
    beyond = terminal.decode(data[end : terminal.boundary(data, end + _BEYOND_BYTES)])
    spans = [span for span in secrets.find_text(shown + beyond) if span.start < len(shown)]
    kept = [secrets.Span(start=s.start, end=min(s.end, len(shown)), rule=s.rule) for s in spans]
    text = terminal.escape_text(secrets.replace(shown, kept), lines=lines)
    cut_bytes = len(data) - end
    return ControlledContent(
        _SEAL,
        text=text + terminal.cut_note(cut_bytes),
        source=untrusted.source,
        hits=Counter(span.rule for span in kept),
        cut_bytes=cut_bytes,
    )


def inert(untrusted: Untrusted, *, limit_bytes: int = limits.TEXT_BYTES, lines: bool = False) -> str:
    """The text of `control`, for a field of a result."""
    return control(untrusted, limit_bytes=limit_bytes, lines=lines).text


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """Which controls are on, and what they were given at the start of the process."""

    key: bytes  # random per process: equal secrets stay equal, and nobody outside can try values
    redact: bool = True
    scan: bool = True
    datamark: bool = False
    line_characters: int = limits.LINE_CHARACTERS
    rules: secrets.Extra | None = None  # an operator's own (content.rulefile)
    fresh: Callable[[], str] = lambda: os_secrets.token_hex(16)  # 128 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """A reply's two halves after every control, and what the controls did.

    `report` holds `redaction` (`applied`, `count`, `rules`), `signals`, `risk`, `level`, `nonce`, `clipped_lines`.
    """

    text: str
    facts: dict[str, JsonValue]
    report: dict[str, JsonValue]


def present(answer: Answer, controls: Controls) -> Presented:
    """Both halves of a reply: what was found in credentials replaced, what looks like instructions reported, fenced."""
    from fumehood.content import presenting  # noqa: PLC0415 - a review, which needs none of it, runs without the extra

    return presenting.presented(answer, controls, Untrusted.reveal)


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedError:
    """The words of a refusal after the search for credentials; `redaction` is that of a `Presented`'s report."""

    message: str
    redaction: dict[str, JsonValue]


def present_error(message: str, controls: Controls) -> PresentedError:
    """A message that quotes what was asked, without the credentials that are found in it."""
    from fumehood.content import presenting  # noqa: PLC0415 - as above

    return presenting.refused(message, controls)
