"""Values that their names give away: assignments, options, headers, the userinfo of an address. Pure.

Sources: RFC 3986 section 3.2.1 (userinfo), RFC 9110 section 11.6.2 (Authorization).
"""

from typing import Final

from fumehood.content.credentials.build import rule
from fumehood.content.credentials.checks import has_digit, is_password, looks_random
from fumehood.content.credentials.model import Rule

_TELLING_NAME = (
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|credential"
    r"|(?<![a-z0-9])_auth)"
)
_BETWEEN = r"\\{0,3}[\"']?\s{0,3}(?::=|=>|[:=])\s{0,3}"  # of a name and its value, also in JSON within JSON
_VALUE = r"\\{0,3}(?:\"([^\"\n]{6,1024})|'([^'\n]{6,1024})|([^\s\"'`,;&(){}<>]{6,1024}))"

NAMED: Final[tuple[Rule, ...]] = (
    rule("url-credential", "RFC 3986", "://", r"://[^\s/:@\"'<>\[]{0,256}+:([^\s/@\"'<>]{1,1024})@"),
    rule(
        "authorization",
        "RFC 9110",
        "authorization",
        r"(?i)authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?(?:[a-z]{1,20}\s{1,3})?([^\s\"',;]{6,4096})",
        accepts=looks_random,
    ),
    rule(
        "bearer", "RFC 6750", "bearer", r"(?i)(?<![a-z0-9])bearer\s{1,3}([a-z0-9._~+/=-]{16,4096})", accepts=has_digit
    ),
    rule(
        "password",
        "",
        "passw passphrase",
        r"(?i)(?:passw(?:or)?d|passphrase)[a-z0-9_-]{0,20}+" + _BETWEEN + _VALUE,
        accepts=is_password,
    ),
    rule(
        "assignment",
        "",
        "token secret apikey api_key api-key access_key access-key accesskey private_key privatekey private-key"
        " auth_key authkey auth-key passw passphrase credential _auth",
        rf"(?i){_TELLING_NAME}[a-z0-9_-]{{0,20}}+{_BETWEEN}{_VALUE}",
        accepts=looks_random,
    ),
    rule(
        "option",
        "",
        "--",
        rf"(?i)(?<![a-z0-9-])--[a-z0-9-]{{0,30}}{_TELLING_NAME}[a-z-]{{0,20}}\s{{1,3}}(?!-){_VALUE}",
        accepts=looks_random,
    ),
)
