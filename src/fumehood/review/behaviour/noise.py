"""What differs between two runs of the same program, taken out of texts by a table with reasons. Pure.

A run has a random user, host and workspace, and programs draw names of their own for what is temporary. Each such piece
becomes a placeholder in angle brackets, so that two runs that did the same say the same.

Invariants: linear in the text; what a placeholder stands for is never kept; applying it twice changes nothing more.
Not promised: that a target's own clock, counter or random name is known here. What is missed is a difference that
means nothing; what is caught by mistake is a difference that is not told. docs/reference/behaviour.md has the table.
"""

import functools
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

EPHEMERAL = range(32768, 61000)  # ip_local_port_range of Linux: the kernel's own choice of a port
_POOL = ipaddress.ip_network("198.18.0.0/15")  # the engine answers names with these, in the order of the questions
_NODE_TEMP, _NPM_TEMP, _PYTHON_TEMP = 6, 8, 8  # random characters that mkdtemp, npm's renames and tempfile append
_TOKEN = 24  # characters of a word that is drawn at random: 16 bytes in base64
_LONGEST = 4096  # characters of a path, PATH_MAX of Linux: results come from strangers
_SHARED = ("/var/", "/run/", "/tmp/", "/etc/")  # noqa: S108 - read in a text; folders where users' names are files' names
_SHORT_TOKEN, _FIGURES = 16, 3  # characters of a key of capitals and figures; figures of a word in lower case
_ALNUM = re.compile(r"[A-Za-z0-9_]+\Z")


def _temporary(found: re.Match[str]) -> str:
    """The first name below a tmp folder, without what a library of temporary files drew."""
    name = found[0]
    if name.startswith("tmp."):
        return "tmp.<random>"
    if name.startswith("tmp") and len(name) == len("tmp") + _PYTHON_TEMP:
        return "tmp<random>"
    head, dash, tail = name.rpartition("-")
    return f"{head}-<random>" if dash and len(tail) == _NODE_TEMP and _ALNUM.match(tail) else name


def _renamed(found: re.Match[str]) -> str:
    """A hidden name that npm gave a folder while it swapped it."""
    head, dash, tail = found[0].rpartition("-")
    drawn = len(tail) == _NPM_TEMP and _ALNUM.match(tail) and not tail.isalpha()
    return f"{head}-<random>" if dash and drawn else found[0]


def _hexadecimal(found: re.Match[str]) -> str:
    word = found[0].lower()
    return "<hex>" if any(c in "abcdef" for c in word) and any(c.isdigit() for c in word) else found[0]


def _token(found: re.Match[str]) -> str:
    """A word that no person chose: in three cases and long, of capitals and figures, or lower-cased for a name."""
    word = found[0]
    digits = sum(c.isdigit() for c in word)
    mixed = digits and any(c.isupper() for c in word) and any(c.islower() for c in word)
    plain = word.isalnum() and digits and digits < len(word)
    drawn = (
        (mixed and len(word) >= _TOKEN)
        or (plain and word.isupper())
        or (plain and word.islower() and digits >= _FIGURES and len(word) >= _TOKEN)
    )
    return "<token>" if drawn else word


