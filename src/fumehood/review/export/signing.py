"""Sign a statement with an Ed25519 key of the operator's. The one place that imports `cryptography`.

Not promised: anything about how the key is kept, or that a file of it was read by nobody else. Keyless signing, and
keys in hardware, are what tools for attestations do with the statement that is printed without a key.
"""

import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from fumehood.core.errors import RefusedError


class SigningKeyError(RefusedError):
    """A file is no key that is signed with. Says nothing of what it holds."""

    code = "signing_key"


def sign(message: bytes, pem: bytes) -> tuple[str, bytes]:
    """The key's id (SHA-256 over its public key in DER, hex digits) and the signature. Errors: `SigningKeyError`."""
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        remedy = "openssl genpkey -algorithm ed25519 makes one; it must not be encrypted"
        raise SigningKeyError("the key is no Ed25519 key in PEM", remedy=remedy)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest(), key.sign(message)
