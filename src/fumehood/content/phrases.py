"""What text that speaks to a model says: the phrases of `data/injection.toml`, as RE2 reads them. Pure.

The rules of that file's small language stand at its head.
"""

import re
import tomllib
import unicodedata
from importlib import resources

_SEPARATOR = "(?:[\\s!-/:-@\\[-^`{-~‐-›　-〃]+)"  # noqa: RUF001 - wide space and wide punctuation are meant
_WORDS = r"(?:\S+\s+){0,4}?"
_SENTENCE = r"[^.!?\n]{0,100}?"
_NAMED = re.compile("§([a-z]+)§")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_CLASS_OR_SPACE = re.compile(r"(\[(?:\\.|[^\]\\])*\])|(?<!\\) ")

_DATA = tomllib.loads(resources.files("fumehood").joinpath("data/injection.toml").read_text(encoding="utf-8"))


def pattern(source: str) -> str:
    """A phrase as RE2 reads it."""
    text = _NAMED.sub(lambda match: _DATA["words"][match[1]], source)
    text = text.replace("…", _WORDS).replace("⋯", _SENTENCE)
    text = _NOT_ASCII.sub(lambda match: _either(match[0]), text)
    return _CLASS_OR_SPACE.sub(lambda match: match[1] or _SEPARATOR, text)


def _either(character: str) -> str:
    """An accented Latin letter, or the same without its accent."""
    base = unicodedata.normalize("NFD", character)[0]
    return f"(?:{character}|{base})" if character.isalpha() and base.isascii() else character


KINDS: tuple[str, ...] = tuple(_DATA["said"])
WEIGHTS: dict[str, float] = _DATA["evidence"] | {name: kind["weight"] for name, kind in _DATA["said"].items()}


def said(kind: str) -> list[str]:
    """The phrases of one kind, as RE2 reads them."""
    return [pattern(one) for one in _DATA["said"][kind]["patterns"]]


def anchors() -> list[str]:
    """What one pass looks for: the anchors of phrases, and how an override begins in disguise."""
    return [pattern(one) for one in (*_DATA["anchors"]["patterns"], *_DATA["disguises"].values())]


def disguises() -> dict[str, str]:
    """How the first words of an override look in each disguise."""
    return {name: pattern(one) for name, one in _DATA["disguises"].items()}
