"""How a review shows what the target chose: redacted, inert, bounded. One control for every field."""

from fumehood.review import result
from fumehood.review.ledger import inert


def show(data: bytes) -> str:
    """Bytes of the target as text that no terminal, log or page acts on."""
    return inert(data.decode("utf-8", "backslashreplace"))


def show_text(text: str) -> str:
    """Text of the target, likewise."""
    return show(text.encode("utf-8", "surrogatepass"))


show_untrusted = result.shower(show)
