"""Everything that a listener needs from outside, taken before the walls of the process stand.

`open_listener` decides, binds, and reads certificates, tokens and keys; after it nothing has to be opened any more but
the files of tokens and keys when they change: their folders are `Opened.reads`, which the walls have to let through.
Folders, because a file that is replaced is another one. TLS keys are read once, and are best kept elsewhere.
"""

import os
import socket
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fumehood.core.sections import HttpSettings
from fumehood.wire import exposure, sockets
from fumehood.wire.auth import Authenticator, TokenFile
from fumehood.wire.exposure import ExposureError, Plan, Refuse
from fumehood.wire.httpchecks import ENDPOINT, PROBES, Policy, host_key, hosts_of, origin_key


class TlsError(exposure.ExposureError):
    """Certificate or key cannot be used."""

    code = "tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A listener before it listens to anybody."""

    sockets: tuple[socket.socket, ...]
    policy: Policy
    tls: ssl.SSLContext | None = None
    authenticators: tuple[Authenticator, ...] = ()
    documents: Mapping[str, bytes] = field(default_factory=dict)
    peers: frozenset[int] | None = None  # the uids that a Unix socket answers
    notes: tuple[str, ...] = ()  # for the operator
    reads: tuple[Path, ...] = ()  # folders that are read later

    @property
    def places(self) -> tuple[str, ...]:
        """Where it listens, as clients have to write it."""
        places = (sockets.place(one, encrypted=self.tls is not None) for one in self.sockets)
        return tuple(one if self.peers is not None else f"{one}{ENDPOINT}" for one in places)

    def close(self) -> None:
        """Listen no more."""
        for one in self.sockets:
            one.close()


def open_listener(http: HttpSettings, *, production: bool) -> Opened:
    """Decide and open. Errors: `ExposureError`, `SettingsError`, `SocketError`: each stops the start."""
    found = () if http.unix_socket else sockets.addresses(http.host, http.port)
    decision = exposure.decide(Plan(http=http, production=production, addresses=tuple(one for one, _ in found)))
    if isinstance(decision, Refuse):
        raise ExposureError(decision.reason, remedy=decision.remedy)
    authenticators, documents = _credentials(http)
    tls = tls_context(Path(http.tls_certificate), Path(http.tls_key)) if http.tls_certificate and http.tls_key else None
    if http.unix_socket:
        opened = [sockets.bind_unix(Path(http.unix_socket), shared=bool(http.peer_uids))]
    else:
        opened = sockets.bind_tcp(found)
    return Opened(
        sockets=tuple(opened),
        policy=_policy(http, opened, frozenset(documents), encrypted=tls is not None),
        tls=tls,
        authenticators=authenticators,
        documents=documents,
        peers=frozenset({os.geteuid(), *http.peer_uids}) if http.unix_socket else None,
        notes=decision.notes,
        reads=tuple(dict.fromkeys(Path(one).parent for one in (http.token_file, http.oauth_keys_file) if one)),
    )


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS from 1.2 on, with the library's own choice of ciphers. Errors: `TlsError`."""
    try:
        mode = key.stat().st_mode
    except (OSError, ValueError):
        raise TlsError("http.tls_key cannot be read", remedy="name a PEM file") from None
    if mode & stat.S_IRWXO:
        raise TlsError("others may read http.tls_key", remedy="chmod o-rwx it")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # asks nobody at a terminal
    except (OSError, ValueError):
        remedy = "both PEM, the key without a password, and the one that belongs to the certificate"
        raise TlsError("http.tls_certificate and http.tls_key cannot be used", remedy=remedy) from None
    return context


def _credentials(http: HttpSettings) -> tuple[tuple[Authenticator, ...], dict[str, bytes]]:
    authenticators: list[Authenticator] = []
    documents: dict[str, bytes] = {}
    if http.token_file:
        authenticators.append(TokenFile(Path(http.token_file)))
    if http.oauth_issuer and http.oauth_audience and http.oauth_keys_file:
        from fumehood.wire import oauth  # noqa: PLC0415 - cryptography takes 60 ms, and most listeners need none

        issuer = oauth.Issuer(issuer=http.oauth_issuer, audience=http.oauth_audience)
        authenticators.append(oauth.AccessTokens(issuer, Path(http.oauth_keys_file)))
        documents |= oauth.documents(issuer)
    return tuple(authenticators), documents


def _policy(http: HttpSettings, opened: list[socket.socket], open_paths: frozenset[str], *, encrypted: bool) -> Policy:
    """The names that the listener answers to. Its own origin is one: only it could have served such a page."""
    own = frozenset({"localhost"}) if http.unix_socket else hosts_of(one.getsockname()[:2] for one in opened)
    scheme = "https" if encrypted else "http"
    origins = {f"{scheme}://{host}" for host in own} | {origin_key(word) for word in http.allowed_origins}
    hosts = own | {host_key(word) for word in http.allowed_hosts}
    return Policy(
        hosts=frozenset(host for host in hosts if host),
        origins=frozenset(origin for origin in origins if origin),
        open_paths=open_paths | set(PROBES),
    )
