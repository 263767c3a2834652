"""The shape of the operator's settings: which sections there are, which fields, and what each may be.

A setting may lower a limit; one that raises a limit or weakens a control begins with `unsafe_`, and `weakened` names
it for every result. Where the values come from is in `core.settings`.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from fumehood.core import limits

_Absolute = Annotated[str, Meta(pattern=r"\A/[^\x00-\x1f\x7f]*\Z", max_length=4000)]
_Url = Annotated[
    str,
    Meta(
        pattern=r"\Ahttps?://[A-Za-z0-9.\[\]:_-]+(?:/[A-Za-z0-9._~/%-]*)?\Z",
        max_length=500,
    ),
]
_Socket = Annotated[str, Meta(pattern=r"\Awss?://[A-Za-z0-9.\[\]:_-]+/?\Z", max_length=500)]


class _Section(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of the file."""


class SandboxSettings(_Section, frozen=True, kw_only=True):
    """`[sandbox]`: which programs stand for the walls, and lower limits of a sandboxed child."""

    bwrap: Annotated[_Absolute | None, Meta(description="bubblewrap to use instead of the one found")] = None
    node: Annotated[_Absolute | None, Meta(description="Node to use instead of the one found")] = None
    setpriv: Annotated[_Absolute | None, Meta(description="setpriv to use instead of the one found")] = None
    strace: Annotated[_Absolute | None, Meta(description="strace to use instead of the one found")] = None
    nft: Annotated[_Absolute | None, Meta(description="nft to use instead of the one found")] = None
    git: Annotated[_Absolute | None, Meta(description="git to use instead of the one found")] = None
    uv: Annotated[_Absolute | None, Meta(description="uv to use instead of the one found")] = None
    python: Annotated[_Absolute | None, Meta(description="Python for pypi targets instead of the system's")] = None
    deno: Annotated[_Absolute | None, Meta(description="Deno to run programs with instead of the one found")] = None
    run_root: Annotated[_Absolute | None, Meta(description="where run folders are made")] = None
    memory_bytes: Annotated[int, Meta(ge=64 * limits.MIB, le=limits.MEMORY_BYTES)] = limits.MEMORY_BYTES
    processes: Annotated[int, Meta(ge=16, le=limits.PROCESSES)] = limits.PROCESSES
    open_files: Annotated[int, Meta(ge=64, le=limits.OPEN_FILES)] = limits.OPEN_FILES
    file_bytes: Annotated[int, Meta(ge=limits.MIB, le=limits.FILE_BYTES)] = limits.FILE_BYTES
    layer_bytes: Annotated[int, Meta(ge=limits.MIB, le=limits.LAYER_BYTES)] = limits.LAYER_BYTES
    cpu_seconds: Annotated[int, Meta(ge=1, le=limits.CPU_SECONDS)] = limits.CPU_SECONDS

    @property
    def tools(self) -> dict[str, Path]:
        """The programs that the operator named."""
        names = ("bwrap", "node", "setpriv", "strace", "nft", "git", "uv", "python", "deno")
        named = {name: getattr(self, name) for name in names}
        return {name: Path(path) for name, path in named.items() if path is not None}


class ReviewSettings(_Section, frozen=True, kw_only=True):
    """`[review]`: where packages and commits come from, and lower limits of time."""

    npm_registry: Annotated[_Url | None, Meta(description="the npm registry; else what the operator's npm says")] = None
    index: Annotated[_Url | None, Meta(description="the Python index; else what the operator's pip and uv say")] = None
    index_files: Annotated[
        tuple[_Url, ...], Meta(max_length=8, description="further hosts that files of the Python index come from")
    ] = ()
    forge: Annotated[_Url, Meta(description="where git targets come from")] = "https://github.com"
    ca_file: Annotated[_Absolute | None, Meta(description="certificates, PEM, that registry and forge need")] = None
    acquire_seconds: Annotated[float, Meta(gt=0, le=limits.ACQUIRE_SECONDS)] = limits.ACQUIRE_SECONDS
    install_seconds: Annotated[float, Meta(gt=0, le=limits.INSTALL_SECONDS)] = limits.INSTALL_SECONDS
    prepare_seconds: Annotated[float, Meta(gt=0, le=limits.PREPARE_SECONDS)] = limits.PREPARE_SECONDS
    start_seconds: Annotated[float, Meta(gt=0, le=limits.START_SECONDS)] = limits.START_SECONDS
    exercise_seconds: Annotated[float, Meta(gt=0, le=limits.EXERCISE_SECONDS)] = limits.EXERCISE_SECONDS
    stop_seconds: Annotated[float, Meta(gt=0, le=limits.STOP_SECONDS)] = limits.STOP_SECONDS
    job_seconds: Annotated[float, Meta(gt=0, le=limits.JOB_SECONDS)] = limits.JOB_SECONDS

    def step_seconds(self, step: str) -> float:
        """The limit of one step of a review, by its name."""
        return {
            "clone": self.acquire_seconds,
            "index": self.acquire_seconds,
            "lock": self.acquire_seconds,
            "fetch": self.acquire_seconds,
            "install": self.install_seconds,
            "build": self.prepare_seconds,
            "exercise": self.exercise_seconds,
        }[step.partition("-")[0]]  # of `exercise-again` as of `exercise`


_Word = Annotated[str, Meta(min_length=1, max_length=200)]
_Words = Annotated[tuple[_Word, ...], Meta(max_length=500)]


class WorkspaceSettings(_Section, frozen=True, kw_only=True):
    """`[workspace]`: the served folder, what in it is denied besides, and lower limits of a call."""

    root: Annotated[_Absolute | None, Meta(description="the served folder, where the flag names none")] = None
    denied_names: Annotated[_Words, Meta(description="further names that are denied")] = ()
    denied_globs: Annotated[_Words, Meta(description="further patterns of names that are denied")] = ()
    denied_folders: Annotated[_Words, Meta(description="further folders that are denied with all they hold")] = ()
    hard_link_folders: Annotated[_Words, Meta(description="folders inside where a file may have a second name")] = ()
    unsafe_follow_links: Annotated[bool, Meta(description="follow links that stay inside")] = False
    unsafe_without_walls: Annotated[bool, Meta(description="serve where the walls of the process cannot stand")] = False
    file_bytes: Annotated[int, Meta(ge=1024, le=limits.SERVED_FILE_BYTES)] = limits.SERVED_FILE_BYTES
    searched_file_bytes: Annotated[int, Meta(ge=1024, le=limits.SEARCHED_FILE_BYTES)] = limits.SEARCHED_FILE_BYTES
    read_lines: Annotated[int, Meta(ge=1, le=limits.READ_LINES)] = limits.READ_LINES
    line_characters: Annotated[int, Meta(ge=80, le=limits.LINE_CHARACTERS)] = limits.LINE_CHARACTERS
    results: Annotated[int, Meta(ge=1, le=limits.SEARCH_RESULTS)] = limits.SEARCH_RESULTS
    reply_bytes: Annotated[int, Meta(ge=4096, le=limits.REPLY_BYTES)] = limits.REPLY_BYTES
    page_entries: Annotated[int, Meta(ge=1, le=limits.PAGE_ENTRIES)] = limits.PAGE_ENTRIES
    walked_files: Annotated[int, Meta(ge=1, le=limits.WALKED_FILES)] = limits.WALKED_FILES
    call_seconds: Annotated[float, Meta(gt=0, le=limits.CALL_SECONDS)] = limits.CALL_SECONDS
    running: Annotated[int, Meta(ge=1, le=limits.CALLS_RUNNING)] = limits.CALLS_RUNNING
    queued: Annotated[int, Meta(ge=0, le=limits.CALLS_QUEUED)] = limits.CALLS_QUEUED
    calls_a_minute: Annotated[int, Meta(ge=1, le=limits.CALLS_A_MINUTE)] = limits.CALLS_A_MINUTE


class ContentSettings(_Section, frozen=True, kw_only=True):
    """`[content]`: how what leaves towards a model is controlled."""

    rules_file: Annotated[_Absolute | None, Meta(description="further redaction rules, TOML as gitleaks reads it")] = (
        None
    )
    datamarking: Annotated[bool, Meta(description="begin each line of content with a mark of its response")] = False
    unsafe_no_redaction: Annotated[bool, Meta(description="let credentials through")] = False
    unsafe_no_scanning: Annotated[bool, Meta(description="look for no injected instructions")] = False


