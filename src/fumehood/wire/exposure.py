"""Whether a listener may be opened, decided from the settings alone. Pure.

Invariants: beyond loopback nobody is served without a credential, and nothing travels in the clear unless the operator
wrote `unsafe_plain_bind`; in production nobody is served without a credential anywhere; a setting that would have no
effect, or only half of a pair, is refused: whoever wrote it believes in something that would not be so (threat T11).

Not decided here: whether files can be read (`wire.auth`, `wire.oauth`, `wire.listener` refuse those that cannot).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fumehood.core import limits
from fumehood.core.addresses import parse_address
from fumehood.core.errors import RefusedError
from fumehood.core.sections import HttpSettings
from fumehood.wire.httpchecks import host_key, origin_key


class ExposureError(RefusedError):
    """A listener may not be opened with these settings."""

    code = "exposure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be listened on. `addresses` are what `host` resolved to, literals; empty for a Unix socket."""

    http: HttpSettings
    production: bool
    addresses: tuple[str, ...] = ()

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the listener."""
        return self.http.unix_socket is not None or all(is_loopback(address) for address in self.addresses)

    @property
    def credentials(self) -> bool:
        """Whether a credential is asked for."""
        return self.http.token_file is not None or self.http.oauth_issuer is not None

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.http.tls_certificate is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The listener may not be opened."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """It may be opened; `notes` are what the operator should know, told at the start and by `doctor`."""

    notes: tuple[str, ...]


Decision: TypeAlias = Allow | Refuse


def decide(plan: Plan) -> Decision:
    """The first rule that refuses, or the notes of an allowed listener."""
    for rule in _RULES:
        refused = rule(plan)
        if refused:
            return refused
    return Allow(notes=tuple(note for told in _NOTES if (note := told(plan))))


def is_loopback(address: str) -> bool:
    """Whether a literal address is one that only this machine can reach."""
    parsed = parse_address(address)
    return parsed is not None and parsed.is_loopback


def _halves(plan: Plan) -> Refuse | None:
    http = plan.http
    if (http.tls_certificate is None) != (http.tls_key is None):
        return Refuse(reason="http.tls_certificate and http.tls_key are a pair", remedy="set both, or neither")
    oauth = (http.oauth_issuer, http.oauth_audience, http.oauth_keys_file)
    if any(oauth) and not all(oauth):
        names = "http.oauth_issuer, http.oauth_audience and http.oauth_keys_file"
        return Refuse(reason=f"{names} belong together", remedy="set all three, or none")
    return None


def _without_effect(plan: Plan) -> Refuse | None:
    http = plan.http
    if http.peer_uids and http.unix_socket is None:
        return Refuse(reason="http.peer_uids has no effect without http.unix_socket", remedy="remove it")
    if http.unix_socket is not None and plan.encrypted:
        return Refuse(
            reason="a Unix socket is served without TLS", remedy="remove http.tls_certificate and http.tls_key"
        )
    return None


def _words(plan: Plan) -> Refuse | None:
    http = plan.http
    if any(host_key(word) is None for word in http.allowed_hosts):
        return Refuse(reason="http.allowed_hosts has a value that is no Host", remedy="write name or name:port")
    if any(origin_key(word) is None for word in http.allowed_origins):
        return Refuse(reason="http.allowed_origins has a value that is no origin", remedy="write https://name:port")
    if max(len(http.allowed_hosts), len(http.allowed_origins), len(http.peer_uids)) > limits.HTTP_NAMES:
        return Refuse(reason=f"more than {limits.HTTP_NAMES} values of one setting of http", remedy="list fewer")
    if any(not 0 <= uid < 2**32 - 1 for uid in http.peer_uids):  # -1 is "nobody known" of SO_PEERCRED
        return Refuse(reason="http.peer_uids has a value that is no uid", remedy="write numbers from 0")
    return None


def _somewhere(plan: Plan) -> Refuse | None:
    if plan.http.unix_socket is None and not plan.addresses:
        return Refuse(reason="http.host has no address on this machine", remedy="write 127.0.0.1")
    return None


def _credential(plan: Plan) -> Refuse | None:
    remedy = "set http.token_file, or the settings of OAuth"
    if not plan.credentials and not plan.loopback:
        return Refuse(reason="nobody is served beyond loopback without a token", remedy=remedy)
    if not plan.credentials and plan.production:
        return Refuse(reason="in production nobody is served over HTTP without a token", remedy=remedy)
    return None


def _clear_text(plan: Plan) -> Refuse | None:
    if plan.loopback or plan.encrypted or plan.http.unsafe_plain_bind:
        return None
    remedy = "set http.tls_certificate and http.tls_key; behind a proxy that speaks TLS, http.unsafe_plain_bind"
    return Refuse(reason="beyond loopback content and tokens would travel in the clear", remedy=remedy)


Rule: TypeAlias = Callable[[Plan], Refuse | None]
_RULES: tuple[Rule, ...] = (_halves, _without_effect, _words, _somewhere, _credential, _clear_text)


def _nobody_asked(plan: Plan) -> str:
    if plan.credentials:
        return ""
    if plan.http.unix_socket is not None:
        return "no token: whoever runs as one of the allowed users is let in"
    return "no token: every user and every process of this machine is let in"


def _clear(plan: Plan) -> str:
    plain = not plan.loopback and not plan.encrypted
    return "unsafe_plain_bind: content and tokens travel in the clear" if plain else ""


def _nameless(plan: Plan) -> str:
    everywhere = any(address in {"0.0.0.0", "::"} for address in plan.addresses)  # noqa: S104 - compared with, not bound
    if not everywhere or plan.http.allowed_hosts:
        return ""
    return "listens on every address, but answers to loopback's names only: http.allowed_hosts is empty"


def _shared_socket(plan: Plan) -> str:
    return "others may connect to the socket file; http.peer_uids says who is answered" if plan.http.peer_uids else ""


_NOTES = (_nobody_asked, _clear, _nameless, _shared_socket)
