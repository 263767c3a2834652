import base64
import html
import json
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.credentials import scan, views

RANDOM = "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU5oTi0"
# In pieces, so that this file holds no credential that a scanner would report.
TOKENS = {
    "gitlab-token": "glpat" + "-" + RANDOM[:20],
    "aws-access-key": "AKIA" + "ZBCDWFGH23456723",
    "stripe-key": "sk" + "_live_" + RANDOM[:24],
    "anthropic-key": "sk-" + "ant-api03-" + RANDOM,
    "huggingface-token": "hf" + "_" + RANDOM[:34],
    "gcp-api-key": "AIza" + RANDOM[:35],
    "slack-token": "xoxb" + "-123456789012-" + RANDOM[:24],
    "digitalocean-token": "dop" + "_v1_" + "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2,
}


def folded(text: str, width: int, begin: str = "") -> str:
    return "\n".join(begin + text[place : place + width] for place in range(0, len(text), width))


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CONTEXTS: dict[str, Callable[[str], str]] = {
    "escaped": lambda t: "".join(f"\\u{ord(c):04x}" for c in t),
    "escaped in part": lambda t: f"{t[:2]}\\u{ord(t[2]):04x}{t[3:]}",
    "escaped twice": lambda t: json.dumps(json.dumps("".join(f"\\u{ord(c):04x}" for c in t))),
    "bytes": lambda t: "".join(f"\\x{ord(c):02X}" for c in t),
    "escaped in braces": lambda t: "".join(f"\\u{{{ord(c):x}}}" for c in t),
    "escaped in eight digits": lambda t: "".join(f"\\U{ord(c):08x}" for c in t),
    "octal": lambda t: "".join(f"\\{ord(c):03o}" for c in t),
    "joined over a line that goes on": lambda t: f'"{t[:9]}" + \\\n    "{t[9:]}"',
    "percent": lambda t: "".join(f"%{ord(c):02X}" for c in t),
    "query": lambda t: "https://x.example/?a=" + urllib.parse.quote(t, safe="") + "&b=1",
    "entities": lambda t: "".join(f"&#{ord(c)};" for c in t),
    "entities in hexadecimal": lambda t: "".join(f"&#x{ord(c):x};" for c in t),
    "quoted in HTML": lambda t: html.escape(json.dumps({"a": t})),
    "Base64": coded,
    "Base64, second of three": lambda t: coded(f"a {t}"),
    "Base64, third of three": lambda t: coded(f"ab {t} after"),
    "Base64 in JSON in Base64": lambda t: coded(json.dumps({"x": coded(f"{t} and more of it")})),
    "Base64 for addresses": lambda t: base64.urlsafe_b64encode(f"??>>{t}".encode()).decode().rstrip("="),
    "Base64 on lines": lambda t: folded(coded("something stands before it, long enough " + t + " and behind"), 76),
    "Base64 on lines of YAML": lambda t: folded(coded("something stands before it: " + t + " and behind"), 64, "    "),
    "hexadecimal": lambda t: t.encode().hex(),
    "hexadecimal in capitals": lambda t: f"0x{t.encode().hex().upper()}",
    "joined, Python": lambda t: f'x = ("{t[:11]}"\n     "{t[11:]}")',
    "joined, JavaScript": lambda t: f"x = '{t[:2]}' + '{t[2:]}'",
    "joined, PHP": lambda t: f"$x = '{t[:6]}' . '{t[6:]}';",
    "joined over lines": lambda t: f'x = "{t[:9]}" +\n    "{t[9:]}";',
    "line goes on": lambda t: f"x={t[:9]}\\\n{t[9:]}",
}


@pytest.mark.threat("T4")
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("rule", TOKENS)
def test_a_token_is_found_in_what_a_text_decodes_to(context: str, rule: str) -> None:
    token = TOKENS[rule]
    written = CONTEXTS[context](token)
    data = f"before it\n{written}\nbehind it\n".encode()
    spans = secrets.find(data)
    assert spans
    left = secrets.replace_bytes(data, spans, lambda _span, _value: b"[]")
    assert left.startswith(b"before it\n")
    assert left.endswith(b"\nbehind it\n")
    assert token[4:].encode() not in left
    assert len(left) < len(data) - len(token) // 2


