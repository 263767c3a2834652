"""Whether what stands where a credential would stand is one: its shape, its entropy, and what else it could be. Pure.

Not promised: that a word is told from a password that is a word.
"""

import base64
import binascii
import dataclasses
import re

from fumehood.content.credentials.checks import entropy, has_digit, is_no_example
from fumehood.content.credentials.model import Found

_PASSWORD_CHARACTERS = 5  # shorter ones are numbers and words of a form
_KEY_CHARACTERS = 10  # shorter ones with a digit are names of versions, dates and parts
_LONG_CHARACTERS = 20  # letters alone are believed from here on
_LOOKED_BACK = 1024  # bytes before a `-u` in which the command's name stands

# A variable, a hole of a template, a call, an address, a path, a digest: where a value comes from, not the value.
_REFERENCE = re.compile(
    rb"\$|<|\{|%[({sS]|#\{|\[\[?|\.\.|!|@[a-z]+[./(]|&[a-z*]|(?:process\.)?env[.\[]|os\.|(?:https?|file|data|urn|arn):|\.{0,2}/"
    rb"|[a-z]:\\|sha(?:1|256|384|512)-|secrets?\.|vars?\.|local\.|module\.|vault:|ref\+|op://|ENC\[|\(",
    re.IGNORECASE,
)
_HOLE = re.compile(rb"\$\{|\{\{|\}\}|<[a-z_ -]+>|%\(\w+\)|\$\(|%[A-Z_]+%|#\{|\{\w*\}|(?-i:\$[A-Z_]{3})", re.IGNORECASE)
_CHAIN = re.compile(rb"[A-Za-z_$@][\w$]*(?:(?:\.|->|::|\?\.|!\.)[\w$]+|\[[\w\"']{0,64}\])+[!?]?$")  # a.b, A::B
_INDEXED = re.compile(rb"[A-Za-z_$][\w$.]*\[")
_VERSION = re.compile(rb"[\^~<>=v]{0,2}[0-9]+(?:\.[0-9x*]+)+$")
_NAME = re.compile(rb"[A-Za-z_$@][A-Za-z_$]*[0-9]{0,2}$")
_WORDS = re.compile(rb"(?:[A-Za-z]+|[0-9]{1,4}|[vV][0-9]{1,3}|[a-z]{3,}[0-9])?$")
_APART = re.compile(rb"[_./:\\ -]+")
_CAMEL = re.compile(rb"(?:[A-Z]?[a-z]{2,}|[A-Z]{2,5}(?![a-z]))+[0-9]{0,3}$")
# What a name is about when it ends so: `password_length`, `tokenUrl`. Short words need a boundary before them.
_ABOUT_LONG = (
    rb"length|count|size|field|label|policy|prompt|hint|regexp?|pattern|file(?:name)?|path|endpoint|type|name|index"
    rb"|expir\w*|timeout|reset|form|errors?|message|text|title|placeholder|confirm\w*|mismatch|required|valid\w*|strength"
    rb"|algorithm|encoder|store|manager|provider|service|param|header|column|class|version|format|prefix|suffix|kind|scope"
    rb"|usage|limit|budget|range|selector|changed|date|time|help|desc\w*"
)
_ABOUT_SHORT = rb"len|min|max|dir|ur[il]|ids?|ttl|msg|env|var|ref|arn|at"
_TYPED_REST = re.compile(
    rb"(?:(?i:" + _ABOUT_LONG + rb")|(?:[_.-]|(?<=[a-z])(?=[A-Z]))(?i:" + _ABOUT_SHORT + rb"))[\"'\]\\ ]*[\s:=(>,]"
)
# Between two strings that are joined: what looked like an opening quote was a closing one.
_JOINT = re.compile(rb"[+.,;&|)\]:?=][^\n]*[+.,(\[&|{:=;?]$|[+.,;&)]\s")
_NAMED_BYTES = 48  # before a telling word in which its name has begun
_BESIDE = re.compile(rb"[\"']\s*,\s*[\\\"'bfru@$]*$")
_STRING_BEGUN = re.compile(rb"[\"'][\w-]*$")
_BEHIND_ELEMENT = re.compile(rb">\s*(?:<\w+>)?$")
_ELEMENT_BEGUN = re.compile(rb"<[\w:.-]*$|=[\"'][\w.-]*$")
_PER_SESSION = re.compile(rb"(?i)csrf|xsrf|authenticity|forgery|verification|next.?page|page.?$|nonce|cancel")
_ORDINARY = frozenset(
    b"password passwd passphrase secret token string text hidden none null nil true false required optional undefined"
    b" changeme changeit default username login hidden value empty str bytes int bool object any unknown invalid"
    b" missing disabled enabled basic bearer digest plain prompt redacted masked removed yourpassword mypassword"
    b" newpassword".split()
)


def is_password_value(found: Found) -> bool:
    """No reference, no mask, no hole, no name of something else."""
    value = found.value
    if _is_elsewhere(found) or value.lower() in _ORDINARY or set(value) <= set(b"*xX.-_#?: "):
        return False
    return _is_quoted_password(found) if _is_quoted(found) else _is_bare_password(value)


