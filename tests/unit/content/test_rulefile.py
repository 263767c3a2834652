import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.control import Controls, present
from fumehood.content.passage import Answer, Passage
from fumehood.content.rulefile import BadRulesError, RuleFile, parse
from fumehood.core import limits
from fumehood.core.untrusted import Untrusted

RULE = "[[rules]]\nid = 'Acme Badge'\nregex = '''acme-[a-z0-9]{8}'''\nkeywords = ['ACME']\n"


def rules(text: str) -> RuleFile:
    return parse(text.encode(), "rules.toml")


def finds(text: str, data: str) -> list[tuple[str, str]]:
    spans = secrets.find(data.encode(), rules(text))
    return [(span.rule, data[span.start : span.end]) for span in spans]


@pytest.mark.threat("T4")
def test_an_operators_rule_finds_what_ours_do_not_know() -> None:
    assert finds(RULE, "see ACME: acme-12345678, acme-abcdefgh") == [
        ("acme-badge", "acme-12345678"),
        ("acme-badge", "acme-abcdefgh"),
    ]
    assert secrets.find(b"see acme-12345678") == []


@pytest.mark.threat("T4")
def test_an_operators_rule_holds_in_a_reply() -> None:
    answer = Answer(
        passages=(Passage(text=Untrusted(b"acme-12345678\n", source="x")),), facts={"path": "acme-12345678"}
    )
    reply = present(answer, Controls(key=b"k" * 32, rules=rules(RULE)))
    assert "acme-12345678" not in f"{reply.text}{reply.facts}"
    assert "[redacted:acme-badge:" in reply.text


def test_a_rule_is_tried_only_where_its_keyword_stands() -> None:
    silent = "[[rules]]\nid = 'a'\nregex = '[0-9]{6}'\nkeywords = ['badge']\n"
    assert finds(silent, "number 123456") == []
    assert finds(silent, "Badge 123456") == [("a", "123456")]
    assert finds(silent.replace("keywords = ['badge']", ""), "number 123456") == [("a", "123456")]


@pytest.mark.parametrize(
    ("more", "value"),
    [("", "12345678"), ("secretGroup = 2", "1234"), ("secretGroup = 0", "12345678")],
)
def test_the_group_that_is_the_secret_is_what_is_found(more: str, value: str) -> None:
    text = f"[[rules]]\nid = 'a'\nregex = 'badge (([0-9]{{4}})[0-9]{{4}})'\n{more}\n"
    assert finds(text, "badge 12345678") == [("a", value)]


def test_a_value_with_less_entropy_than_asked_for_is_no_find() -> None:
    text = "[[rules]]\nid = 'a'\nregex = 'badge ([a-z0-9]{8})'\nentropy = 2.5\n"
    assert finds(text, "badge aaaabbbb") == []
    assert finds(text, "badge a1b2c3d4") == [("a", "a1b2c3d4")]


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        ("stopwords = ['DEMO']", False),
        ("stopwords = ['other']", True),
        ("regexes = ['^demo']", False),
        ("regexes = ['badge']", True),
        ("regexTarget = 'match'\nregexes = ['badge']", False),
        ("regexTarget = 'line'\nregexes = ['our test']", False),
        ("regexTarget = 'line'\nregexes = ['next line']", True),
        ("condition = 'AND'\nregexes = ['^demo']\nstopwords = ['other']", True),
        ("condition = 'AND'\nregexes = ['^demo']\nstopwords = ['demo']", False),
        ("condition = 'AND'\nregexes = ['^demo']\npaths = ['tests']", True),
        ("paths = ['tests']\nregexes = ['^demo']", False),
        ("targetRules = ['a']\nregexes = ['^demo']", True),
    ],
)
@pytest.mark.parametrize("table", ["[[rules.allowlists]]", "[rules.allowlist]", "[allowlist]", "[[allowlists]]"])
def test_an_allowlist_lets_pass_what_it_covers(table: str, allowed: str, *, found: bool) -> None:
    text = f"[[rules]]\nid = 'a'\nregex = 'badge ([a-z0-9]{{8}})'\n{table}\n{allowed}\n"
    assert bool(finds(text, "in our test: badge demo1234\nnext line")) is found


def test_what_has_no_effect_is_named() -> None:
    text = (
        RULE + "path = 'x'\n[[rules]]\nid='b'\npath='.env'\n[extend]\nuseDefault = true\n[allowlist]\ncommits = ['a']\n"
    )
    assert sorted(rules(text).unused) == [
        "commits of an allowlist of the file",
        "extend",
        "path of rule 'Acme Badge'",
        "path of rule 'b'",
    ]


@pytest.mark.threat("T11")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rules", "rules.toml is not TOML"),
        ("", "has no [[rules]]"),
        ("rules = 1", "rules is not a list of tables"),
        ("[[rules]]\nregex = 'a'", "rule 1: has no id"),
        ("[[rules]]\nid = 'a'", "rule 'a': has no regex"),
        ("[[rules]]\nid = 'a'\nregex = '(?=a)'", "rules.toml: rule 'a': its pattern is not one of RE2"),
        ("[[rules]]\nid = 'a'\nregex = '(a)\\1'", "rule 'a': its pattern is not one of RE2"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\nsecretGroup = 1", "secretGroup is not one of its 0 groups"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\nentropy = 'x'", "entropy is not a number"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\nkeywords = 'x'", "keywords is not a list of strings"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\nallowlist = 1", "allowlist is not a table"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\n[rules.allowlist]\nregexTarget = 'x'", "regexTarget"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\n[rules.allowlist]\ncondition = 'x'", "condition"),
        ("[[rules]]\nid = 'a'\nregex = 'a'\n[rules.allowlist]\nregexes = ['(']", "an allowlist of rule 'a'"),
        (RULE + RULE, "stands there twice"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_by_file_rule_and_reason(text: str, said: str) -> None:
    with pytest.raises(BadRulesError) as caught:
        rules(text)
    assert said in caught.value.message
    assert caught.value.message.startswith("rules.toml")
    assert caught.value.remedy


def test_a_file_beyond_the_bounds_is_refused() -> None:
    with pytest.raises(BadRulesError, match="larger"):
        parse(b"#" * (limits.RULE_FILE_BYTES + 1), "rules.toml")
    many = "".join(f"[[rules]]\nid = 'r{n}'\nregex = 'a'\n" for n in range(limits.RULES + 1))
    with pytest.raises(BadRulesError, match="more than"):
        rules(many)


@given(st.binary(max_size=200))
def test_whatever_a_file_holds_it_is_rules_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadRulesError):
        assert isinstance(parse(data, "x"), RuleFile)


@given(st.text(max_size=60))
def test_the_spans_of_an_operators_rule_lie_within_the_text(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    found = list(rules("[[rules]]\nid='a'\nregex='[a-z]*'\n").find(data, data.lower()))
    assert all(0 <= span.start < span.end <= len(data) for span in found)
