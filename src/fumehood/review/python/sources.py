"""Which Python index the operator uses: the settings first, then the environment, pip's files, and what uv says.

Source: pip's documentation of configuration files (global, user, of the environment, then PIP_CONFIG_FILE; the later
wins, and variables win over all) and uv's of `UV_DEFAULT_INDEX` and `UV_INDEX_URL`.
"""

import configparser
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from fumehood.core.errors import HarnessError, RefusedError
from fumehood.core.sections import Settings
from fumehood.review import lacking
from fumehood.review.plan import Remote
from fumehood.sandbox import launch
from fumehood.sandbox.hostfacts import HostFacts

_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
_BYTES = 64 * 1024
_UV_FINDS = ("HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS")  # its own configuration


class BadIndexError(RefusedError):
    """The Python index of the operator's surroundings is none that a review can use."""

    code = "settings"


def index(settings: Settings, host: HostFacts, environ: Mapping[str, str]) -> Remote:
    """The Python index: of the settings, else of the environment or pip's files, else what the operator's uv says."""
    named = settings.review.index or _configured(environ) or _uv_says(host, environ)
    parts = urlsplit(named)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadIndexError("the index of pip or uv is none that is reached by http", remedy="set review.index")
    if parts.username or parts.password:
        raise BadIndexError("the index of pip or uv is named with credentials", remedy="set review.index, without them")
    return Remote.parse(named)


def _uv_says(host: HostFacts, environ: Mapping[str, str]) -> str:
    """The index that the operator's own uv would use, asked outside of any workspace and of any network."""
    uv, python = lacking.demand(host, "uv"), lacking.demand(host, "python")
    kept = {key: value for key, value in environ.items() if key in _UV_FINDS}
    options = ("--offline", "--no-cache", "--no-deps", "--no-header", "--emit-index-url", "--python", str(python))
    asked = launch.run_tool([str(uv), "pip", "compile", *options, "/dev/null"], environment=kept, timeout_seconds=20)
    lines = asked.stdout.decode("utf-8", "replace").splitlines()
    named = next((line.partition(" ")[2] for line in lines if line.startswith("--index-url ")), "")
    if asked.status != 0 or not named:
        raise HarnessError("uv does not say which index it uses", remedy="set review.index")
    return named


def _configured(environ: Mapping[str, str]) -> str:
    """The index that a variable, or else one of pip's files, names; empty when none does."""
    for name in _VARIABLES:
        if environ.get(name):
            return environ[name]
    if environ.get("PIP_CONFIG_FILE") == "/dev/null":
        return ""
    found = [url for path in _files(environ) if (url := _named(path))]
    return found[-1] if found else ""


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Pip's files, the strongest last."""
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    home = environ.get("HOME")
    if home:
        yield Path(home, ".pip", "pip.conf")
        yield Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config", "pip", "pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if environ.get("PIP_CONFIG_FILE"):
        yield Path(environ["PIP_CONFIG_FILE"])


def _named(path: Path) -> str:
    parser = configparser.RawConfigParser(strict=False)
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_string(file.read(_BYTES))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return ""
    return parser.get("global", "index-url", fallback="") or parser.get("global", "index_url", fallback="")
