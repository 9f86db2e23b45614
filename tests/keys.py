"""Keys for tests of signatures."""

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def write_keys(folder: Path) -> Ed25519PublicKey:
    """Writes key.pem, which nobody else may read, and public.pem."""
    key = Ed25519PrivateKey.generate()
    (folder / "key.pem").touch(mode=0o600)
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key()
    (folder / "public.pem").write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return public
