"""How a review shows what the target chose: redacted, inert, bounded. One control for every field."""

from fumehood.content import control
from fumehood.core import limits
from fumehood.core.untrusted import Untrusted


def show(data: bytes) -> str:
    """Bytes of the target as one line that no terminal, log or page acts on."""
    return control.inert(Untrusted(data, source="target"))


def show_lines(data: bytes) -> str:
    """Captured text, likewise; its line ends and tabs are kept."""
    return control.inert(Untrusted(data, source="output"), limit_bytes=limits.CAPTURE_BYTES, lines=True)


def show_text(text: str) -> str:
    """Text of the target, likewise."""
    return show(text.encode("utf-8", "surrogatepass"))


def show_untrusted(untrusted: Untrusted) -> str:
    """Text that is closed still."""
    return control.inert(untrusted)