def _port(found: re.Match[str]) -> str:
    return "<port>" if int(found[0]) in EPHEMERAL else found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of noise: what it looks like, what stands in its place, and why two runs differ in it."""

    name: str
    pattern: re.Pattern[str]
    put: str | Callable[[re.Match[str]], str]
    reason: str


TABLE: tuple[Rule, ...] = (  # in order: what an earlier rule has named, a later one does not see
    Rule(
        name="time",
        pattern=re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T_ -][0-9]{2}[:_-]?[0-9]{2}(?:[:_-]?[0-9]{2})?(?:[._][0-9]{1,9})?Z?"
        ),
        put="<time>",
        reason="logs are named and stamped with the moment",
    ),
    Rule(
        name="log line",
        pattern=re.compile(r"[EFIW][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} {1,16}[0-9]{1,10}"),
        put="<logged>",
        reason="klog begins a line with the moment and the number of the process",
    ),
    Rule(
        name="company",
        pattern=re.compile(r"(?<=\.)(?:[bcdfghklmnprstv][lrt]?[aeiou][lmnrs]?){3}(?=\.internal(?![A-Za-z0-9.-]))"),
        put="<company>",
        reason="the planted home names hosts of a company that was drawn for the run",
    ),
    Rule(
        name="cluster",
        pattern=re.compile(r"(?<=/clusters/c)[-_][0-9a-z]{5}(?![0-9A-Za-z])"),
        put="-<random>",
        reason="the planted settings of kubectl name a cluster that was drawn for the run",
    ),
    Rule(
        name="uuid",
        pattern=re.compile(r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"),
        put="<uuid>",
        reason="drawn at random for an installation or a session",
    ),
    Rule(
        name="address",
        pattern=re.compile(r"0x[0-9A-Fa-f]{6,}"),
        put="<address>",
        reason="the kernel places memory at random",
    ),
    Rule(
        name="pid",
        pattern=re.compile(r"(?<=/proc/)[0-9]+|(?<=/task/)[0-9]+"),
        put="<pid>",
        reason="numbers of processes and threads",
    ),
    Rule(
        name="compile cache",
        pattern=re.compile(r"(?<=/node-compile-cache/)[^\s]+"),
        put="<cache>",
        reason="Node names these by its version and the user's number",
    ),
    Rule(
        name="npm's cache",
        pattern=re.compile(r"(?<=_cacache/tmp/)[^/\s]+"),
        put="<random>",
        reason="npm unpacks under a random name",
    ),
    Rule(
        name="temporary",
        pattern=re.compile(r"(?<=/tmp/)[^/\s\"':;,<]+"),
        put=_temporary,
        reason="mkdtemp and its like append random characters",
    ),
    Rule(
        name="renamed",
        pattern=re.compile(r"(?<=/)\.[^/\s<]+"),
        put=_renamed,
        reason="npm swaps a package's folder under a hidden random name",
    ),
    Rule(
        name="atomic",
        pattern=re.compile(r"(?:\.[a-z-]{0,40}[0-9][0-9A-Za-z-]{0,80}){1,4}(?=\.te?mp(?![A-Za-z0-9]))"),
        put=".<random>",
        reason="a file that replaces another is written beside it under a name of the moment",
    ),
    Rule(
        name="hex",
        pattern=re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{11,}|[0-9A-F]{11,})(?![0-9A-Za-z])"),
        put=_hexadecimal,
        reason="identities and keys drawn at random",
    ),
    Rule(
        name="short hash",
        pattern=re.compile(r"(?<=[A-Za-z0-9]-)[0-9a-f]{7,8}(?![0-9A-Za-z-])"),
        put=_hexadecimal,
        reason="names made of the first digits of a hash over the workspace's random name",
    ),
    Rule(
        name="token",
        pattern=re.compile(rf"[A-Za-z0-9_+=-]{{{_SHORT_TOKEN},}}"),
        put=_token,
        reason="the same in base64; also what a target made of a planted credential",
    ),
    Rule(
        name="port",
        pattern=re.compile(r"(?<=:)[0-9]{5}(?![0-9])"),
        put=_port,
        reason="ports that the kernel chose",
    ),
    Rule(
        name="number",
        pattern=re.compile(r"[0-9]{6,}"),
        put="<number>",
        reason="times in seconds, counters, the suffix of a file that is written atomically",
    ),
)
_ADDRESS = re.compile(r"(?<![0-9.])198\.1[89]\.[0-9]{1,3}\.[0-9]{1,3}(?![0-9.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What one run drew: the names that its target saw, and the addresses that its names were given."""

    user: str = ""
    host: str = ""
    workspace: str = ""
    uid: int | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)  # of 198.18/15 → the name that was asked for
    places: Mapping[str, str] = field(default_factory=dict)  # a host of the operator's → its placeholder

    @property
    def home(self) -> str:
        """The home as the target saw it; empty where it is not known."""
        home = f"/home/{self.user}"
        if self.user and (not self.workspace or f"{self.workspace}/".startswith(f"{home}/")):
            return home
        return self.workspace.rpartition("/")[0]

    def text(self, text: str) -> str:
        """A text of the target's: an argument, a path, a target of HTTP."""
        for pattern, put in _drawn(self.workspace, self.home, self.host):
            text = pattern.sub(put, text)
        text = _ADDRESS.sub(lambda found: self._named(found[0]), text)
        for rule in TABLE:
            text = rule.pattern.sub(rule.put, text)
        return self._personal(text)

    def name(self, name: str) -> str:
        """The name of a host, or an address."""
        return self.places.get(name) or self.text(name)

    def port(self, port: int) -> int | str:
        """A port; one of the kernel's own choosing has no number."""
        return "<port>" if port in EPHEMERAL else port

    def _personal(self, text: str) -> str:
        """Where the user's name or number is a whole word; inside of words it is a word like any other."""
        if self.user and text == self.user:
            return "<user>"
        if self.uid is not None:
            if text == str(self.uid):
                return "<uid>"
            text = re.sub(rf"(?<=/user/){self.uid}(?![0-9])|(?<=-){self.uid}(?![0-9])", "<uid>", text)
        if self.user and text.startswith(_SHARED):
            text = "/".join("<user>" if part == self.user else part for part in text.split("/"))
        return text

    def _named(self, address: str) -> str:
        return self.addresses.get(address, "<named>")


@functools.lru_cache(maxsize=64)  # a result has one set of names
def _drawn(workspace: str, home: str, host: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Folders and the host as whole words, in each spelling; the longest first."""
    found = [
        (spelling, put)
        for piece, put in ((workspace, "<workspace>"), (home, "<home>"))
        if 1 < len(piece) <= _LONGEST
        for spelling in _spellings(piece)
    ]
    found += [(host, "<host>")] if 0 < len(host) <= _LONGEST else []
    return tuple((re.compile(rf"(?<![A-Za-z0-9]){re.escape(piece)}(?![A-Za-z0-9])"), put) for piece, put in found)


def _spellings(piece: str) -> tuple[str, ...]:
    """A folder as programs write it: as it is, behind the link that /home is, in a URL, as one name."""
    behind = (f"/var{piece}",) if piece.startswith("/home/") else ()
    return (*behind, piece, piece.replace("/", "%2F"), piece.replace("/", "-"))


def is_pooled(address: object) -> bool:
    """Whether an address is one that the engine gave to a name."""
    try:
        return ipaddress.ip_address(str(address)) in _POOL
    except ValueError:
        return False