def _is_quoted_password(found: Found) -> bool:
    """No word, no sentence, not what stands between two strings."""
    value = found.value
    if len(value) < _PASSWORD_CHARACTERS or _JOINT.match(value.strip()):
        return False
    if re.search(rb"\sis:?\s", found.name):
        return True
    if b" " in value and (value.count(b" ") > 3 or value[-1:] in b".!?:;,)"):  # noqa: PLR2004 - a sentence, no phrase
        return False
    if b"passw" in re.sub(rb"[^a-z]", b"", value.lower()) and not has_digit(found):
        return False
    return not (value.isalpha() and (value.islower() or value.istitle()))


def _is_bare_password(value: bytes) -> bool:
    """Without quotes a value is often code: a name, a chain of names."""
    if _CHAIN.match(value) or _NAME.match(value) or value[-1:] in b"[:\\|" or b"passw" in value.lower():
        return False
    return not value.isdigit() or len(value) > 5  # noqa: PLR2004 - a count has fewer digits


def is_key_value(found: Found) -> bool:
    """Random enough for a token, and not where one comes from."""
    value = found.value
    if (
        len(value) < _KEY_CHARACTERS
        or b" " in value
        or _is_elsewhere(found)
        or not is_no_example(found)
        or b"abcdefg" in value.lower()
    ):
        return False
    if not _is_quoted(found) and (_CHAIN.match(value) or value[-1:] in b"[:\\|"):
        return False
    if _is_words(value) or _CAMEL.match(value):
        return False
    if not has_digit(found):
        mixed = value.lower() != value != value.upper()
        return len(value) >= _LONG_CHARACTERS and mixed and entropy(value) > 3.9 and not _is_wordy(value)  # noqa: PLR2004 - bits a byte: words of this length stay below
    letters = value.upper() != value.lower()
    return letters and entropy(value) > (2.4 if len(value) < 16 else 2.9)  # noqa: PLR2004 - bits; `aaaa1111` has 1, hex 3.2 and more


def is_environment_value(found: Found) -> bool:
    """The same behind a word like ENV, which is no part of the name."""
    return is_key_value(dataclasses.replace(found, name=found.name.partition(b" ")[2]))


def _is_words(value: bytes) -> bool:
    """Names, numbers, parts of a path."""
    return _NAME.match(value) is not None or all(_WORDS.match(part) for part in _APART.split(value))


def _is_wordy(value: bytes) -> bool:
    """Letters that fall into words by their case."""
    return len(re.findall(rb"[A-Z]+", value)) * 4 < len(value)


def is_userinfo(found: Found) -> bool:
    """No hole, and not the word that a manual puts there."""
    value = found.value
    if _HOLE.search(value) or value.startswith((b"$", b"{", b"<", b"%s", b"*", b"[")):
        return False
    return value.lower() not in _MANUAL and not set(value) <= set(b"*xX.-_")


_MANUAL = frozenset(b"password pass passwd pwd pw yourpassword your-password my-password mypassword token".split())


def is_basic(found: Found) -> bool:
    """Base64 of a name, a colon and something behind it."""
    try:
        plain = base64.b64decode(found.value + b"=" * (-len(found.value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and all(byte >= 0x20 for byte in plain)  # noqa: PLR2004 - printable


def is_curl_user(found: Found) -> bool:
    """An argument of curl, with a value of its own."""
    before = found.data[max(0, found.start - _LOOKED_BACK) : found.start].lower()
    return (b"curl" in before or b"wget" in before or b"http" in before) and is_userinfo(found)


def _is_elsewhere(found: Found) -> bool:
    """Whether what stands there is no value of this name: a reference, code, words of a list, something of a page."""
    value = found.value
    return (
        (_REFERENCE.match(value) is not None and not _is_random_tail(value))
        or _HOLE.search(value) is not None
        or _VERSION.match(value) is not None
        or found.data[found.end : found.end + 1] == b"("
        or (_INDEXED.match(value) is not None and not _is_quoted(found))
        or _is_misplaced(found)
    )


def _is_misplaced(found: Found) -> bool:
    """Whether name and value do not belong together, or the name is that of something else."""
    begin = found.start - len(found.name)
    before = found.data[max(0, begin - _NAMED_BYTES) : begin]
    if _BESIDE.search(found.name) and (_is_words(found.value) or not _STRING_BEGUN.search(before)):
        return True  # words of a list
    is_element = _ELEMENT_BEGUN.search(before) and found.data[found.end : found.end + 1] == b"<"
    if _BEHIND_ELEMENT.search(found.name) and not is_element:
        return True
    return bool(_PER_SESSION.search(before[-16:]) or _TYPED_REST.search(found.name))


def _is_random_tail(value: bytes) -> bool:
    """`/` begins one in 64 secrets in Base64; a path has more of them, or a dot."""
    few = value.count(b"/") <= 3  # noqa: PLR2004 - a path has more
    return few and value.startswith(b"/") and len(value) >= _LONG_CHARACTERS and b"." not in value


def _is_quoted(found: Found) -> bool:
    return found.data[found.start - 1 : found.start] in {b'"', b"'", b"`"}
