"""The configuration of a repository that somebody hostile wrote: which keys it sets, and how each is closed. Pure.

Invariants: whatever key git would see in the file is found, or the file is refused: what is not of the grammar, holds
a NUL byte, or sets a key that cannot be named on a command line raises `ConfigurationError`. Of the keys found, those
in `_KEPT` (numbers, truths and words that choose between ways to read or compare) stay; **every other one is blanked**,
whether or not anybody knows what it does: the list says what is harmless, not what is dangerous.

The grammar is that of git-config(1), "CONFIGURATION FILE", as git's `config.c` reads it; a property test compares the
two. Not promised: that the file is still the same when git reads it; the walls of git's process are for that.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fumehood.core import limits

_BLANK = re.compile(rb"[ \t\r\n]*(?:[#;][^\n]*\n[ \t\r\n]*)*")
_SECTION = re.compile(rb'\[([A-Za-z0-9.-]+)(?:[ \t\r]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_KEY = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_QUOTED = re.compile(rb'[^"\\\n]+')
_SPACE = re.compile(rb"[ \t\r]+")
_WORD = re.compile(rb'[^"\\\n#; \t\r]+')
_COMMENTS = (b"#", b";")
_SPACES = (b" ", b"\t", b"\r")
_NO_GRAMMAR = "its configuration is not of git's grammar"
_ESCAPES = {b"t": b"\t", b"b": b"\b", b"n": b"\n", b"\\": b"\\", b'"': b'"', b"\n": b""}

# Sections of which no key starts a program or names a file in `log` or `diff`.
_KEPT_SECTIONS = frozenset(
    b"advice author branch color commitgraph committer extensions feature fetch gc index init maintenance "
    b"pack pull push rebase receive repack rerere status submodule tag transfer user".split()
)
_KEPT = frozenset(
    b"core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkstat core.commentchar "
    b"core.commentstring core.commitgraph core.compression core.deltabasecachelimit core.maxtreedepth "
    b"format.filenamemaxlength core.eol core.filemode core.ignorecase core.logallrefupdates core.longpaths "
    b"core.loosecompression core.multipackindex core.packedgitlimit core.packedgitwindowsize "
    b"core.precomposeunicode core.protecthfs core.protectntfs core.quotepath core.repositoryformatversion "
    b"core.safecrlf core.sharedrepository core.sparsecheckout core.sparsecheckoutcone core.splitindex "
    b"core.symlinks core.trustctime core.whitespace diff.algorithm diff.ignoresubmodules "
    b"diff.indentheuristic diff.interhunkcontext diff.renamelimit diff.renames diff.wserrorhighlight "
    b"diff.colormoved diff.colormovedws diff.suppressblankempty diff.mnemonicprefix diff.noprefix "
    b"diff.relative diff.context diff.statgraphwidth diff.dirstat i18n.commitencoding log.abbrevcommit "
    b"log.date log.decorate log.diffmerges log.follow log.showroot merge.conflictstyle merge.renames".split()
)


class ConfigurationError(ValueError):
    """A configuration that is not read here; the message is fit to be shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One line of a configuration. `key` as git writes it: section and name in lower case; None is a bare key."""

    key: bytes
    value: bytes | None

    @property
    def includes(self) -> bool:
        """Whether it names a further file."""
        return includes(self.key)


def parse(data: bytes) -> tuple[Setting, ...]:
    """Every setting of a file in order."""
    if b"\0" in data:
        raise ConfigurationError("its configuration holds a NUL byte")
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n") + b"\n"
    return tuple(_settings(text))


def includes(key: bytes) -> bool:
    """Whether a key names a further file to be read as configuration."""
    return key == b"include.path" or (key.startswith(b"includeif.") and key.endswith(b".path"))


def closing(keys: Iterable[bytes]) -> tuple[bytes, ...]:
    """The arguments that blank each key that is not kept. ConfigurationError for one that cannot be named."""
    blanked = sorted({key for key in keys if not _kept(key)})
    if any(b"=" in key for key in blanked):
        raise ConfigurationError("its configuration has a key with `=` in its name")
    arguments = tuple(word for key in blanked for word in (b"-c", key + b"="))
    if sum(map(len, arguments)) > limits.GIT_BLANKED_BYTES:
        raise ConfigurationError("its configuration has too many keys")
    return arguments


def _kept(key: bytes) -> bool:
    # An include is not blanked, git would look for a file without a name: what it includes is examined.
    return key in _KEPT or key.partition(b".")[0] in _KEPT_SECTIONS or includes(key)


def _settings(text: bytes) -> Iterator[Setting]:
    section = b""
    at = _end(_BLANK, text, 0)
    while at < len(text):
        if header := _SECTION.match(text, at):
            section = header[1].lower()
            if header[2] is not None:
                section += b"." + re.sub(rb"\\(.)", rb"\1", header[2], flags=re.DOTALL)
            at = header.end()
        else:
            key = _KEY.match(text, at)
            if key is None or not section:
                raise ConfigurationError(_NO_GRAMMAR)
            at, value = _value(text, key.end())
            yield Setting(key=section + b"." + key[1].lower(), value=value)
        at = _end(_BLANK, text, at)


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _value(text: bytes, at: int) -> tuple[int, bytes | None]:
    """Where the line ends, and what stands behind the key."""
    if text[at : at + 1] == b"\n":
        return at + 1, None
    if text[at : at + 1] != b"=":
        raise ConfigurationError(_NO_GRAMMAR)
    value = bytearray()
    space = b""  # kept only when something follows
    quoted = False
    at += 1
    while (mark := text[at : at + 1]) != b"\n":
        at, piece = _piece(text, at, quoted=quoted)
        if mark in _SPACES and not quoted:
            space += piece if value else b""
        elif quoted or mark not in _COMMENTS:
            value += space + piece
            space = b""
        quoted ^= mark == b'"'
    if quoted:
        raise ConfigurationError(_NO_GRAMMAR)
    return at + 1, bytes(value)


def _piece(text: bytes, at: int, *, quoted: bool) -> tuple[int, bytes]:
    """The end and the meaning of the piece of a value that begins here; a comment means nothing."""
    mark = text[at : at + 1]
    if mark == b'"':
        return at + 1, b""
    if mark == b"\\":
        escape = text[at + 1 : at + 2]
        if escape not in _ESCAPES:
            raise ConfigurationError(_NO_GRAMMAR)
        return at + 2, _ESCAPES[escape]
    if mark in _COMMENTS and not quoted:
        return text.index(b"\n", at), b""
    end = _end(_QUOTED if quoted else _SPACE if mark in _SPACES else _WORD, text, at)
    return end, text[at:end]
