import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumehood.content.credentialfiles import denies

BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDAC4AWkdwKYSd8\n"
KEY = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + BASE64 * 8 + "-----END RSA PRIVATE " + "KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\n" + BASE64 * 8 + "-----END CERTIFICATE-----\n"
RANDOM = "q8Zr2LxV7mKt4WnB6yHc3JdF9sPgA1eU5oTi0Qw2"
KUBECONFIG = f"""apiVersion: v1
kind: Config
clusters:
- cluster:
    server: https://192.0.2.1:6443
  name: one
users:
- name: admin
  user:
    client-key-data: {RANDOM}
"""
STATE = {"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "a-b", "resources": [{"type": "x"}]}
STORES = {
    "key": KEY,
    "key behind a comment": "# our key\n\n" + KEY,
    "key with attributes": "Bag Attributes\n    friendlyName: x\n" + KEY + CERTIFICATE,
    "certificate and key": CERTIFICATE + KEY,
    "key without its end": KEY[:300],
    "key with CRLF": KEY.replace("\n", "\r\n"),
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n",
    "age": "# created: 2026\n# public key: age1x\nAGE-SECRET-" + "KEY-1QQQQ\n",
    "netrc": "machine git.example login sam password hunter2x\n",
    "netrc over lines": "# mine\nmachine a.example\n  login sam\n  password hunter2x\ndefault login x password y\n",
    "netrc with a macro": "machine a login b password c\nmacdef init\nfoo bar\n",
    "kubeconfig": KUBECONFIG,
    "kubeconfig as JSON": json.dumps({"kind": "Config", "clusters": [], "users": [{"user": {"token": RANDOM}}]}),
    "state": json.dumps(STATE),
    "state that ends early": json.dumps(STATE)[:-2],
    "git credentials": f"https://sam:{RANDOM}@git.example\nhttps://eve:{RANDOM}@other.example/x\n",
    "docker": json.dumps({"auths": {"registry.example": {"auth": RANDOM}}}),
    "service account": json.dumps({"type": "service_account", "private_key": KEY}),
    "own account": json.dumps({"type": "authorized_user", "refresh_token": RANDOM}),
    "client": json.dumps({"installed": {"client_id": "x", "client_secret": RANDOM, "token_uri": "https://x.example"}}),
    "pgpass": "# mine\ndb.example:5432:shop:sam:hunter2\n*:*:*:sam:a\\:b\n",
    "htpasswd": "sam:$apr1$abcdefgh$0123456789abcdefghijkl\neve:{SHA}0123456789abcdefghijklmnopq=\n",
    "shadow": "root:$6$salt$" + RANDOM + ":19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
    "npmrc": f"@x:registry=https://registry.example\n//registry.example/:_authToken={RANDOM}\n",
    "aws": f"[default]\naws_access_key_id = {RANDOM[:20]}\naws_secret_access_key = {RANDOM}\n",
    "pypirc": f"[distutils]\nindex-servers = x\n\n[pypi]\nusername = __token__\npassword = {RANDOM}\n",
    "my.cnf": "[client]\nuser = sam\npassword = hunter2x\n",
    "wireguard": f"[Interface]\nPrivateKey = {RANDOM}=\nAddress = 192.0.2.2/32\n",
    "rclone": f"[s3]\ntype = s3\nsecret_access_key = {RANDOM}\n",
    "terraform login": json.dumps({"credentials": {"app.example": {"token": RANDOM}}}),
    "jwk": json.dumps({"keys": [{"kty": "EC", "d": RANDOM}]}),
    "azure": json.dumps({"AccessToken": {"a": {"secret": RANDOM}}}),
    "composer": json.dumps({"http-basic": {"x.example": {"username": "s", "password": RANDOM}}}),
    "session": json.dumps({"accessToken": RANDOM, "refreshToken": RANDOM}),
    "role": json.dumps({"Credentials": {"AccessKeyId": "x", "SecretAccessKey": RANDOM}}),
    "one token": "hvs" + "." + RANDOM + "\n",
    "filezilla": '<?xml version="1.0"?>\n<FileZilla3><Servers><Pass encoding="base64">eA==</Pass>',
}
ORDINARY = {
    "nothing": "",
    "blanks": " \n\n",
    "certificate": CERTIFICATE,
    "public key": CERTIFICATE.replace("CERTIFICATE", "PUBLIC KEY"),
    "a page about keys": "# Keys\n\nPut it like this:\n\n```\n" + KEY + "```\n" + "and more words on it.\n" * 40,
    "a test with a key": "import pytest\n\nKEY = '''"
    + KEY
    + "'''\n\n\ndef test_it():\n    assert KEY\n"
    + "x = 1\n" * 90,
    "code that looks for keys": 'BEGIN = "-----BEGIN PRIVATE ' + 'KEY-----"\nif BEGIN in text:\n    fail()\n',
    "a page about netrc": "machine learning is hard\nand needs a password now and then\n",
    "netrc without a password": "machine a login b\n",
    "kubeconfig without users": "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\n",
    "a page about kubeconfig": "A kubeconfig:\n\n" + KUBECONFIG,
    "kubeconfig as a template": KUBECONFIG.replace(RANDOM, "<key>"),
    "package.json": json.dumps({"name": "x", "scripts": {"auth": "node auth.js"}}),
    "docker with a helper": json.dumps({"auths": {"registry.example": {}}, "credsStore": "pass"}),
    "a template of an account": json.dumps({"type": "service_account", "private_key": "<your key>"}),
    "a public jwk": json.dumps({"keys": [{"kty": "EC", "x": RANDOM}]}),
    "JSON that is none": '{"auths": ',
    "JSON of another kind": '["auths"]',
    "addresses": "https://one.example\nhttps://two.example/x\n",
    "compiler output": "main.c:12:5: error: x\nmain.c:13:5: error: y\n",
    "passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "ini": "[tox]\nenvlist = py311\n\n[testenv]\ncommands = pytest\n",
    "aws by reference": "[default]\nregion = eu-west-1\ncredential_process = get\n",
    "aws example": "[default]\naws_secret_access_key = YOUR_SECRET_KEY\n",
    "npmrc by reference": "//registry.example/:_authToken=${TOKEN}\n",
    "code with sections": "[client]\npassword = hunter2x\nand then prose without an equals sign\n",
    "one word": "abcdefghijklmnopqrstuvwxyz\n",
    "html": "<html><body>Pass</body></html>",
    "prose": "The password is kept elsewhere.\n" * 20,
    "code": "def f(token: str) -> None:\n    password = get(token)\n" * 20,
}


@pytest.mark.threat("T3")
@pytest.mark.parametrize("kind", STORES)
def test_a_credential_file_is_denied_by_its_content_whatever_its_name(kind: str) -> None:
    assert denies(b"notes.txt", STORES[kind].encode())


@pytest.mark.threat("T3")
@pytest.mark.parametrize("kind", ["key", "netrc", "docker", "kubeconfig", "pgpass", "aws"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_an_encoding_with_a_mark_hides_no_credential_file(kind: str, encoding: str) -> None:
    assert denies(b"x", STORES[kind].encode(encoding))


@pytest.mark.parametrize("kind", ORDINARY)
def test_an_ordinary_file_stays_readable(kind: str) -> None:
    assert not denies(b"notes.txt", ORDINARY[kind].encode())


def test_old_hashes_are_believed_only_under_their_name() -> None:
    assert denies(b".htpasswd", b"sam:rqXexS6ZhobKA\n")
    assert not denies(b"words", b"sam:rqXexS6ZhobKA\n")


def test_a_java_store_is_denied_by_its_first_bytes() -> None:
    assert denies(b"x", bytes.fromhex("feedfeed00000002") + b"x" * 90)


def test_a_store_too_large_to_be_parsed_is_denied_by_its_marks() -> None:
    assert denies(b"x", json.dumps({"auths": {}, "pad": "x" * 300_000}).encode())


@given(st.binary(max_size=300), st.sampled_from([*STORES.values(), *ORDINARY.values()]), st.integers(0, 400))
def test_whatever_a_file_holds_there_is_an_answer(tail: bytes, store: str, cut: int) -> None:
    assert denies(b"x", store.encode()[:cut] + tail) in {True, False}


@pytest.mark.parametrize(
    "unit", ["machine a ", "-----BEGIN A PRIVATE " + "KEY-----\n", "a:1:b:c:d\n", "[a]\n", '{"auths"', "a:$1$"]
)
def test_a_hostile_megabyte_ends(unit: str) -> None:
    assert denies(b"x", unit.encode() * (1_000_000 // len(unit))) in {True, False}


@pytest.mark.threat("T3")
@pytest.mark.parametrize("comments", [1, 100, 3000])
def test_comments_before_a_store_do_not_hide_it(comments: int) -> None:
    secret = b"//registry.example.org/:_auth" + b"Token=" + b"0123456789abcdef\n"
    assert denies(b"a.txt", b"; what this is for\n" * comments + b"color=true\n" + secret)
    assert not denies(b"a.txt", b"; what this is for\n" * comments + b"color is true\n" + secret)


@pytest.mark.threat("T3")
def test_a_kubeconfig_may_begin_with_comments_and_with_any_of_its_keys() -> None:
    parts = [
        b"clusters:\n- name: a\n",
        b"users:\n- name: b\n  user:\n    to" + b"ken: 0123456789abcdef\n",
        b"kind: Config\n",
    ]
    for number in range(3):
        text = b"".join([*parts[number:], *parts[:number]])
        assert denies(b"a.txt", text)
        assert denies(b"a.txt", b"# a comment\n\n" + text)
        assert not denies(b"a.txt", b"# a comment\nspec: a\n" + text)
