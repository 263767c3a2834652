"""Plausible words for an argument: by its format, else by its name. Pure; tables of ours, no word of a target's.

Names are under `.example` (RFC 2606) and addresses from the ranges for documentation (RFC 5737, RFC 3849): nothing here
belongs to anybody. `{workspace}` stands for the workspace, whose path differs each time.
"""

from collections.abc import Callable
from typing import Final

WORKSPACE: Final = "{workspace}"
FILE: Final = f"{WORKSPACE}/package.json"  # every workspace of an adapter for Node has one
URL: Final = "http://www.files.example/notes.txt"

_FORMATS: Final = {
    "uri": URL,
    "iri": URL,
    "url": URL,
    "uri-reference": URL,
    "iri-reference": URL,
    "uri-template": "http://www.files.example/{name}",
    "email": "ada@mail.example",
    "idn-email": "ada@mail.example",
    "hostname": "www.files.example",
    "idn-hostname": "www.files.example",
    "ipv4": "192.0.2.10",
    "ipv6": "2001:db8::10",
    "date-time": "2025-03-14T09:30:00Z",
    "date": "2025-03-14",
    "time": "09:30:00Z",
    "duration": "P1D",
    "regex": "^notes$",
    "json-pointer": "/name",
    "relative-json-pointer": "0/name",
    "byte": "bm90ZXM=",
    "base64": "bm90ZXM=",
    "path": FILE,
    "file-path": FILE,
    "directory-path": WORKSPACE,
}
# The first line that has a word of the name is taken.
_NAMES: Final = (
    (("email", "mail", "recipient", "sender"), "ada@mail.example"),
    (("url", "uri", "urls", "link", "href", "website", "webpage", "endpoint", "webhook"), URL),
    (("host", "hostname", "domain", "server"), "www.files.example"),
    (("ip", "ipaddress"), "192.0.2.10"),
    (("dir", "directory", "folder", "cwd", "workspace", "root", "directories"), WORKSPACE),
    (("destination", "output", "target", "outfile", "dest"), f"{WORKSPACE}/notes.txt"),
    (("path", "paths", "file", "files", "filename", "filepath", "source"), FILE),
    (("glob", "globs", "exclude", "include"), "*.json"),
    (("pattern", "regex"), "name"),
    (("query", "search", "term", "terms", "keyword", "keywords", "q", "topic", "subject"), "weather in London"),
    (("sql", "statement"), "SELECT 1"),
    (("command", "cmd", "shell"), "ls"),
    (("script", "code", "expression", "formula", "function", "javascript"), "1 + 1"),
    (("selector", "xpath", "css"), "body"),
    (("date", "day", "since", "until"), "2025-03-14"),
    (("timezone", "tz", "zone"), "Europe/London"),
    (("time",), "09:30"),
    (("timestamp", "datetime"), "2025-03-14T09:30:00Z"),
    (("city", "location", "place", "address", "region"), "London"),
    (("country",), "GB"),
    (("language", "lang", "locale"), "en"),
    (("currency",), "EUR"),
    (("symbol", "ticker"), "ABC"),
    (("color", "colour"), "#336699"),
    (("owner", "user", "username", "author", "login", "assignee"), "ada"),
    (("repo", "repository", "project", "package", "library", "module"), "notes"),
    (("branch", "ref", "base", "head"), "main"),
    (("version",), "1.0.0"),
    (("format", "type", "encoding", "mime"), "text"),
    (("id", "uuid", "guid", "ids", "key", "cursor"), "a1b2c3d4"),
    (("json", "data", "payload"), '{"name": "notes"}'),
    (("title", "name", "label", "tag", "tags"), "notes"),
    (("message", "text", "content", "body", "prompt", "description", "comment", "thought"), "The weather is fine."),
)
# Words of a tool's name: whose path is a folder, and whose path need not be there yet.
_OF_FOLDERS: Final = frozenset(
    ["dir", "directory", "directories", "folder", "folders", "tree", "list", "ls", "search", "find", "walk", "mkdir"]
)
_MAKING: Final = frozenset(["write", "create", "save", "make", "mkdir", "download", "export", "touch"])
_NUMBERS: Final = (
    (("port",), 8080),
    (("year",), 2025),
    (("month",), 3),
    (("day",), 14),
    (("page", "line", "start"), 1),
    (("offset", "skip"), 0),
    (("limit", "count", "max", "size", "top", "num", "results", "end", "lines", "head", "tail"), 10),
    (("latitude", "lat"), 51),
    (("longitude", "lon", "lng"), 0),
    (("width",), 800),
    (("height",), 600),
    (("timeout", "delay", "wait", "duration", "seconds", "steps"), 1),
)


def by_format(form: object, pick: Callable[[int], int]) -> str | None:
    """A text of a format, or None for one that is not known here."""
    if form == "uuid":
        digits = "".join("0123456789abcdef"[pick(16)] for _ in range(32))
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
    return _FORMATS.get(form) if isinstance(form, str) else None


def by_name(name: str, about: str = "") -> str:
    """A text for an argument of this name; of a path, `about` (the tool's name) tells what it should lead to."""
    said = _words(name)
    text = next((text for words, text in _NAMES if said.intersection(words)), "notes")
    if text != FILE:
        return text
    does = _words(about)
    if does & _OF_FOLDERS:
        return f"{WORKSPACE}/notes" if does & _MAKING else WORKSPACE
    return f"{WORKSPACE}/notes.txt" if does & _MAKING else FILE


def number(name: str) -> int | None:
    """A whole number for an argument of this name, or None where the name tells nothing."""
    said = _words(name)
    return next((value for words, value in _NUMBERS if said.intersection(words)), None)


def _words(name: str) -> frozenset[str]:
    """The words of a name: `maxResults`, `max_results` and `max-results` have the same two."""
    spaced = "".join(f" {c}" if c.isupper() else c if c.isalnum() else " " for c in name[:200])
    whole = "".join(c for c in name[:200] if c.isalnum())
    return frozenset([*spaced.lower().split(), whole.lower()])
