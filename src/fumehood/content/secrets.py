"""Find credentials in text by the formats that their issuers publish, and replace them. Pure.

Invariants: the work is linear in the text (every repetition is bounded); a placeholder names the rule, never the
value, and is never taken for a credential itself. A wrong checksum does not clear a token of its family: it is
replaced as `…-like`.

Not promised: that every credential is found. This is a net for accidents, not a control against a program that wants
to hide what it prints.

Sources: GitHub, "Behind GitHub's new authentication token formats" (CRC32 of the body in base 62, six characters), of
which npm's are a copy; AWS IAM, unique identifier prefixes; RFC 7468 (PEM), RFC 7519 (JWT), RFC 3986 section 3.2.1
(userinfo), RFC 7235 (Authorization); the key formats of the other issuers as their documentation shows them.
"""

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_CHARACTERS = 6
_CHECKED_BODY = 36  # thirty random characters and the checksum
_KEY_BLOCK_CHARACTERS = 16 * 1024  # an RSA key of 16,384 bits is 12.5 KB in PEM
_PLACEHOLDER = re.compile(r"\[redacted:[a-z-]{1,40}\]?")

# What is not unmistakable begins where no character of its own body precedes it, or right behind a terminal's colour.
_COLOURS = r"(?<=\x1b\[m)|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m)|(?<=\x1b\[[0-9];[0-9]{2}m)"
_LEFT = rf"(?:(?<![A-Za-z0-9])|{_COLOURS})"
_LEFT_WORD = rf"(?:(?<![A-Za-z0-9_-])|{_COLOURS})"

_TELLING_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|credential"
    r"|(?<![a-z0-9])_auth)"
)
_BETWEEN = r"\\{0,3}[\"']?\s{0,3}(?::=|=>|[:=])\s{0,3}"  # of a name and its value, also in JSON within JSON
_VALUE = r"\\{0,3}(?:\"([^\"\n]{6,1024})|'([^'\n]{6,1024})|([^\s\"'`,;&(){}<>]{6,1024}))"
_RANDOM_CHARACTERS = 8  # shorter words with a digit are ordinary


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One credential: `start` and `end` count characters of the text."""

    start: int
    end: int
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """A text without the credentials that were found in it, and how many of each rule."""

    text: str
    hits: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One pattern, tried where one of the `keywords` (lower case) stands; a group that matched is what is replaced."""

    name: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]
    accepts: Callable[[str], bool] = lambda _: True
    verified: Callable[[str], bool] = lambda _: True


def redact(text: str) -> Redacted:
    """Replace every credential that is found."""
    spans = find(text)
    return Redacted(text=replace(text, spans), hits=Counter(span.rule for span in spans))


def replace(text: str, spans: Iterable[Span]) -> str:
    """The text with a placeholder for each span; spans are in order and apart."""
    parts, place = [], 0
    for span in spans:
        parts += [text[place : span.start], f"[redacted:{span.rule}]"]
        place = span.end
    return "".join([*parts, text[place:]])


def find(text: str) -> list[Span]:
    """Every credential, in order; of those that overlap, the earliest, then the longest."""
    lowered = text.lower()
    found = [*_key_blocks(text)] if "private key" in lowered else []
    for rule in RULES:
        if any(keyword in lowered for keyword in rule.keywords):
            found += _matches(rule, text)
    kept: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
        elif span.end > kept[-1].end:  # neither end of what overlaps may stay
            kept[-1] = Span(start=kept[-1].start, end=span.end, rule=kept[-1].rule)
    return kept


def checksum_fits(body: str) -> bool:
    """Whether a token's last six characters are the CRC32 of those before them, in base 62."""
    number = zlib.crc32(body[:-_CHECKSUM_CHARACTERS].encode())
    digits = ""
    while number:
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits.rjust(_CHECKSUM_CHARACTERS, "0") == body[-_CHECKSUM_CHARACTERS:]


def _matches(rule: _Rule, text: str) -> Iterator[Span]:
    for match in rule.pattern.finditer(text):
        group = match.lastindex or 0
        value = match[group]
        if _PLACEHOLDER.match(value) or not rule.accepts(value):
            continue
        name = rule.name if rule.verified(value) else f"{rule.name}-like"
        yield Span(start=match.start(group), end=match.end(group), rule=name)


_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")


