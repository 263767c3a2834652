"""Which URLs a remote server may have. Pure: no name is resolved here.

A credential in a URL would be shown wherever the URL is, so none is taken there (RFC 9110, section 4.2.4).
"""

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from fumehood.core.addresses import is_host_name, parse_address

_CHARACTERS: Final = re.compile(r"[!-~]{1,2000}")  # RFC 3986: ASCII, without spaces
_SCHEMES: Final = ("http", "https")


def problem(url: str, *, private: bool) -> str:
    """Why this is no URL of a server; empty when it is one. `private`: whether its host may be a private one."""
    found = split(url)
    if found is None:
        return "is not https://HOST[:PORT]/PATH, with an exact name in ASCII or an address"
    if found.username is not None or found.password is not None:
        return "holds a user or a password, which would be shown wherever the URL is"
    if found.fragment or url.endswith("#"):
        return "has a fragment, which no server gets"
    if found.scheme == "http" and not private and not is_loopback(found.hostname or ""):
        return "is plain http, which whoever is on the way can read and change"
    return ""


def split(url: str) -> SplitResult | None:
    """The parts of a URL of http or https with a usable host and port; None when it is none."""
    if not _CHARACTERS.fullmatch(url) or "\\" in url:
        return None
    try:
        found = urlsplit(url)
        usable = found.port != 0
    except ValueError:
        return None
    host = found.hostname or ""
    named = is_host_name(host.removesuffix(".")) or ("%" not in host and parse_address(host) is not None)
    return found if usable and named and found.scheme in _SCHEMES else None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by what it is called (RFC 6761, section 6.3)."""
    address = parse_address(host)
    if address is None:
        name = host.lower().removesuffix(".")
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback
