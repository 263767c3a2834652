"""What a command needs beyond the core, by the name of the extra that brings it."""

import importlib.util
from collections.abc import Mapping

from fumehood.core.errors import UnsupportedError

# Without a grammar or ripgrep a server still serves, and says what it lacks; without one of these it cannot.
MODULES: Mapping[str, tuple[str, ...]] = {
    "cluster": ("distributed",),
    "code": ("websockets",),
    "sign": ("cryptography",),
    "serve": ("ahocorasick_rs", "charset_normalizer", "httpcore2", "jwt", "mcp", "re2", "uvicorn"),
}


def need(extra: str) -> None:
    """Errors: `UnsupportedError`, which names what is missing, before anything of it is wanted."""
    missing = [name for name in MODULES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"the extra `{extra}` is not installed: {', '.join(missing)} is missing",
            remedy=f"pip install 'fumehood[{extra}]'",
        )
