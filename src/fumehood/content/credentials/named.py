"""Values that their names give away: assignments, arguments, elements, options, headers, userinfo. Pure.

Sources: RFC 3986 section 3.2.1 (userinfo), RFC 9110 section 11.6.2 and RFC 7617 (Authorization), RFC 6750 (Bearer),
curl(1), ADO.NET's and ODBC's connection strings, the shapes of assignments in the languages that symbols are found in.
"""

from typing import Final

from fumehood.content.credentials.build import rule
from fumehood.content.credentials.checks import has_digit
from fumehood.content.credentials.model import Rule
from fumehood.content.credentials.values import (
    is_basic,
    is_curl_user,
    is_environment_value,
    is_key_value,
    is_password_value,
    is_userinfo,
)

# What stands between a name and its value: the rest of the name, quotes and brackets, a type, an operator.
_REST = r"[a-z0-9_-]{0,20}+\\{0,3}[\"']?"
_TYPED = r"(?::\s{0,2}|\s)[&*]?[a-z][a-z0-9_.\[\]<>|& ]{0,24}(?=\s{0,3}:?=[^=>])"
_OPERATOR = r"\s{0,3}(?::=|=>|={1,3}|!={1,2}|:{1,2})\s{0,3}"
_SIGNS = (
    rf"(?:[\])]{{0,2}}(?:{_TYPED})?{_OPERATOR}"  # name = value, "name": value, [name] = value, name: type = value
    rf"|\s{{0,2}}\(\s{{0,2}}(?=[\"'])"  # name("value")
    r"|\s{0,2}/?>\s{0,3}(?:<(?:string|value)>)?"  # <name>value, <key>name</key><string>value
    r"|\s{0,2}[\"']?\s{0,3},?\s{0,16}\n?\s{0,16}[\"']?value[\"']?\s{0,3}[:=]\s{0,3}"  # name: X, value: Y
    r"|\s{1,2}is:?\s{1,2}(?=\\?[\"'])"  # the name is "value"
    r")"
)
_LINK = rf"(?:{_REST}{_SIGNS}|\\{{0,3}}[\"']\s{{0,3}},\s{{0,3}}(?=\\{{0,3}}[\"']))"  # also "name", "value"
_VALUE = (
    r"(?:[bfru@$]{0,2}\\{0,3}\"([^\"\n]{3,1024})|[bfru@]{0,2}\\{0,3}'([^'\n]{3,1024})|`([^`\n]{3,1024})"
    r"|([^\s\"'`,;&(){}<>]{6,1024}))"
)
_BEFORE_KEY = (
    "api|access|private|auth|account|shared|master|signing|encryption|license|licence|developer|deploy|insert|query"
    "|secret|client|storage|subscription|service|consumer|session|admin|app|bot|webhook|jwt|hmac"
)
_KEYS = " ".join(f"{word}{between}key" for word in _BEFORE_KEY.split("|") for between in ("", "_", "-", ".", "±"))
_SAYS_WORD = r"(?:passw(?:or)?d|passphrase|(?<![a-z])(?:pwd|psw)|(?:[_-]|(?<![a-z]))pass(?![a-z]))"
_SAYS_KEY = (
    r"(?:tokens?|secrets?|credentials?|creds|(?:_|(?<![a-z]))pat(?![a-z])|(?<![a-z0-9])_auth|(?<=\")auth(?=\")"
    rf"|(?:{_BEFORE_KEY})[ ._-]?key)"
)

NAMED: Final[tuple[Rule, ...]] = (
    rule(
        "url-credential",
        "RFC 3986",
        "://",
        r"://[^\s/:@\"'<>\[\\]{0,256}+:([^\s/\"'<>\\]{1,1024})@(?=[A-Za-z0-9$%{\[*<(_])",
        accepts=is_userinfo,
    ),
    rule(
        "url-token",
        "RFC 3986",
        "://",
        r"://([^\s/:@\"'<>\[\\]{20,256}+)(?::x-oauth-basic|:)?@(?=[A-Za-z0-9])",
        accepts=is_key_value,
    ),
    rule(
        "basic",
        "RFC 7617",
        "basic±",
        r"(?i)(?<![a-z0-9])basic {1,3}([a-z0-9+/_-]{6,2048}={0,2})",
        accepts=is_basic,
    ),
    rule(
        "authorization",
        "RFC 9110",
        "authorization x-auth",
        r"(?i)(?:authorization|x-auth[a-z-]{0,20})\\{0,3}[\"']?\]?\s{0,3}[:=,]\s{0,3}\\{0,3}[\"']?"
        r"(?:[a-z]{1,20}\s{1,3})?([^\s\"',;<>\\(){}]{6,4096})",
        accepts=is_key_value,
    ),
    rule(
        "bearer",
        "RFC 6750",
        "bearer",
        r"(?i)(?<![a-z0-9])bearer\s{1,3}([a-z0-9._~+/=-]{16,4096})",
        accepts=has_digit,
    ),
    rule(
        "curl-user",
        "curl(1)",
        "±-u --user",
        r"(?: -u|--user)[ =]{0,2}[\"']?[^\s\"':]{0,256}+:([^\s\"'\\]{3,256})",
        accepts=is_curl_user,
    ),
    rule(
        "password",
        "assignments of names that say password",
        "passw passphrase pwd psw _pass -pass pass\" pass' pass= pass:",
        rf"(?i){_SAYS_WORD}{_LINK}{_VALUE}",
        accepts=is_password_value,
    ),
    rule(
        "assignment",
        "assignments of names that say token, secret or key",
        f'token secret credential creds _pat _auth auth" {_KEYS}',
        rf"(?i){_SAYS_KEY}{_LINK}{_VALUE}",
        accepts=is_key_value,
    ),
    rule(
        "option",
        "command lines",
        "--",
        rf"(?i)(?<![a-z0-9-])--[a-z0-9-]{{0,30}}?(?:{_SAYS_WORD}|{_SAYS_KEY})[a-z-]{{0,20}}(?:\s{{1,3}}|=)(?!-){_VALUE}",
        accepts=is_key_value,
    ),
    rule(
        "password-option",
        "PowerShell",
        "-password",
        rf"(?i)(?<=\s)-password\s{{1,3}}(?![-$(]){_VALUE}",
        accepts=is_password_value,
    ),
    rule(
        "environment",
        "Dockerfile reference (the form without a sign), setx",
        "env± setx±",
        r"(?:(?<=\n)|(?<![\s\S]))(?:ENV|(?i:setx)) {1,3}\w{0,40}?"
        rf"(?i:{_SAYS_WORD}|{_SAYS_KEY})\w{{0,20}} {{1,3}}{_VALUE}",
        accepts=is_environment_value,
    ),
    rule(
        "password-letter",
        "sshpass(1), mysql(1)",
        "sshpass mysql",
        r"(?:sshpass\s{1,3}-p\s{0,3}|mysql(?:dump|admin)?\s[^\n|;]{0,200}?\s-p)[\"']?([^\s\"'$-][^\s\"']{4,256})",
        accepts=is_userinfo,
    ),
    rule(
        "password-argument",
        ".NET, classes that take a user and a password",
        "networkcredential( directoryentry( sqlcredential(",
        r"(?i)(?:networkcredential|directoryentry|sqlcredential)\("
        r"(?:\s{0,16}[\"'][^\"'\n]{0,256}[\"']\s{0,3},){1,2}\s{0,16}[\"']([^\"'\n]{3,256})[\"']",
    ),
)
