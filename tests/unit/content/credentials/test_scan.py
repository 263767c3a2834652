import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.credentials import prefilter, scan
from fumehood.content.credentials.model import Span
from fumehood.content.credentials.prefilter import Keywords
from fumehood.content.credentials.rules import RULES

UNITS = [
    "sk-",
    "token=",
    "://a:",
    "--token ",
    "azdo",
    "q~",
    ":aa",
    "-us",
    "password: ",
    "eyJ",
    "secret='",
    "basic ",
    "aws secret ",
]


@pytest.mark.threat("T8")
@pytest.mark.parametrize("unit", UNITS)
def test_each_rule_is_tried_once_a_keyword(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    real = scan._try

    def counting(rule: object, data: bytes, start: int, reached: dict[str, int]) -> Span | None:
        tried.append(start)
        return real(rule, data, start, reached)  # type: ignore[arg-type]  # whatever came

    monkeypatch.setattr(scan, "_try", counting)
    counts = []
    for size in (10_000, 20_000):
        tried.clear()
        data = (unit * (size // len(unit))).encode()
        secrets.find(data)
        counts.append(len(tried))
    assert counts[1] <= 2.2 * counts[0] + 20
    assert counts[1] <= 20_000 * 3


@pytest.mark.threat("T8")
@pytest.mark.parametrize("unit", UNITS)
def test_a_refused_value_is_not_looked_at_again_at_each_of_its_keywords(unit: str) -> None:
    reached: dict[str, int] = {}
    data = (unit * 2000).encode()
    for rule in RULES:
        for start in range(0, 200, len(unit)):
            scan._try(rule, data, start, reached)
    assert all(0 <= place <= len(data) for place in reached.values())


def test_nothing_heavy_is_loaded_before_the_first_text_comes() -> None:
    program = (
        "import sys\n"
        "from fumehood.content import control, rulefile, secrets\n"
        "heavy = {'ahocorasick_rs', 're2', 'fumehood.content.credentials.rules'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "secrets.find(b'x')\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [b"[]", b"['ahocorasick_rs', 'fumehood.content.credentials.rules']"]


def test_every_rule_names_its_source_and_stands_once() -> None:
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    assert len(names) > 150
    assert [rule.name for rule in RULES if not rule.source or not rule.keywords] == []


def test_the_table_of_rules_in_the_documents_is_that_of_the_code() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "redaction.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted((rule.name, rule.source) for rule in RULES)


def test_every_keyword_is_long_enough_to_be_rare() -> None:
    assert [k for rule in RULES for k in rule.keywords if len(k) < 2] == []


_words = st.lists(st.binary(min_size=1, max_size=4).map(bytes.lower), min_size=1, max_size=6, unique=True)


@given(_words, st.binary(max_size=200).map(bytes.lower))
def test_both_ways_of_finding_keywords_agree(words: list[bytes], text: bytes) -> None:
    quick, plain = Keywords(words), Keywords(words)
    plain._automaton = None
    assert sorted(quick.hits(text)) == sorted(plain.hits(text))


def test_keywords_are_found_across_the_windows_of_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefilter, "_OPENED", 5)
    for place in range(12):
        text = b"." * place + b"secret" + b"." * 9
        assert list(Keywords([b"secret", b"x"]).hits(text)) == [(0, place)]


def test_without_the_extra_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ("glpat" + "-" + "q8Zr2LxV7mKt4WnB6yHc and password='hunter2xx'").encode()
    monkeypatch.setattr(prefilter, "_automaton", lambda _words: None)
    plain = scan.Scanner(RULES).scan(text, text.lower())[0]
    assert {span.rule for span in plain} == {"gitlab-token", "password"}
    assert {span.rule for span in secrets.find(text)} == {"gitlab-token", "password"}


def test_of_two_that_find_the_same_the_one_that_says_more_names_it() -> None:
    text = "token = '" + "glpat" + "-" + "q8Zr2LxV7mKt4WnB6yHc'"
    assert [span.rule for span in secrets.find(text.encode())] == ["gitlab-token"]


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_span_never_tears_a_character_apart(before: str, after: str) -> None:
    text = f"{before}password = 'é{after}ü1'{after}"
    for span in secrets.find_text(text):
        assert text[span.start : span.end].encode("utf-8", "surrogatepass")
    data = text.encode("utf-8", "surrogatepass")
    for span in secrets.find(data):
        data[: span.start].decode("utf-8", "surrogatepass")
        data[span.start : span.end].decode("utf-8", "surrogatepass")


def test_equal_secrets_have_equal_placeholders_and_other_keys_others() -> None:
    one, other = secrets.Placeholders(b"k" * 32), secrets.Placeholders(b"l" * 99)
    assert one.of("a", b"value") == one.of("a", b"value")
    assert one.of("a", b"value") != one.of("a", b"walue")
    assert one.of("a", b"value") != other.of("a", b"value")
    assert b"value" not in one.of("a", b"value")


@given(st.sampled_from([rule.name for rule in RULES]), st.binary(max_size=20))
def test_a_placeholder_is_never_taken_for_a_credential(rule: str, value: bytes) -> None:
    text = secrets.Placeholders(b"k" * 32).of(rule, value)
    for line in (
        text,
        b"password = '" + text + b"'",
        b"token: " + text,
        b"https://a:" + text + b"@x.example",
        b"Bearer " + text,
    ):
        assert secrets.find(line) == []


def grafana(body: str) -> str:
    return f"{body}_{zlib.crc32(body.encode()):08x}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (grafana("gl" + "sa_" + "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU"), "grafana-service-account"),
        ("gl" + "sa_" + "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU_00000001", "grafana-service-account-like"),
        ("eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.q8Zr2LxV7mKt4WnB6yHc", "jwt"),
        ("eyJ" + "hbGciOiJIUzI1NiJ.eyJzdWIiOiIxIn0.q8Zr2LxV7mKt4WnB6yHc", "jwt-like"),
    ],
)
def test_structure_tells_a_token_from_its_like(text: str, rule: str) -> None:
    assert [span.rule for span in secrets.find(text.encode())] == [rule]


def test_a_key_that_an_sdk_publishes_stays() -> None:
    published = "AIza" + "SyAnLA7NfeLquW1tJFpx_eQCxoX-oo6YyIs"
    assert secrets.find(published.encode()) == []
    assert [span.rule for span in secrets.find((published[:-1] + "t").encode())] == ["gcp-api-key"]