class HttpSettings(_Section, frozen=True, kw_only=True):
    """`[http]`: the listener, and who may use it."""

    host: Annotated[str, Meta(min_length=1, max_length=255, description="the address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0: any free one")] = 8765
    unix_socket: Annotated[_Absolute | None, Meta(description="listen on this Unix socket instead")] = None
    peer_uids: Annotated[tuple[int, ...], Meta(description="who may use the Unix socket besides its owner")] = ()
    token_file: Annotated[_Absolute | None, Meta(description="bearer tokens, one SHA-256 a line")] = None
    tls_certificate: Annotated[_Absolute | None, Meta(description="certificate chain, PEM")] = None
    tls_key: Annotated[_Absolute | None, Meta(description="private key, PEM")] = None
    allowed_hosts: Annotated[_Words, Meta(description="further values of the Host header, host:port")] = ()
    allowed_origins: Annotated[_Words, Meta(description="values of the Origin header that browsers may send")] = ()
    oauth_issuer: Annotated[_Url | None, Meta(description="the authorization server whose tokens are taken")] = None
    oauth_audience: Annotated[_Url | None, Meta(description="this server's resource identifier, RFC 8707")] = None
    oauth_keys_file: Annotated[_Absolute | None, Meta(description="the issuer's public keys, a JWK set")] = None
    unsafe_plain_bind: Annotated[bool, Meta(description="listen beyond loopback without TLS")] = False


class CodeSettings(_Section, frozen=True, kw_only=True):
    """`[code]`: the runner that programs are sent to, and this host as a runner itself."""

    runner_url: Annotated[_Socket | None, Meta(description="send programs there, and run none here")] = None
    runner_token_file: Annotated[_Absolute | None, Meta(description="holds the token for that runner, one line")] = None
    host: Annotated[str, Meta(min_length=1, max_length=255, description="the address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0: any free one")] = 8777
    token_file: Annotated[_Absolute | None, Meta(description="tokens that may send programs, one SHA-256 a line")] = (
        None
    )
    runs: Annotated[int, Meta(ge=1, le=limits.CODE_RUNS, description="programs at once; the next is told busy")] = (
        limits.CODE_RUNS_DEFAULT
    )
    warm: Annotated[int, Meta(ge=0, le=limits.CODE_RUNS, description="children that wait for a program")] = (
        limits.CODE_WARM_DEFAULT
    )


class LogSettings(_Section, frozen=True, kw_only=True):
    """`[log]`: what is written to stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="the least level written")] = (
        "warning"
    )
    tool_arguments: Annotated[bool, Meta(description="log the arguments of calls: they are private paths")] = False
    audit_file: Annotated[_Absolute | None, Meta(description="the audit log that records of calls are chained in")] = (
        None
    )


class Settings(_Section, frozen=True, kw_only=True):
    """The whole tree."""

    environment: Annotated[Literal["development", "production"], Meta(description="what this start is for")] = (
        "development"
    )
    sandbox: SandboxSettings = SandboxSettings()
    review: ReviewSettings = ReviewSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    content: ContentSettings = ContentSettings()
    http: HttpSettings = HttpSettings()
    code: CodeSettings = CodeSettings()
    log: LogSettings = LogSettings()

    def weakened(self) -> tuple[str, ...]:
        """The settings in force that weaken a control, as `section.field`; results name them."""
        return tuple(
            f"{name}.{field.name}"
            for name in SECTIONS
            for field in msgspec.structs.fields(getattr(self, name))
            if field.name.startswith("unsafe_") and getattr(getattr(self, name), field.name) != field.default
        )


SECTIONS: dict[str, type[_Section]] = {
    "sandbox": SandboxSettings,
    "review": ReviewSettings,
    "workspace": WorkspaceSettings,
    "content": ContentSettings,
    "http": HttpSettings,
    "code": CodeSettings,
    "log": LogSettings,
}
