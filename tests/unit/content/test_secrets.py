import base64
import json
import re
import string
import zlib
from re import _constants as codes  # type: ignore[attr-defined]  # the only way to look at a compiled pattern's repeats
from re import _parser as parser  # type: ignore[attr-defined]  # the same
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.credentials import checks
from fumehood.content.credentials.rules import RULES
from fumehood.content.secrets import find_text, redact

BODY = "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ"
RANDOM = "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU5oTi0"
JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890"}', b"0123456789abcdef")
)
PEM = "-----BEGIN OPENSSH PRIVATE " + "KEY-----\nb3BlbnNzaC1r\nAAAA\n-----END OPENSSH PRIVATE " + "KEY-----"


def checked(body: str) -> str:
    number, digits = zlib.crc32(body.encode()), ""
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    while number:
        number, digit = divmod(number, 62)
        digits = alphabet[digit] + digits
    return body + digits.rjust(6, "0")


# In pieces, so that this file holds no credential that a scanner would report.
TOKENS = {
    "github-token": "ghp" + "_" + checked(BODY),
    "github-token-like": "ghs" + "_" + "a" * 36,
    "github-pat": "github" + "_pat_" + RANDOM * 2,
    "npm-token": "npm" + "_" + checked(BODY),
    "npm-token-like": "npm" + "_" + RANDOM[:36],
    "gitlab-token": "glpat" + "-" + RANDOM[:20],
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + RANDOM * 2,
    "aws-access-key": "AKIA" + "ABCDEFGH23456723",
    "gcp-api-key": "AIza" + RANDOM[:35],
    "gcp-oauth": "ya29" + "." + RANDOM,
    "slack-token": "xoxb" + "-123456789012-" + RANDOM[:24],
    "stripe-key": "sk" + "_live_" + RANDOM[:24],
    "anthropic-key": "sk-" + "ant-api03-" + RANDOM,
    "openai-key": "sk-" + "proj-" + RANDOM,
    "huggingface-token": "hf" + "_" + RANDOM[:34],
    "sendgrid-key": "SG" + "." + RANDOM[:22] + "." + RANDOM + "abcdef",
    "jwt": JWT,
    "private-key": PEM,
}
IN_CONTEXT = {
    "url-credential": ("fetch https://user:", "hunter2", "@git.example/x.git"),
    "authorization": ("{'Authorization': 'Basic ", "dXNlcjpwYXNzd29yZDE=", "'}"),
    "bearer": ("curl -H Bearer ", RANDOM, " x"),
    "password": ('{"db_password": "', "correct horse battery", '"}'),
    "assignment": ("AWS_SECRET_ACCESS_KEY=", RANDOM + "/x", "\n"),
    "option": ("server --api-token ", RANDOM, " --port 80"),
    "slack-webhook": ("https://hooks.slack.com/services/", "T01234567/B01234567/" + RANDOM[:24], " ok"),
}


BEGINNINGS = [
    "eyJ",
    "eyJaaaaaaaa.",
    "ghp_",
    "sk-",
    "://a:",
    "token",
    "token=",
    "--",
    "--token",
    "bearer ",
    "xox",
    "SG.a",
]


@pytest.mark.threat("R11")
@pytest.mark.parametrize("rule", TOKENS)
@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("see ", " there"), ('"', '"'), ("a=", "\n"), ("\x1b[31m", "\x1b[0m"), ("\x1b[1;32m", "\n"), ("(", ")")],
)
def test_a_token_is_replaced_wherever_it_stands(rule: str, before: str, after: str) -> None:
    redacted = redact(before + TOKENS[rule] + after)
    assert redacted.text == f"{before}[redacted:{rule}]{after}"
    assert redacted.hits == {rule: 1}


@pytest.mark.parametrize("rule", IN_CONTEXT)
def test_a_value_is_replaced_and_its_surroundings_stay(rule: str) -> None:
    before, value, after = IN_CONTEXT[rule]
    redacted = redact(before + value + after)
    assert redacted.text == f"{before}[redacted:{rule}]{after}"
    assert redacted.hits == {rule: 1}


def test_a_value_in_json_within_json_is_replaced() -> None:
    text = json.dumps(json.dumps({"client_secret": RANDOM, "kept": "yes"}))
    assert RANDOM not in redact(text).text
    assert "kept" in redact(text).text


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: Unexpected token: foo",
        "error: FIXTURE_TOKEN is not set",
        "interface Login { password: string; token: Token; secret?: SecretStore }",
        "const token = process.env.GITHUB_TOKEN_2;",
        "password=$DB_PASSWORD1 token=${TOKEN_1}",
        "max_tokens=4096 token_count: 123456789",
        "https://registry.example:4873/a@1.2.3",
        "http://[::1]:8080/path@x",
        "npm_config_user_agent=npm/11 node/24 npm_lifecycle_event=postinstall",
        "task-management-for-everybody-in-the-house risk-assessment-of-the-year-2026-in-brief",
        "sk-circle sk-fading-circle-and-a-long-name",
        "the ghp_ prefix, AKIA and eyJ alone",
        "integrity sha512-" + "aB3" * 28 + "==",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "Password: ********",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "Authorization: required",
        "the bearer of this letter and several more words",
    ],
)
def test_ordinary_text_passes(text: str) -> None:
    assert redact(text) == secrets.Redacted(text=text, hits={})


