"""An operator's own rules, in the TOML format of gitleaks, each compiled by RE2. Pure.

Invariants: a rule that does not compile, or a file that is not understood, is refused as a whole, by file, rule and
reason: an operator never believes in a rule that is not there. What the format knows and this has no use for (paths,
commits, `extend`) is named in `unused`. Work is linear in the text for every pattern.

Source: gitleaks' documentation of its configuration (`id`, `regex`, `secretGroup`, `entropy`, `keywords`,
`allowlists` with `regexes`, `regexTarget`, `stopwords`, `condition`).
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fumehood.content.credentials.checks import entropy
from fumehood.content.credentials.model import Span
from fumehood.content.credentials.prefilter import Keywords
from fumehood.core import limits
from fumehood.core.errors import RefusedError

_USED_RULE = {"id", "description", "regex", "secretGroup", "entropy", "keywords", "allowlist", "allowlists", "tags"}
_USED_LIST = {"description", "regexes", "regexTarget", "stopwords", "condition"}
_USED_FILE = {"title", "description", "minVersion", "rules", "allowlist", "allowlists"}
_TARGETS = ("", "secret", "match", "line")
_NAME_CHARACTERS = 40  # what a placeholder shows of an id


class BadRulesError(RefusedError):
    """A file of rules is not understood; the message names the file, the rule and the reason."""

    code = "bad_rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Allowed:
    """One allowlist: what it matches is no find. `every` asks for each of its conditions."""

    patterns: tuple[Any, ...]
    target: str
    stopwords: tuple[bytes, ...]
    every: bool

    def covers(self, value: bytes, match: bytes, line: bytes) -> bool:
        target = {"match": match, "line": line}.get(self.target, value)
        lowered = value.lower()
        by_pattern = any(pattern.search(target) for pattern in self.patterns)
        by_word = any(word in lowered for word in self.stopwords)
        if self.every:
            return (by_pattern or not self.patterns) and (by_word or not self.stopwords)
        return by_pattern or by_word


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    name: str
    pattern: Any  # a compiled pattern of RE2, which has no types
    group: int
    entropy: float
    keywords: tuple[bytes, ...]
    allowed: tuple[_Allowed, ...]


class RuleFile:
    """Compiled rules; `unused` names what of the file has no effect here."""

    __slots__ = ("_always", "_by_keyword", "_keywords", "unused")

    def __init__(self, rules: Sequence[_Rule], unused: Sequence[str]) -> None:
        """Rules in the order of their file."""
        self.unused = tuple(unused)
        words: dict[bytes, list[_Rule]] = {}
        for rule in rules:
            for word in rule.keywords:
                words.setdefault(word, []).append(rule)
        self._always = tuple(rule for rule in rules if not rule.keywords)
        self._by_keyword = tuple(words.values())
        self._keywords = Keywords(tuple(words))

    def find(self, data: bytes, lowered: bytes) -> Iterator[Span]:
        """What the rules find whose keywords stand in the text, and those without keywords."""
        numbers = {number for number, _ in self._keywords.hits(lowered)} if self._by_keyword else set()
        wanted = {rule.name: rule for number in numbers for rule in self._by_keyword[number]}
        for rule in (*self._always, *wanted.values()):
            yield from _finds(rule, data)


def parse(data: bytes, file: str) -> RuleFile:
    """The rules of a file; `file` is how messages call it. Errors: `BadRulesError`."""
    if len(data) > limits.RULE_FILE_BYTES:
        raise BadRulesError(f"{file} is larger than {limits.RULE_FILE_BYTES} bytes", remedy="split or shorten it")
    try:
        document = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as problem:
        raise BadRulesError(f"{file} is not TOML: {problem}", remedy="correct it") from None
    return _Reader(file).read(document)


class _Reader:
    """Reads one document, and says where in it something is wrong."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._unused: list[str] = []

    def read(self, document: Mapping[str, object]) -> RuleFile:
        self._note("", document, _USED_FILE)
        tables = self._tables(document, "rules", "the file")
        if not tables:
            raise self._wrong("the file", "has no [[rules]]")
        if len(tables) > limits.RULES:
            raise self._wrong("the file", f"has more than {limits.RULES} rules")
        shared = self._allowlists(document, "the file")
        rules = [rule for number, table in enumerate(tables, 1) if (rule := self._rule(table, number, shared))]
        names = [rule.name for rule in rules]
        for name in names:
            if names.count(name) > 1:
                raise self._wrong(f"rule {name!a}", "stands there twice")
        return RuleFile(rules, self._unused)

    def _rule(self, table: Mapping[str, object], number: int, shared: tuple[_Allowed, ...]) -> _Rule | None:
        identity = self._text(table, "id", f"rule {number}")
        place = f"rule {identity!a}"
        self._note(place, table, _USED_RULE)
        if "regex" not in table and "path" in table:
            return None  # it is about names of files, which the denylist decides; named above
        pattern = self._compiled(self._text(table, "regex", place), place)
        group, least = table.get("secretGroup", 0), table.get("entropy", 0)
        if not isinstance(group, int) or not 0 <= group <= pattern.groups:
            raise self._wrong(place, f"secretGroup is not one of its {pattern.groups} groups")
        if not isinstance(least, int | float):
            raise self._wrong(place, "entropy is not a number")
        return _Rule(
            name=re.sub(r"[^a-z0-9-]", "-", identity.lower())[:_NAME_CHARACTERS],
            pattern=pattern,
            group=group,
            entropy=float(least),
            keywords=tuple(word.lower().encode() for word in self._texts(table, "keywords", place) if word),
            allowed=(*self._allowlists(table, place), *shared),
        )

    def _allowlists(self, table: Mapping[str, object], place: str) -> tuple[_Allowed, ...]:
        tables = self._tables(table, "allowlists", place)
        single = table.get("allowlist")
        if single is not None:
            if not isinstance(single, dict):
                raise self._wrong(place, "allowlist is not a table")
            tables = [*tables, single]
        found = (self._allowlist(one, f"an allowlist of {place}") for one in tables)
        return tuple(one for one in found if one is not None)

    def _allowlist(self, table: Mapping[str, object], place: str) -> _Allowed | None:
        self._note(place, table, _USED_LIST)
        target, condition = table.get("regexTarget", ""), str(table.get("condition", "OR")).upper()
        if target not in _TARGETS:
            raise self._wrong(place, "regexTarget is none of secret, match, line")
        if condition not in {"OR", "AND", "||", "&&"}:
            raise self._wrong(place, "condition is neither OR nor AND")
        every = condition in {"AND", "&&"}
        unseen = {"paths", "commits", "targetRules"} & set(table)
        if "targetRules" in table or (every and unseen):
            return None  # its conditions cannot be judged here: it allows nothing
        return _Allowed(
            patterns=tuple(self._compiled(text, place) for text in self._texts(table, "regexes", place)),
            target=str(target),
            stopwords=tuple(word.lower().encode() for word in self._texts(table, "stopwords", place) if word),
            every=every,
        )

    def _compiled(self, text: str, place: str) -> Any:  # noqa: ANN401 - RE2 has no types
        import re2  # noqa: PLC0415 - only a process that has such a file needs it

        options = re2.Options()
        options.log_errors = False
        options.max_mem = limits.RULE_PATTERN_BYTES
        try:
            return re2.compile(text.encode(), options)
        except re2.error as problem:
            reason = problem.args[0].decode("utf-8", "replace") if problem.args else "it does not compile"
            raise self._wrong(place, f"its pattern is not one of RE2: {reason}") from None

    def _text(self, table: Mapping[str, object], key: str, place: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(place, f"has no {key}")
        return value

    def _texts(self, table: Mapping[str, object], key: str, place: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self._wrong(place, f"{key} is not a list of strings")
        return value

    def _tables(self, table: Mapping[str, object], key: str, place: str) -> list[dict[str, object]]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._wrong(place, f"{key} is not a list of tables")
        return value

    def _note(self, place: str, table: Iterable[str], used: set[str]) -> None:
        self._unused += [f"{key} of {place}" if place else key for key in table if key not in used]

    def _wrong(self, place: str, reason: str) -> BadRulesError:
        return BadRulesError(f"{self._file}: {place}: {reason}", remedy="correct the rule or take it out")


def _finds(rule: _Rule, data: bytes) -> Iterator[Span]:
    for match in rule.pattern.finditer(data):
        group = rule.group or next((n for n in range(1, rule.pattern.groups + 1) if match.group(n)), 0)
        start, end = match.span(group)
        if start >= end:
            continue
        value = data[start:end]
        if rule.entropy and entropy(value) <= rule.entropy:
            continue
        if rule.allowed and any(one.covers(value, match.group(0), _line(data, start, end)) for one in rule.allowed):
            continue
        yield Span(start=start, end=end, rule=rule.name)


def _line(data: bytes, start: int, end: int) -> bytes:
    """The lines in which a find stands, as far as anything of a reply's line is shown."""
    begin = max(data.rfind(b"\n", max(0, start - limits.LINE_CHARACTERS), start) + 1, start - limits.LINE_CHARACTERS, 0)
    stop = data.find(b"\n", end, end + limits.LINE_CHARACTERS)
    return data[begin : stop if stop >= 0 else end + limits.LINE_CHARACTERS]