@pytest.mark.parametrize(
    "text",
    [
        "print('a' + 'b')\nx = ('one two '\n     'three')\n",
        "\\u0041\\u0042 and %41%42 and &amp;&lt;",
        "sha512-" + coded("".join(map(chr, range(64)))) + "==",
        coded("nothing but words, and more words, and still more words of prose"),
        "".join(f"{n:02x}" for n in range(32)),
        "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 8).decode(),
        folded(base64.b64encode(bytes(range(256)) * 3).decode(), 76),
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    ],
)
def test_ordinary_encoded_text_passes(text: str) -> None:
    assert secrets.find(text.encode()) == []


@given(st.sampled_from(sorted(TOKENS)), st.integers(0, 40), st.integers(0, 40))
def test_wherever_a_token_begins_in_base64_it_is_found(rule: str, before: int, after: int) -> None:
    data = coded("." * before + " " + TOKENS[rule] + " " + "." * after).encode()
    assert secrets.find(data)


_pieces = st.sampled_from(
    [
        "\\u0041",
        "\\x41",
        "%41",
        "&#65;",
        "&quot;",
        '" + "',
        "'\n'",
        "\\\n",
        "Z2hwXw",
        "c2VjcmV0",
        "6768705f",
        "A" * 76 + "\n",
    ]
)


@given(st.lists(st.one_of(_pieces, st.text(max_size=8)), max_size=12).map("".join))
def test_each_byte_of_a_view_leads_back_to_a_place_in_the_text(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    _, marks = scan.scanner().scan(data, data.lower())
    for view in views.views(data, marks):
        assert len(view.starts) == len(view.ends) == len(view.data)
        assert all(0 <= start < end <= len(data) for start, end in zip(view.starts, view.ends, strict=True))
        assert list(view.starts) == sorted(view.starts)
        assert all(0 <= place <= len(view.data) for place in view.changed)


@given(
    st.lists(st.one_of(_pieces, st.sampled_from(sorted(TOKENS.values())), st.binary(max_size=8).map(str)), max_size=12)
)
def test_spans_are_in_order_and_apart_whatever_is_decoded(parts: list[str]) -> None:
    data = "".join(parts).encode()
    places = [place for span in secrets.find(data) for place in (span.start, span.end)]
    assert places == sorted(places)
    assert all(span.start < span.end <= len(data) for span in secrets.find(data))


@pytest.mark.threat("T8")
@pytest.mark.parametrize(
    "unit",
    ["\\u0041", "%41", "&#65;", '"+"', "'\n'", "Z2hwX", "c2VjcmV0", "736563726574", "A" * 76 + "\n", "a", "\\x5cx41"],
)
def test_the_views_of_a_hostile_text_are_bounded(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    real = scan.Scanner.scan

    def counting(self: scan.Scanner, data: bytes, lowered: bytes) -> object:
        looked.append(len(data))
        return real(self, data, lowered)

    monkeypatch.setattr(scan.Scanner, "scan", counting)
    data = (unit * (100_000 // len(unit))).encode()
    secrets.find(data)
    assert sum(looked) <= 10 * len(data) + 70_000


@pytest.mark.threat("T8")
def test_beyond_the_bound_views_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    data = CONTEXTS["escaped"](TOKENS["gitlab-token"]).encode()
    assert secrets.find(data)
    monkeypatch.setattr(scan, "_VIEWED", 0)
    monkeypatch.setattr(scan, "_VIEWED_BYTES", 0)
    assert secrets.find(data) == []


@pytest.mark.threat("T4")
@pytest.mark.parametrize(
    "text",
    [
        "db_password: |\n    %s\nuser: ada\n",
        "db_password: >-\r\n  %s\r\n",
        'password = """\n%s"""',
        "password = '''\\\n%s'''",
        "password = <<-EOT\n  %s\nEOT\n",
        "PASSWORD=<<'END'\n%s\nEND\n",
    ],
)
def test_a_value_that_begins_on_the_next_line_is_replaced(text: str) -> None:
    value = "S3cr3t" + "P4ssw0rdXyzzy99"
    assert value not in secrets.redact(text % value).text
    prose = text % "rotation is a good thing"
    assert secrets.redact(prose).text == prose
