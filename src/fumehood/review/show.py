"""How a review shows what the target chose: redacted, inert, bounded. One control for every field."""

from fumehood.content import control
from fumehood.core.untrusted import Untrusted
from fumehood.review import result


def show(data: bytes) -> str:
    """Bytes of the target as text that no terminal, log or page acts on."""
    return control.inert(Untrusted(data, source="target"))


def show_text(text: str) -> str:
    """Text of the target, likewise."""
    return show(text.encode("utf-8", "surrogatepass"))


show_untrusted = result.shower(show)
