import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content import secrets
from fumehood.content.credentials.checks import entropy

ROOT = Path(__file__).parents[4]
KEY = "q8Zr2LxV7mKt4WnB6yHc"
WORD = "hunter2xx"
FOUND = [
    "<password>hunter2xx</password>",
    'config.put("password", "hunter2xx")',
    '<x name="password">hunter2xx</x>',
    "define('DB_PASSWORD', 'hunter2xx');",
    f'<add key="ApiToken" value="{KEY}"/>',
    f'- name: API_TOKEN\n  value: "{KEY}"',
    f'api_key: str = "{KEY}"',
    f'const apiKey: string = "{KEY}";',
    f'os.environ["API_KEY"] = "{KEY}"',
    'setPassword("hunter2xx")',
    "Server=x;User Id=y;Password=hunter2xx;",
    f"FROM x\nENV API_KEY {KEY}",
    f'let token: &str = "{KEY}";',
    f'token := "{KEY}"',
    f'"secretKey" => "{KEY}"',
    'The password is "blooberry".',
    "[x]\npassword = hunter2xx",
    "DB_PASS=hunter2xx",
    "export PGPASSWORD=hunter2xx",
    "mysql -u root -phunter2xx",
    "sshpass -p hunter2xx ssh",
    "Connect -User x -Password hunter2xx",
    'new NetworkCredential("sam", "hunter2xx")',
    "curl -u sam:hunter2xx https://x.example",
    f"curl --header 'Authorization: {KEY}'",
    "Authorization: Basic c2FtOmh1bnRlcjI=",
    "postgres://sam:hunter2xx@db.example/shop",
    "mongodb+srv://sam:p@ss@db.example/shop",
    f"https://{KEY}x7@git.example/x.git",
    f'x = \'{{"client_secret": "{KEY}"}}\'',
    f"client_secret: {KEY}",
    f'"ado_pat": "{KEY}"',
    f'{{"auths": {{"x": {{"auth": "{KEY}"}}}}}}',
    "AccountKey=" + "q8Zr2LxV7mKt4WnB6yHc" * 4 + "abcdef==",
]
MANIFEST = """apiVersion: v1
kind: Secret
metadata:
  name: db
  labels:
    app: shop
type: Opaque
data:
  user: c2FtCg==
  anything: aHVudGVyMnh4Cg==
stringData:
  word: 'hunter2xx'
---
kind: ConfigMap
data:
  host: db.example
"""
ORDINARY = [
    'password = getpass("Password: ")',
    "password = os.environ['DB_PASSWORD']",
    "password: ${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "password = self._password1",
    "def login(user: str, password: str, token: str = None) -> Token:",
    "passwordLength = 100000",
    "password_field = 'input-password-1'",
    'errors = {"password": "Enter your password, please."}',
    'password = "your_password_here"',
    'password = "changeme"',
    "password = '<password>'",
    "token = sys.argv[1]",
    "tokens = tokenizer.encode(text, max_length2)",
    "secret_name: my-secret-v2",
    "token_url = 'https://x.example/oauth2/token'",
    "api_key = config.services[0].api_key2",
    'api_key = "YOUR_API_KEY_123"',
    'key = "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
    '"csrf_token": "q8Zr2LxV7mKt4WnB6yHc"',
    "https://user:password@x.example/",
    "https://${USER}:${PASS}@x.example/",
    "https://<user>:<password>@x.example/",
    "https://x.example:8080/a@b",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "-----BEGIN PRIVATE " + "KEY-----\\n...\\n-----END PRIVATE " + "KEY-----",
    'if line == "-----BEGIN RSA PRIVATE ' + 'KEY-----":\n    start(line)\n',
    '("a.pass", "conf/prod1.yml")',
    "3</etc/passwd>\\nnonsense\\n",
    "Authorization: required",
    'twitter = "https://twitter.example/fumehood"',
    "heroku_app_id: 01234567-89ab-cdef-0123-456789abcdef",
    "facebook_page = some-page-of-ours-with-words",
    "basic authentication with names",
    "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 0123456789abcdef0123456789abcdef01234567",
    "the secret is out: nobody reads manuals",
]


@pytest.mark.threat("T4")
@pytest.mark.parametrize("text", FOUND)
def test_a_value_that_its_name_gives_away_is_found(text: str) -> None:
    data = text.encode()
    spans = secrets.find(data)
    assert len(spans) == 1
    left = secrets.replace_bytes(data, spans, lambda _span, _value: b"[]")
    assert KEY.encode() not in left
    assert WORD.encode() not in left
    assert len(left) >= 6


@pytest.mark.threat("T4")
@pytest.mark.parametrize("manifest", [MANIFEST, MANIFEST.replace("\n", "\r\n"), "a: b\n---\n" + MANIFEST])
def test_every_value_of_a_secret_manifest_is_found_and_no_other(manifest: str) -> None:
    spans = secrets.find_text(manifest)
    assert [manifest[span.start : span.end] for span in spans] == ["c2FtCg==", "aHVudGVyMnh4Cg==", "hunter2xx"]


def test_a_secret_manifest_with_its_kind_last_is_read_too() -> None:
    text = "apiVersion: v1\ndata:\n  user: c2FtCg==\nkind: Secret\nmetadata:\n  name: db\n"
    assert [span.rule for span in secrets.find_text(text)] == ["kubernetes-secret"]


def test_a_page_about_secret_manifests_passes() -> None:
    assert secrets.find_text("Write kind: Secret, then\n\nkind: Secret\n\nand data:\n  x: more words of prose\n") == []


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_source_passes(text: str) -> None:
    assert [(span.rule, text[span.start : span.end]) for span in secrets.find_text(text)] == []


def test_the_source_of_this_project_holds_nothing() -> None:
    source = ROOT / "src" / "fumehood"
    for path in sorted(path for path in source.rglob("*.py") if "data" not in path.parts):  # there lies a planted one
        assert secrets.find(path.read_bytes()) == [], path


def test_pythons_own_library_stays_nearly_whole() -> None:
    """Some fifty modules that speak of passwords, tokens and keys."""
    root = Path(re.__file__).parents[1]
    paths = [*sorted(root.glob("[a-n]*.py"))[:60], *sorted((root / "http").glob("*.py"))]
    found = [(path.name, span.rule) for path in paths for span in secrets.find(path.read_bytes())]
    assert len(paths) > 50
    assert len(found) <= 1


@given(st.binary(max_size=100))
def test_entropy_is_between_none_and_eight_bits(data: bytes) -> None:
    assert 0 <= entropy(data) <= 8


@given(
    st.sampled_from(["password", "API_TOKEN", "client-secret", "dbPasswd"]),
    st.sampled_from([" = ", ": ", "=", '": "', " => '", ' := "']),
    st.text(max_size=60),
)
def test_whatever_stands_in_value_position_spans_lie_within_it(name: str, sign: str, value: str) -> None:
    data = f"{name}{sign}{value}".encode("utf-8", "surrogatepass")
    for span in secrets.find(data):
        assert 0 <= span.start < span.end <= len(data)