_parts = st.one_of(
    st.sampled_from([*TOKENS.values(), *("".join(parts) for parts in IN_CONTEXT.values())]),
    st.text(max_size=20),
    st.sampled_from(
        [" ", "\n", "token=", "password: ", "--secret ", "Bearer ", "://a:", "@", "-----BEGIN PRIVATE " + "KEY-----"]
    ),
)


@given(st.lists(_parts, max_size=8))
def test_redacting_twice_changes_nothing_where_credentials_stand_apart(parts: list[str]) -> None:
    once = redact(" ".join(parts))
    again = redact(once.text)
    assert again.text == once.text
    assert not again.hits


@given(st.lists(_parts, max_size=8))
def test_spans_are_in_order_apart_and_within_the_text(parts: list[str]) -> None:
    text = "".join(parts)
    ends = [0, *(span.end for span in find_text(text))]
    starts = [*(span.start for span in find_text(text)), len(text)]
    assert all(end <= start for end, start in zip(ends, starts, strict=True))


@given(st.sampled_from(sorted(set(TOKENS) - {"jwt", "private-key"})), st.text(" .,;:()\n", max_size=5))
def test_no_token_survives_between_marks(rule: str, marks: str) -> None:
    assert TOKENS[rule] not in redact(f"{marks}{TOKENS[rule]}{marks}").text


@pytest.mark.threat("R11")
@pytest.mark.parametrize(
    "rule", ["github-token", "github-pat", "gitlab-token", "anthropic-key", "slack-token", "pypi-token"]
)
def test_an_unmistakable_token_is_found_in_the_middle_of_a_word(rule: str) -> None:
    assert (
        redact(f"{PEM}{TOKENS[rule]} x-{TOKENS[rule]}").text
        == f"[redacted:private-key][redacted:{rule}] x-[redacted:{rule}]"
    )


@pytest.mark.threat("T4")
def test_the_beginning_of_a_placeholder_hides_no_token() -> None:
    token = "glpat-" + "abcdefghij0123456789"
    assert token not in redact(f"[redacted:{token}\nnext line").text
    assert token not in redact(f"[redacted:{token} and more]").text
    # What we have written ourselves stays as it is, whole or cut.
    for ours in ("[redacted:gitlab-token]", "[redacted:github-token:0123abcd]", "[redacted:secret-token:01"):
        assert redact(ours).text == ours


def test_a_key_block_without_an_end_is_replaced_as_far_as_a_key_can_reach() -> None:
    begin = "-----BEGIN PRIVATE " + "KEY-----\n"
    assert redact("a " + begin + "MIIE").text == "a [redacted:private-key]"
    long = redact(begin + "M" * 20_000)
    assert long.text == "[redacted:private-key]" + "M" * (20_000 + len(begin) - 16 * 1024)


def test_of_overlapping_finds_neither_end_stays() -> None:
    redacted = redact("api_token=" + TOKENS["github-token"] + "!tail")
    assert redacted.text == "api_token=[redacted:assignment]"


def test_the_checksum_tells_a_token_from_its_like() -> None:
    assert checks.checksum_fits(checked(BODY).encode())
    assert not checks.checksum_fits((checked(BODY)[:-1] + "!").encode())


def _repeats(pattern: Any) -> list[int]:
    """The upper bound of each repetition in a parsed pattern, whatever it is nested in."""
    found = []
    for code, value in pattern:
        if code in {codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT}:
            found.append(int(value[1]))
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, parser.SubPattern):
                found += _repeats(item)
            elif isinstance(item, list | tuple):
                stack += item
    return found


@pytest.mark.threat("R6")
@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_every_repetition_of_every_pattern_is_bounded(rule: str) -> None:
    pattern = next(r.pattern for r in RULES if r.name == rule)
    assert max(_repeats(parser.parse(pattern.pattern)), default=0) <= 16_384


@pytest.mark.threat("R6")
@pytest.mark.parametrize("unit", [*BEGINNINGS, PEM[:35]])
def test_a_hostile_megabyte_ends(unit: str) -> None:
    size = 200_000
    text = unit * (size // len(unit))
    assert len(redact(text).text) <= 4 * size


def test_keywords_are_in_lower_case_and_stand_in_what_they_announce() -> None:
    for rule in RULES:
        assert all(keyword == keyword.lower() for keyword in rule.keywords), rule.name
    for name, text in (TOKENS | {n: "".join(p) for n, p in IN_CONTEXT.items()}).items():
        plain = name.removesuffix("-like")
        if plain != "private-key":
            keywords = next(rule.keywords for rule in RULES if rule.name == plain)
            assert any(keyword.decode() in text.lower() for keyword in keywords), name
    assert re.fullmatch(r"[a-z0-9-]+", "".join(rule.name for rule in RULES))
