"""Detached signatures of claims: Ed25519 over the bytes of the claim's file, which holds the digest of the table.

Source: RFC 8032; raw, 64 bytes, as `openssl pkeyutl -sign -rawin` writes it.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpwgan.errors import InputError
from dpwgan.table.files.stream import read_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LONGEST_KEY = 1 << 14


def read_key(path: Path) -> "Ed25519PrivateKey":
    """Reads a private key. Raises: InputError if it is missing, others may read it, or it is no Ed25519 key in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        with path.open("rb") as file:
            loose = os.fstat(file.fileno()).st_mode & 0o077
            content = file.read(_LONGEST_KEY)
    except OSError as error:
        raise InputError(f"the key {str(path)!r} cannot be read: {error.strerror}") from None
    if loose:
        raise InputError(f"the key {str(path)!r} is open to others: chmod 600 shuts it")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError):  # of a key that is locked by a password
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"the key {str(path)!r} is no Ed25519 private key in PEM without a password")
    return key


def find_fault(content: bytes, *, signature_path: str, key_path: str) -> str | None:
    """Says what is wrong with a signature over a claim's bytes; None if it is that of the key's owner.

    Raises: InputError if the public key or the signature is missing, or is no Ed25519 key in PEM; TransferError.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    signature = read_bytes(signature_path)
    try:
        key = load_pem_public_key(read_bytes(key_path))
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"the key {key_path!r} is no Ed25519 public key in PEM")
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return f"The signature {signature_path!r} is not that of this key over this claim"
    return None
