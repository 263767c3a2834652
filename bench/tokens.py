"""Synthetic credentials of many families in twenty contexts; the same seed gives the same.

Each is put together here, so that no file of the project holds one. Formats: the documentation of their issuers, as
named in `fumehood.content.credentials`.
"""

import base64
import html
import json
import random
import string
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
WORD = BASE62 + "_-"
BASE32 = string.ascii_uppercase + "234567"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One text with one credential in it."""

    family: str
    context: str
    token: str
    text: str


class Maker:
    """Random parts of tokens, from one seed."""

    def __init__(self, seed: int) -> None:
        """The same seed, the same tokens."""
        self._chance = random.Random(seed)

    def of(self, alphabet: str, size: int) -> str:
        """Characters of an alphabet, one of each kind that it has among them, as chance would nearly always have it."""
        return "".join(self._chance.choices(alphabet, k=size))

    def uuid(self) -> str:
        """Five groups of hexadecimal digits."""
        return "-".join(self.of(HEX, size) for size in (8, 4, 4, 4, 12))

    def checked(self, size: int) -> str:
        """A body and its CRC32 in base 62."""
        body = self.of(BASE62, size)
        number, digits = zlib.crc32(body.encode()), ""
        while number:
            number, digit = divmod(number, 62)
            digits = BASE62[digit] + digits
        return body + digits.rjust(6, "0")

    def grafana(self) -> str:
        """A service account token with its CRC32."""
        body = "gl" + "sa_" + self.of(BASE62, 32)
        return f"{body}_{zlib.crc32(body.encode()):08x}"

    def jwt(self) -> str:
        """A header, claims and a signature."""
        parts = (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"' + self.of(LOWER, 12).encode() + b'"}')
        head = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
        return f"{head}.{self.of(WORD, 43)}"


# Family → its prefix, cut in two so that this file holds none, and what follows.
_PREFIXED: dict[str, tuple[str, str, str, int]] = {
    "github-pat": ("github", "_pat_", BASE62 + "_", 82),
    "gitlab": ("glpat", "-", WORD, 20),
    "gitlab-deploy": ("gldt", "-", WORD, 20),
    "gitlab-runner": ("glrt", "-", WORD, 20),
    "pypi": ("pypi-AgEIcHlw", "aS5vcmc", WORD, 140),
    "rubygems": ("ruby", "gems_", HEX, 48),
    "docker": ("dckr", "_pat_", WORD, 27),
    "aws-key": ("AK", "IA", BASE32, 16),
    "aws-session": ("AS", "IA", BASE32, 16),
    "gcp-key": ("AI", "za", WORD, 35),
    "gcp-secret": ("GOC", "SPX-", WORD, 28),
    "gcp-access": ("ya", "29.", WORD, 120),
    "slack-bot": ("xo", "xb-123456789012-1234567890123-", BASE62, 24),
    "slack-app": ("xa", "pp-1-A012345678B-1234567890123-", HEX, 64),
    "stripe-live": ("sk", "_live_", BASE62, 24),
    "stripe-restricted": ("rk", "_live_", BASE62, 24),
    "stripe-webhook": ("wh", "sec_", BASE62, 32),
    "openai": ("sk", "-proj-", WORD, 64),
    "anthropic": ("sk", "-ant-api03-", WORD, 93),
    "huggingface": ("h", "f_", string.ascii_letters, 34),
    "groq": ("gs", "k_", BASE62, 52),
    "perplexity": ("pp", "lx-", BASE62, 48),
    "replicate": ("r", "8_", BASE62, 37),
    "openrouter": ("sk", "-or-v1-", HEX, 64),
    "nvidia": ("nv", "api-", WORD, 64),
    "digitalocean": ("do", "p_v1_", HEX, 64),
    "shopify": ("sh", "pat_", HEX, 32),
    "shopify-shared": ("sh", "pss_", HEX, 32),
    "square": ("sq0", "atp-", WORD, 22),
    "postman": ("PM", "AK-", HEX, 24),
    "databricks": ("da", "pi", HEX, 32),
    "linear": ("lin", "_api_", BASE62, 40),
    "newrelic": ("NR", "AK-", string.ascii_uppercase + string.digits, 27),
    "doppler": ("dp", ".pt.", BASE62, 43),
    "vault": ("hv", "s.", WORD, 95),
    "pulumi": ("pu", "l-", HEX, 40),
    "atlassian": ("ATA", "TT3xFfGF0", WORD, 180),
    "figma": ("fi", "gd_", WORD, 43),
    "netlify": ("nf", "p_", BASE62, 36),
    "supabase": ("sb", "p_", HEX, 40),
    "planetscale": ("pscale", "_tkn_", WORD, 43),
    "fly": ("fo", "1_", WORD, 43),
    "brevo-first": ("xkey", "sib-", HEX, 64),
    "sonar": ("sq", "p_", HEX, 40),
    "airbrake-sentry": ("sntry", "u_", HEX, 64),
    "buildkite": ("bk", "ua_", HEX, 40),
    "readme": ("rd", "me_", LOWER, 70),
    "prefect": ("pn", "u_", BASE62, 36),
    "contentful": ("CF", "PAT-", WORD, 43),
    "clojars": ("CLO", "JARS_", HEX, 60),
    "adafruit": ("ai", "o_", BASE62, 28),
    "alibaba": ("LT", "AI", BASE62, 20),
    "artifactory": ("AK", "Cp", BASE62, 69),
    "langsmith": ("lsv2", "_pt_", HEX, 32),
    "twitch": ("li", "ve_123456789_", BASE62, 30),
}


def families(make: Maker) -> dict[str, str]:
    """One new token of each family."""
    tokens = {
        name: first + second + make.of(letters, size) for name, (first, second, letters, size) in _PREFIXED.items()
    }
    for name, tail in (("postman", HEX), ("brevo-first", BASE62), ("langsmith", HEX)):
        sizes = {"postman": 34, "brevo-first": 16, "langsmith": 10}
        tokens[name] += ("_" if name == "langsmith" else "-") + make.of(tail, sizes[name])
    tokens |= {
        "github-token": "gh" + "p_" + make.checked(30),
        "github-server": "gh" + "s_" + make.checked(30),
        "npm": "np" + "m_" + make.checked(30),
        "grafana": make.grafana(),
        "sendgrid": "S" + "G." + make.of(WORD, 22) + "." + make.of(WORD, 43),
        "telegram": make.of("123456789", 10) + ":A" + "A" + make.of(WORD, 33),
        "terraform": make.of(BASE62, 14) + ".atlas" + "v1." + make.of(WORD, 67),
        "mailchimp": make.of(HEX, 32) + "-us" + "12",
        "hubspot": "pat-" + "na1-" + make.uuid(),
        "heroku": "HR" + "KU-" + make.uuid(),
        "jwt": make.jwt(),
        "azure-client": make.of(BASE62, 3) + "8" + "Q~" + make.of(WORD + "~.", 34),
        "azure-devops": make.of(BASE62, 76) + "AZ" + "DO" + make.of(BASE62, 4),
    }
    return {name: _ending(token, make) for name, token in tokens.items()}


def _ending(token: str, make: Maker) -> str:
    """A sign at an end is lost where quotes or blanks are looked for: nobody publishes such a token."""
    return token[:-1] + make.of(BASE62, 1) if token[-1] in "-_.~" else token


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _wrapped(text: str) -> str:
    coded = _base64(text)
    return "\n".join(coded[place : place + 76] for place in range(0, len(coded), 76))


PLAIN: dict[str, Callable[[str], str]] = {
    "environment": lambda t: f"export SERVICE_VALUE={t}\nexport PORT=80\n",
    "json": lambda t: json.dumps({"name": "x", "value": t, "port": 80}),
    "json in json": lambda t: json.dumps({"body": json.dumps({"value": t})}),
    "yaml": lambda t: f"service:\n  port: 80\n  value: {t}\n",
    "toml": lambda t: f'[service]\nport = 80\nvalue = "{t}"\n',
    "python": lambda t: f'CLIENT = Client(url="https://x.example", value="{t}")\n',
    "javascript": lambda t: f"const client = new Client({{ value: '{t}' }});\n",
    "go": lambda t: f"\tvalue := `{t}`\n",
    "xml": lambda t: f"<service><port>80</port><value>{t}</value></service>\n",
    "query": lambda t: f"GET https://x.example/v1/items?value={urllib.parse.quote(t, safe='')}&page=2\n",
    "prose": lambda t: f"Until Friday the old value is `{t}`, then it changes.\n",
    "log": lambda t: f"2026-01-01T00:00:00Z \x1b[32mINFO\x1b[0m using \x1b[1m{t}\x1b[0m for x\n",
    "diff": lambda t: f"@@ -1 +1 @@\n-value = old\n+value = {t}\n",
    "comment": lambda t: f"x = 1  # was {t}\n",
}
ENCODED: dict[str, Callable[[str], str]] = {
    "base64": lambda t: f"data:\n  value: {_base64(t)}\n",
    "base64 of more": lambda t: _wrapped(
        json.dumps({"auth": {"user": "sam", "value": t}, "note": "of the service" * 6})
    ),
    "joined strings": lambda t: f'value = ("{t[: len(t) // 2]}"\n         "{t[len(t) // 2 :]}")\n',
    "escapes": lambda t: '{"value": "' + "".join(f"\\u{ord(c):04x}" for c in t) + '"}\n',
    "entities": lambda t: "<p>" + "".join(f"&#{ord(c)};" for c in t) + "</p>\n" + html.escape("<x>"),
    "hexadecimal": lambda t: f"value: {t.encode().hex()}\n",
}


def samples(seed: int, rounds: int) -> Iterator[Sample]:
    """Each family in each context, `rounds` times with new tokens."""
    make = Maker(seed)
    for _ in range(rounds):
        for context, write in (PLAIN | ENCODED).items():
            for family, token in families(make).items():
                yield Sample(family=family, context=context, token=token, text=write(token))
