"""One server of a client's file as a piece of `gateway.toml`. Pure.

Invariants: no value of a variable, of a header, of a query or of what looks like a credential gets into the piece or
into the words about it; what cannot be carried over is named; a server that would not be started as it was meant is
switched off.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from fumehood.content import secrets
from fumehood.gateway.guard import command as commands
from fumehood.gateway.guard.command import CommandError
from fumehood.gateway.topology import own, rules, toml, urls
from fumehood.gateway.topology.piece import BEARER, VARIABLE, Piece, inert, listed, made_up, table, values
from fumehood.gateway.topology.place import dotted, shown

# Of a reference, the name: `${env:X}` of VS Code and Cursor, `${X}` and `${X:-else}` of Claude Code, `$X` of Gemini.
_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_EXPANDED: Final = re.compile(r"\$\{[^}]{0,200}\}|^\$[A-Za-z_][A-Za-z0-9_]*$")
_FLAG: Final = re.compile(r"-{1,2}[a-z-]*(?:key|token|secret|password|passwd|credential|auth)[a-z-]*", re.IGNORECASE)
_MOST_SECONDS: Final = 600
_STREAMING: Final = frozenset({"http", "streamable-http", "streamablehttp", "streamable_http"})
_CARRIED: Final = frozenset(
    {"command", "args", "cwd", "env", "env_vars", "type", "transport", "url", "httpUrl", "serverUrl", "headers"}
    | {"http_headers", "env_http_headers", "bearer_token_env_var", "enabled", "disabled", "tool_timeout_sec"}
)
_TOLD: Final[Mapping[str, str]] = {
    "envFile": "name its variables in policy.env, and set them where the gateway is started",
    "trust": "write trust here only where the server's results may be believed",
    "includeTools": "write [roles.NAME] to choose tools",
    "excludeTools": "write [roles.NAME] to choose tools",
    "enabled_tools": "write [roles.NAME] to choose tools",
    "disabled_tools": "write [roles.NAME] to choose tools",
    "alwaysAllow": "what needs an approval is decided by trust, reads and egress",
    "autoApprove": "what needs an approval is decided by trust, reads and egress",
    "timeout": "write call_seconds",
    "oauth": "a token comes from token_env or token_file",
    "auth": "a token comes from token_env or token_file",
}


def convert(name: str, given: object, *, expands: bool) -> Piece:
    """What is made of one server; `name` is fit for a gateway. `expands`: whether its client puts variables in."""
    piece = Piece(name=name)
    if not isinstance(given, dict):
        piece.lost = "it is no table"
        return piece
    entry = _Entry(piece, given, expands=expands)
    kind = str(given.get("type") or given.get("transport") or "").lower()
    url = next((given[key] for key in ("httpUrl", "url", "serverUrl") if key in given), None)
    if kind == "sse":
        piece.lost = "it speaks the transport before Streamable HTTP (sse): ask for its new address"
    elif kind not in {"", "stdio", "local", *_STREAMING}:
        piece.lost = "its type is none that is known here"
    elif given.get("command") is not None and kind not in _STREAMING:
        entry.command()
    elif url is not None:
        entry.remote(url)
    else:
        piece.lost = "it has neither a command nor a url"
    entry.rest()
    return piece


def _nth(number: int) -> str:
    """A word of a command, as a person counts them."""
    return f"argument {number} of its command" if number else "the program of its command"


class _Entry:
    """One server, while it is converted."""

    def __init__(self, piece: Piece, given: Mapping[str, Any], *, expands: bool) -> None:
        self._piece = piece
        self._given = given
        self._expands = expands
        self._values = tuple(values(given))

    # --- a program

    def command(self) -> None:
        words = [self._given["command"], *listed(self._given.get("args"))]
        if not all(isinstance(word, str) for word in words):
            self._piece.lost = "its command is not made of texts"
            return
        found = own.read(words)
        if found is None:
            self._started(words, None)
        elif found.lost:
            self._piece.lost = found.lost
        elif found.workspace is not None:
            if self._kept(found.workspace, "workspace"):
                self._piece.lines.append(f"workspace = {toml.value(found.workspace)}")
            else:
                self._piece.lost = "its folder is not carried over: write workspace, as a whole path"
        else:
            self._say("it is behind guard already: what guard allows it stands in its policy")
            self._started(list(found.command), found.policy)

    def _started(self, words: list[str], allowed: Mapping[str, tuple[str, ...]] | None) -> None:
        """A program; `allowed` is what guard allowed it, if it was behind guard."""
        self._refusal(words)
        kept = [self._word(words, number) for number in range(len(words))]
        self._piece.lines.append(f"command = {toml.value(kept)}")
        self._folder()
        self._timeout()
        for key, given in (allowed or {}).items():
            usable = [value for value in given if self._kept(value, key)]
            if usable and key != "env":
                self._piece.policy.append(f"{key} = {toml.value(usable)}")
        names = [*self._variables(), *self._named()]
        if allowed is not None:  # guard passes on what it is told to
            names = [name for name in allowed.get("env", ()) if VARIABLE.fullmatch(name)]
        if names:
            self._piece.policy.append(f"env = {toml.value(list(dict.fromkeys(names)))}")
        places = [word for word in kept[1:] if word.startswith("/") and not _EXPANDED.search(word)]
        if places and allowed is None:
            self._piece.policy.append(f"# allow_read = {toml.value(places)}")
            self._say("its words name folders: what it may read and write is for you to say in its policy")

    def _kept(self, text: str, key: str) -> bool:
        """Whether a text means here what it meant; it is said where it does not."""
        if self._is_held(text) or text.startswith(("~", "$")) or (self._expands and _EXPANDED.search(text)):
            self._switch_off(f"a value of {key} is not carried over: write it whole")
            return False
        return True

    def _refusal(self, words: list[str]) -> None:
        try:
            commands.read(words)
        except CommandError as error:
            held = self._is_held(error.message) or self._is_held(error.remedy)
            said = "the command is refused, by the rules of guard" if held else f"{error.message} ({error.remedy})"
            self._piece.comments.append(f"refused as it stands: {inert(said)}")
            self._say(f"it will be refused as it stands: {inert(said)}")

    def _word(self, words: list[str], number: int) -> str:
        """A word of the command as it stands, unless it holds a credential."""
        word = words[number]
        behind = number > 0 and _FLAG.fullmatch(words[number - 1]) is not None
        flag, found, _ = word.partition("=")
        told = bool(found and _FLAG.fullmatch(flag))
        if self._expands and _EXPANDED.search(word):
            self._switch_off(f"{_nth(number)} has a variable, and nothing is expanded: write what it stood for")
            return _EXPANDED.sub(lambda seen: "${REMOVED}" if self._is_held(seen[0]) else seen[0], word)
        if self._is_held(word) or (behind and not word.startswith("-")):
            self._switch_off(f"{_nth(number)} holds what looks like a credential, and is left out")
            return "REMOVED"
        if told:
            self._switch_off(f"{_nth(number)} holds what looks like a credential, and is cut")
            return f"{flag}=REMOVED"
        return word

    def _folder(self) -> None:
        folder = self._given.get("cwd")
        if folder is None:
            return
        if not isinstance(folder, str) or self._is_held(folder) or folder.startswith("~") or "$" in folder:
            self._switch_off("cwd is not carried over: write folder, as a whole path")
            return
        self._piece.lines.append(f"folder = {toml.value(folder)}")

    def _timeout(self) -> None:
        seconds = self._given.get("tool_timeout_sec")
        if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds <= _MOST_SECONDS:
            self._piece.lines.append(f"call_seconds = {toml.value(float(seconds))}")
        elif seconds is not None:
            self._say("tool_timeout_sec is not carried over: call_seconds is more than 0 and at most 600")

    def _variables(self) -> Iterator[str]:
        """Names of variables that it is given, each to be set by whoever starts the gateway."""
        for name, value in table(self._given.get("env")).items():
            if value is None:
                continue
            if not VARIABLE.fullmatch(name) or name.startswith("FUMEHOOD_"):
                self._say(f"env.{shown(name)} is not carried over: no variable of a server can have that name")
                continue
            yield name
            of = self._reference(value)
            if of is None:
                self._say(f"set {name}: its value stands in your file and is not copied")
                if isinstance(value, str) and value.startswith("/"):
                    self._say(f"{name} is a path: what it may read and write there is for you to say in its policy")
            elif of != name:
                self._say(f"set {name} to what {of} holds: here a variable is passed by its own name")
            if of is not None and ":-" in value:
                self._say(f"{name} had a default, which is not copied")

    def _named(self) -> Iterator[str]:
        for one in listed(self._given.get("env_vars")):
            name = one.get("name") if isinstance(one, dict) else one
            if isinstance(name, str) and VARIABLE.fullmatch(name) and not name.startswith("FUMEHOOD_"):
                yield name
            else:
                self._say("a name in env_vars is not carried over: no variable of a server can have it")

    # --- a remote server

    def remote(self, url: object) -> None:
        if not isinstance(url, str) or (problem := self._unusable(url)):
            self._piece.lost = "its url is no text" if not isinstance(url, str) else problem
            return
        self._piece.lines.append(f"url = {toml.value(url)}")
        self._timeout()
        headers: dict[str, str] = {}
        token = self._given.get("bearer_token_env_var")
        if isinstance(token, str) and VARIABLE.fullmatch(token):
            headers["authorization"] = token
            self._piece.lines.append(f"token_env = {toml.value(token)}")
        for name, value in table(self._given.get("env_http_headers")).items():
            self._header(headers, name, value if isinstance(value, str) and VARIABLE.fullmatch(value) else None, None)
        literal = {**table(self._given.get("headers")), **table(self._given.get("http_headers"))}
        for name, value in literal.items():
            self._header(headers, name, None, value)
        further = {name: variable for name, variable in headers.items() if name != "authorization"}
        if further:
            inner = ", ".join(f"{toml.key(name)} = {toml.value(variable)}" for name, variable in further.items())
            self._piece.lines.append(f"headers_env = {{ {inner} }}")

    def _unusable(self, url: str) -> str:
        if self._expands and _EXPANDED.search(url):
            return "its url has a variable, and nothing is expanded"
        if problem := urls.problem(url, private=True):
            return f"its url {problem}"
        if problem := urls.problem(url, private=False):
            return f"its url {problem}: write it with allow_private = true where the network is your own"
        parts = urls.split(url)
        named = parse_qsl(parts.query, keep_blank_values=True) if parts else []
        if self._is_held(url) or any(_FLAG.fullmatch(f"-{name.replace('_', '-')}") for name, _ in named):
            return "its url holds what looks like a credential: a header from a variable is where it belongs"
        return ""

    def _header(self, headers: dict[str, str], name: str, variable: str | None, value: object) -> None:
        """One header, from a variable: the one that it is made of, or one that is to be set."""
        if name.lower() in {one.lower() for one in headers}:
            self._say(f"the header {shown(name)} stands there twice: one is carried over")
            return
        if rules.is_own_header(name) or not re.fullmatch(r"[A-Za-z0-9-]{1,64}", name):
            self._say(f"the header {shown(name)} is not carried over: it is fumehood's own, or no header's name")
            return
        bearer = BEARER.fullmatch(value) if isinstance(value, str) and name.lower() == "authorization" else None
        if variable is None:
            held = bearer[1] if bearer else value
            variable = self._reference(held)
            if variable is None:
                variable = made_up(self._piece.name, "TOKEN" if bearer else name)
                what = "the token" if bearer else f"the header {shown(name)}"
                self._say(f"set {variable}: {what} stands in your file and is not copied")
        if bearer:
            headers["authorization"] = variable
            self._piece.lines.append(f"token_env = {toml.value(variable)}")
        else:
            headers["Authorization" if name.lower() == "authorization" else name] = variable

    # --- both

    def rest(self) -> None:
        """What is not carried over, by name."""
        if self._given.get("disabled") is True or self._given.get("enabled") is False:
            self._piece.off = True
        for key in self._given:
            if key in _TOLD:
                self._say(f"{key} is not carried over: {_TOLD[key]}")
            elif key not in _CARRIED:
                self._say(f"{dotted([str(key)])} is not carried over: there is nothing like it here")

    def _reference(self, value: object) -> str | None:
        """The variable that a whole value is, where the client puts its value in."""
        found = _REFERENCE.fullmatch(value) if self._expands and isinstance(value, str) else None
        name = (found[1] or found[2]) if found else None
        return name if name and VARIABLE.fullmatch(name) and not name.startswith("FUMEHOOD_") else None

    def _is_held(self, text: str) -> bool:
        """Whether a text holds a value of the file's, or what looks like a credential."""
        return any(value in text for value in self._values) or bool(secrets.find_text(text))

    def _switch_off(self, why: str) -> None:
        self._piece.off = True
        self._piece.comments.append(f"switched off: {why}")
        self._say(f"switched off: {why}")

    def _say(self, text: str) -> None:
        self._piece.notes.append(f"{self._piece.name}: {text}")
