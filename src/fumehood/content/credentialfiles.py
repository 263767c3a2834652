"""Tell a credential file by what it holds, whatever its name. Pure.

Invariants: a file is denied when *all* of it is what some program keeps credentials in, so that a page which quotes an
example, a test or a certificate stays readable (redaction looks at those); each check gives up at the first line that
does not fit, and a structure that is too large to be parsed is judged by its marks, towards denial.

Not promised: that every program's store is known. Sources: GNU inetutils' netrc, git-credential-store(1), PostgreSQL
section "The Password File", Apache's password formats, crypt(5), Kubernetes' kubeconfig v1, Docker's config.json,
Google's service account keys, Terraform's state, RFC 7468, RFC 7517 (JWK), wg(8), AWS' shared credentials file.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable

_MARKED_BYTES = 256 * 1024  # a JSON store above this is judged by its marks: a docker config with helpers is 2 KiB
_LONE_BYTES = 4096  # a file of one word; the longest token in the field is a JWT of 3 KiB
_BEGINNING_BYTES = 16 * 1024  # in which a file shows what kind of lines it has
_WORDS = 4096  # of a netrc that are looked at
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_STORES = (b"\xfe\xed\xfe\xed\x00\x00\x00", b"\xce\xce\xce\xce\x00\x00\x00")  # of Java: JKS and JCEKS


def denies(name: bytes, data: bytes) -> bool:
    """Whether a file of this name and content is never served; `name` is its base name, and only ever adds."""
    if data.startswith(_STORES):
        return True
    text = _utf8(data)
    start = text.lstrip()
    if not start:
        return False
    if start[:1] == b"{":
        return _is_json_store(start)
    if start[:1] == b"<":
        return start[:400].find(b"<FileZilla") >= 0 and b"<Pass" in text
    return (
        _is_key(start)
        or _is_lines(start, name)
        or _is_netrc(start)
        or _is_sections(start)
        or _is_kubeconfig(start)
        or _is_lone(start)
    )


def _utf8(data: bytes) -> bytes:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace").encode("utf-8", "replace")
    return data


_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,60})-----[^-]{1,65536}-----END [A-Z0-9 ]{1,60}-----")
_BESIDE_BYTES = 512  # of what may stand beside the blocks: OpenSSL's bag attributes, comments
_AGE = re.compile(rb"(?:#[^\n]*\n|\s)*AGE-SECRET-KEY-1")


def _is_key(text: bytes) -> bool:
    if text.startswith((b"PuTTY-User-Key-File-", b"AGE-SECRET-KEY-1")):
        return True
    if text[:1] == b"#" and b"AGE-SECRET-KEY-1" in text and _AGE.match(text):
        return True
    if b"PRIVATE KEY" not in text:
        return False
    if re.match(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----\s*\S{16}", text):
        return True  # also where its end is missing
    blocks = list(_BLOCK.finditer(text))
    if not any(b"PRIVATE KEY" in block[1] for block in blocks):
        return False
    beside = len(text) - sum(len(block[0]) for block in blocks)
    return beside <= _BESIDE_BYTES * len(blocks) and _BLOCK.sub(b"", text).count(b"```") == 0


_GIT_CREDENTIAL = re.compile(rb"https?://[^\s:/@]{1,512}:[^\s@/]{1,2048}@[^\s/@]{1,512}(?:/\S{0,512})?\s*$")
_PGPASS = re.compile(
    rb"[^\s:]{1,255}:(?:\d{1,5}|\*):[^\s:]{1,255}:(?:[^\s:\\]|\\.){1,255}:(?![\s:])(?:[^:\n\\]|\\.){1,512}$"
)
_HASH = (
    rb"\$(?:apr1|1|2[abxy]?|5|6|7|y|gy|sha1|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{8,512}"
    rb"|\{(?:SHA|SSHA)\}[A-Za-z0-9+/=]{20,}"
)
_HTPASSWD = re.compile(rb"[^\s:]{1,255}:(?:" + _HASH + rb")(?::[^\n]{0,255})?\s*$")
_HTPASSWD_ANY = re.compile(rb"[^\s:]{1,255}:(?:" + _HASH + rb"|[./A-Za-z0-9]{13}|[!*]{0,2})(?::[^\n]{0,255})?\s*$")
_NPMRC = re.compile(rb"[A-Za-z@/_:.\[\]0-9-]{1,255}\s{0,4}=[^\n]{0,2048}$")
_NPMRC_SECRET = re.compile(rb"(?m)^[^#;\n]{0,255}(?:_authToken|_auth|_password)\s{0,4}=\s{0,4}[^\s$][^\n]{5,}$")


def _is_lines(text: bytes, name: bytes) -> bool:
    if text.startswith(b"http") and _every_line(text, _GIT_CREDENTIAL.match):
        return True
    first = _first_line(text)
    if _PGPASS.match(first) and _every_line(text, _PGPASS.match):
        return True
    begins = _HTPASSWD_ANY if b"htpasswd" in name.lower() else _HTPASSWD
    if begins.match(first) and _every_line(text, _HTPASSWD_ANY.match):
        return True
    if first and not _NPMRC.match(first):
        return False
    secret = b"_auth" in text or b"_password" in text
    return secret and _every_line(text, _NPMRC.match) and _NPMRC_SECRET.search(text) is not None


def _first_line(text: bytes) -> bytes:
    """The first line that is neither empty nor a comment; nothing where none ends in the beginning of the text."""
    beginning = text[:_BEGINNING_BYTES]
    for line in beginning.splitlines(keepends=True):
        stripped = line.strip()
        if stripped and not stripped.startswith((b"#", b";")):
            return stripped if len(beginning) == len(text) or line.endswith((b"\n", b"\r")) else b""
    return b""


def _every_line(text: bytes, fits: Callable[[bytes], object]) -> bool:
    """Whether each line that is neither empty nor a comment fits, and there is one."""
    some = False
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith((b"#", b";")):
            if not fits(stripped):
                return False
            some = True
    return some


def _is_netrc(text: bytes) -> bool:
    """The grammar: `machine NAME` or `default`, then pairs of login, user, account, password; macdef ends it."""
    if not re.match(rb"(?:#[^\n]{0,4096}\n\s*)*(?:machine|default)\s", text) or b"password" not in text:
        return False
    words = re.sub(rb"(?m)(?:^|\s)#[^\n]*", b"", text).split(None, _WORDS)[:_WORDS]
    place, secret = 0, False
    while place < len(words) and words[place] != b"macdef":
        word = words[place]
        if word not in _NETRC_WORDS:
            return False
        secret = secret or (word in {b"password", b"passwd"} and place + 1 < len(words))
        place += 1 if word == b"default" else 2
    return secret


_NETRC_WORDS = frozenset((b"machine", b"default", b"login", b"user", b"account", b"password", b"passwd", b"port"))

_SECTION_LINE = re.compile(rb"\[[^\]\n]{1,255}\]\s*(?:[#;].*)?$|[\w.:@/ \"'-]{1,255}=.{0,4096}$")
_SECTION_SECRET = re.compile(
    rb"(?mi)^\s{0,16}(?:aws_secret_access_key|aws_session_token|PrivateKey|PresharedKey|token|password|pass|secret_key"
    rb"|secret_access_key|client_secret|refresh_token)\s{0,16}=\s{0,16}[\"']?([^\s\"'$<{%]{6,})"
)
_SECTION_NAMES = re.compile(
    rb"(?mi)^\[(?:distutils|(?:test)?pypi|server-login|client|mysqldump|interface|peer|registr(?:y|ies)[^\]]*|default"
    rb"|profile [^\]]+)\]"
)


def _is_sections(text: bytes) -> bool:
    """AWS' credentials, .pypirc, .my.cnf, WireGuard's and rclone's configuration, cargo's credentials.toml."""
    secret = _SECTION_SECRET.search(text) if _first_line(text).startswith(b"[") else None
    if secret is None or not (_SECTION_NAMES.search(text) or b"\ntype" in text):
        return False
    example = re.search(rb"(?i)example|your|xxx|changeme|placeholder|\*\*\*", secret[1])
    return not example and _every_line(text, _SECTION_LINE.match)


_KUBE_KEYS = re.compile(
    rb"(?:---|[- ]|(?:apiVersion|kind|clusters|contexts|users|preferences|current-context|extensions)\s*:)"
)
_KUBE_SECRET = re.compile(
    rb"\s(?:client-key-data|token|password|id-token|refresh-token|access-token)[\"']?\s{0,8}:\s{0,8}[\"']?[^\s<$\"'{]{6,}"
)


def _is_kubeconfig(text: bytes) -> bool:
    if text[:1] != b"#" and not _KUBE_KEYS.match(text):  # its first line already is another's
        return False
    if b"users:" not in text or b"clusters:" not in text:
        return False
    fits = all(
        _KUBE_KEYS.match(line)
        for line in text.splitlines()
        if line.strip() and not line.startswith((b"#", b" ", b"\t", b"-"))
    )
    return fits and _KUBE_SECRET.search(text) is not None


_LONE = re.compile(rb"\S{16,4096}\s*$")
_LONE_TOKEN = re.compile(
    rb"(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40}|glpat-[A-Za-z0-9_-]{20}|npm_[A-Za-z0-9]{36}|hvs\.[\w-]{24}"
    rb"|s\.[A-Za-z0-9]{24}$|xox[abprs]-[0-9A-Za-z-]{20}|sk-[A-Za-z0-9_-]{32}|pypi-AgEI|eyJ[\w-]{10,2048}\.[\w-]{10,4096}\.[\w-]{20})"
)


def _is_lone(text: bytes) -> bool:
    """A file of one word, which is a token: `.vault-token` and its kind."""
    return len(text) <= _LONE_BYTES and bool(_LONE_TOKEN.match(text) and _LONE.match(text))


def _is_json_store(text: bytes) -> bool:
    marks = [store for store in _JSON_STORES if all(mark in text for mark in store)]
    if not marks:
        return False
    if len(text) > _MARKED_BYTES:
        return True
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return b"terraform_version" in text and b"lineage" in text
    return isinstance(document, dict) and any(_JSON_STORES[store](document) for store in marks)


def _is_filled(value: object) -> bool:
    """A string that is more than the hole of a template."""
    return isinstance(value, str) and len(value) > 5 and not re.match(r"[<$*{]|your|x{4}|\.\.\.", value, re.IGNORECASE)  # noqa: PLR2004 - shorter ones are words


def _members(value: object) -> Iterable[dict[str, object]]:
    if isinstance(value, dict):
        yield from (member for member in value.values() if isinstance(member, dict))
    elif isinstance(value, list):
        yield from (member for member in value if isinstance(member, dict))


def _has(*names: str) -> Callable[[dict[str, object]], bool]:
    return lambda document: any(_is_filled(document.get(name)) for name in names)


def _nested(name: str, *fields: str) -> Callable[[dict[str, object]], bool]:
    """Some member of `name` has one of the fields, filled."""
    return lambda document: any(_has(*fields)(member) for member in _members(document.get(name)))


def _is_jwk(document: dict[str, object]) -> bool:
    keys = [document, *_members(document.get("keys"))]
    return any("kty" in key and (_is_filled(key.get("d")) or key.get("kty") == "oct") for key in keys)


def _is_kube(document: dict[str, object]) -> bool:
    users = [user.get("user") for user in _members(document.get("users"))]
    fields = ("client-key-data", "token", "password")
    return "clusters" in document and any(isinstance(user, dict) and _has(*fields)(user) for user in users)


# Which marks a store of JSON has, and what its document must hold.
_JSON_STORES: dict[tuple[bytes, ...], Callable[[dict[str, object]], bool]] = {
    (b'"auths"',): _nested("auths", "auth", "identitytoken", "registrytoken", "password"),
    (b'"service_account"', b'"private_key"'): _has("private_key"),
    (b'"authorized_user"', b'"refresh_token"'): _has("refresh_token"),
    (b'"client_secret"', b'"client_id"', b'"token_uri"'): lambda document: any(
        _has("client_secret")(member) for member in _members(document)
    ),
    (b'"terraform_version"', b'"lineage"'): lambda document: "resources" in document or "modules" in document,
    (b'"credentials"', b'"token"'): _nested("credentials", "token"),
    (b'"kty"',): _is_jwk,
    (b'"users"', b'"clusters"'): _is_kube,
    (b'"AccessToken"', b'"secret"'): lambda document: any(
        _has("secret")(member) for member in _members(document.get("AccessToken"))
    ),
    (b'"http-basic"', b'"password"'): _nested("http-basic", "password"),
    (b'"accessToken"', b'"refreshToken"'): _has("accessToken", "refreshToken"),
    (b'"AccessKeyId"', b'"SecretAccessKey"'): lambda document: any(
        _has("SecretAccessKey")(member) for member in [document, *_members(document)]
    ),
}
