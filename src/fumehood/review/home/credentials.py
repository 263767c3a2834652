"""The credentials of one run, each drawn: its text as a file has it, and what of it nobody can guess. Pure.

Shapes are those that issuers publish, with the checksums that they have; `content.credentials` knows the same ones, and
a test holds one against the other. Nothing here was ever given out: a body is random, and where an issuer could tell,
it would say that there is no such key.
"""

import base64
import random
from dataclasses import dataclass

from fumehood.observe.canary import Canary
from fumehood.review.home import draws, keys

_OPENAI_MARK = "T3BlbkFJ"  # stands in the middle of every key of that issuer: "OpenAI" in Base64
_PACKAGE_INDEX = ("pypi", "org")  # whose name the token of a package index begins with


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One drawn credential: `text` is what a program reads, `canary` what is looked for."""

    text: str
    canary: Canary


def credential(name: str, prefix: str, *secrets: str, between: str = "", end: str = "") -> Credential:
    """`prefix`, the secrets with `between` them, `end`; what is looked for are the secrets alone."""
    values = tuple(secret.encode() for secret in secrets)
    return Credential(text=prefix + between.join(secrets) + end, canary=Canary(name=name, values=values))


def npm_token(chance: random.Random, name: str) -> Credential:
    """The granular access token of npm."""
    return credential(name, "npm_", draws.checked(chance))


def github_token(chance: random.Random, name: str, prefix: str = "ghp_") -> Credential:
    """GitHub's: `ghp_` of a person, `gho_` of its command line."""
    return credential(name, prefix, draws.checked(chance))


def aws_key_id(chance: random.Random, name: str) -> Credential:
    """The identifier of an access key."""
    return credential(name, "AKIA", draws.word(chance, 16, draws.BASE32))


def aws_secret(chance: random.Random, name: str) -> Credential:
    """Its secret: forty characters of Base64, of which we draw no signs."""
    return credential(name, "", draws.word(chance, 40))


def openai_key(chance: random.Random, name: str) -> Credential:
    """A project's key."""
    return credential(name, "sk-proj-", draws.word(chance, 74), draws.word(chance, 74), between=_OPENAI_MARK)


def anthropic_key(chance: random.Random, name: str) -> Credential:
    """An API key; every one ends alike."""
    return credential(name, "sk-ant-api03-", draws.word(chance, 93), end="AA")


def google_key(chance: random.Random, name: str) -> Credential:
    """An API key of Google's cloud."""
    return credential(name, "AIzaSy", draws.word(chance, 33))


def google_refresh_token(chance: random.Random, name: str) -> Credential:
    """What a signed-in person's applications keep."""
    return credential(name, "1//0" + chance.choice("359"), draws.word(chance, 98))


def docker_token(chance: random.Random, name: str, user: str) -> tuple[Credential, str]:
    """A personal access token, and `auth` of config.json, which is it and the user in Base64."""
    token = credential(name, "dckr_pat_", draws.word(chance, 27))
    return token, base64.b64encode(f"{user}:{token.text}".encode()).decode()


def package_index_token(chance: random.Random, name: str) -> Credential:
    """A macaroon (version 2, binary): location, identifier, no caveat, a signature; then Base64 for URLs."""
    host = ".".join(_PACKAGE_INDEX).encode()
    identifier = draws.uuid(chance).encode()
    head = b"\x02\x01" + _field(host) + b"\x02" + _field(identifier) + b"\x00\x00\x06\x20"
    text = base64.urlsafe_b64encode(head + chance.randbytes(32)).decode().rstrip("=")
    begins = -(-len(head) * 8 // 6)  # the first character that is of the signature alone
    return credential(name, f"pypi-{text[:begins]}", text[begins:])


def cluster_token(chance: random.Random, name: str) -> Credential:
    """What a console of clusters writes into a kubeconfig."""
    return credential(name, f"kubeconfig-u-{draws.word(chance, 5, draws.LOWER)}:", draws.word(chance, 54, draws.LOWER))


def password(chance: random.Random, name: str) -> Credential:
    """As a password manager makes one."""
    return credential(name, "", draws.word(chance, chance.choice((20, 22, 24))))


def ssh_key(chance: random.Random, name: str, comment: str) -> tuple[keys.KeyPair, Canary]:
    """A pair; what is looked for is the seed as the file has it."""
    pair = keys.key_pair(chance, comment)
    return pair, Canary(name=name, values=(pair.secret.encode(),))


def _field(data: bytes) -> bytes:
    return bytes([len(data)]) + data