def _key_blocks(text: str) -> Iterator[Span]:
    """Private keys from their first line to their last, or as far as a key can reach where the last is missing."""
    place = 0
    while begin := _BEGIN.search(text, place):
        limit = begin.start() + _KEY_BLOCK_CHARACTERS
        end = _END.search(text, begin.end(), limit)
        place = end.end() if end else min(limit, len(text))
        yield Span(start=begin.start(), end=place, rule="private-key")


def _tail_fits(token: str) -> bool:
    body = token.rpartition("_")[2]
    return len(body) == _CHECKED_BODY and checksum_fits(body)


def _has_digit(value: str) -> bool:
    return any(character in "0123456789" for character in value)


def _looks_random(value: str) -> bool:
    """Ordinary words, types, references to variables and masks are no secrets."""
    reference = value.startswith(("$", "<", "process.env", "os.environ", "http://", "https://", "/", "./"))
    if reference or "*" in value or len(value) < _RANDOM_CHARACTERS:
        return False
    letters = any(character.isalpha() for character in value)
    return letters and _has_digit(value) and not any(character.isspace() for character in value)


def _is_password(value: str) -> bool:
    masked = set(value) <= set("*xX.•-_") or value.startswith(("$", "<", "process.env", "os.environ"))
    ordinary = value.isalpha() and (value.islower() or value.istitle())  # `password: string`, `passwords: Several`
    return not masked and not ordinary


def _rule(name: str, keywords: str, pattern: str, **checks: Callable[[str], bool]) -> _Rule:
    return _Rule(name=name, keywords=tuple(keywords.split()), pattern=re.compile(pattern), **checks)


RULES: tuple[_Rule, ...] = (
    _rule("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{20,255}", verified=_tail_fits),
    _rule("github-pat", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    _rule("npm-token", "npm_", _LEFT + r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])", verified=_tail_fits),
    _rule("gitlab-token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,255}"),
    _rule("pypi-token", "pypi-ageichlwas5vcmc", r"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,1000}"),
    _rule("aws-access-key", "akia asia", _LEFT + r"A[KS]IA[A-Z2-7]{16}(?![A-Za-z0-9])"),
    _rule("gcp-api-key", "aiza", _LEFT_WORD + r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _rule("gcp-oauth", "ya29. gocspx-", r"(?:ya29\.[A-Za-z0-9_-]{20,2048}|GOCSPX-[A-Za-z0-9_-]{28})"),
    _rule("slack-token", "xox xapp-", r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,255}", accepts=_has_digit),
    _rule(
        "slack-webhook", "hooks.slack", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,255})"
    ),
    _rule("stripe-key", "_live_ _test_ whsec_", _LEFT + r"(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{16,255}"),
    _rule("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,255}"),
    _rule("openai-key", "sk-", _LEFT_WORD + r"sk-(?!ant-)[A-Za-z0-9_-]{20,255}", accepts=_has_digit),
    _rule("huggingface-token", "hf_", _LEFT + r"hf_[A-Za-z0-9]{30,100}"),
    _rule("sendgrid-key", "sg.", _LEFT_WORD + r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    _rule(
        "jwt",
        "eyj",
        _LEFT_WORD + r"eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{4,16384}+\.[A-Za-z0-9_-]{0,2048}",
    ),
    _rule("url-credential", "://", r"://[^\s/:@\"'<>\[]{0,256}+:([^\s/@\"'<>]{1,1024})@"),
    _rule(
        "authorization",
        "authorization",
        r"(?i)authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?(?:[a-z]{1,20}\s{1,3})?([^\s\"',;]{6,4096})",
        accepts=_looks_random,
    ),
    _rule("bearer", "bearer", r"(?i)(?<![a-z0-9])bearer\s{1,3}([a-z0-9._~+/=-]{16,4096})", accepts=_has_digit),
    _rule(
        "password",
        "passw passphrase",
        r"(?i)(?:passw(?:or)?d|passphrase)[a-z0-9_-]{0,20}+" + _BETWEEN + _VALUE,
        accepts=_is_password,
    ),
    _rule(
        "assignment",
        "token secret key passw passphrase credential _auth",
        rf"(?i){_TELLING_NAME}[a-z0-9_-]{{0,20}}+{_BETWEEN}{_VALUE}",
        accepts=_looks_random,
    ),
    _rule(
        "option",
        "--",
        rf"(?i)(?<![a-z0-9-])--[a-z0-9-]{{0,30}}{_TELLING_NAME}[a-z-]{{0,20}}\s{{1,3}}(?!-){_VALUE}",
        accepts=_looks_random,
    ),
)
