"""Signatures of claims: who has the public key sees a changed claim, and a key that others may read is not used."""

import pytest

from dpwgan.app.claims.signature import find_fault, read_key
from dpwgan.errors import InputError
from tests.keys import write_keys

CLAIM = b'{"claim": 1}\n'


@pytest.fixture
def folder(tmp_path):
    write_keys(tmp_path)
    (tmp_path / "claim.sig").write_bytes(read_key(tmp_path / "key.pem").sign(CLAIM))
    return tmp_path


def judge(folder, content=CLAIM):
    return find_fault(content, signature_path=str(folder / "claim.sig"), key_path=str(folder / "public.pem"))


def test_signature_holds_when_nothing_was_changed_and_does_not_when_anything_was(folder):
    assert judge(folder) is None
    assert "is not that of this key" in judge(folder, CLAIM + b" ")
    write_keys(folder)
    assert "is not that of this key" in judge(folder)
    (folder / "claim.sig").write_bytes(b"short")
    assert "is not that of this key" in judge(folder)
    (folder / "claim.sig").unlink()
    with pytest.raises(InputError, match="does not exist"):
        judge(folder)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_key_is_refused_when_others_may_read_it(folder, mode):
    (folder / "key.pem").chmod(mode)
    with pytest.raises(InputError, match="chmod 600"):
        read_key(folder / "key.pem")


def test_key_is_refused_when_it_is_of_another_kind(folder):
    (folder / "key.pem").write_text("no key")
    with pytest.raises(InputError, match="no Ed25519 private key"):
        read_key(folder / "key.pem")
    (folder / "public.pem").write_text("no key")
    with pytest.raises(InputError, match="no Ed25519 public key"):
        judge(folder)
    with pytest.raises(InputError, match="cannot be read"):
        read_key(folder / "none.pem")
