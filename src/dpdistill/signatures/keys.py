"""Ed25519 keys in OpenSSH's file formats: made, read, and named by their fingerprint."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpdistill.folder.layout import CERTIFICATE
from dpdistill.schema import DataError
from dpdistill.signatures.wire import field, read_fields
from dpdistill.storage.files import reading, show

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ED25519 = "ssh-ed25519"
LEAST_PASSPHRASE = 8
MOST_BYTES = 1 << 16
"""Largest size of a file of keys, signers or a signature that is read."""


@dataclass(frozen=True)
class PublicKey:
    """A public key.

    Args:
        kind: name of its algorithm, "ssh-ed25519" or one that this package cannot check.
        content: its bytes in OpenSSH's format.
    """

    kind: str
    content: bytes

    @property
    def fingerprint(self) -> str:
        """Returns the name by which `ssh-keygen -l` shows the key: SHA256 and 43 characters."""
        digest = hashlib.sha256(self.content).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    @classmethod
    def parse(cls, kind: str, text: str, where: str) -> PublicKey:
        """Returns a key from the two words of a line: its algorithm and its bytes in Base64.

        Raises:
            DataError: no Base64, or the bytes are of another algorithm.
        """
        try:
            key = cls.read(base64.b64decode(text, validate=True))
        except binascii.Error:
            raise DataError(f"Expected a public key in Base64 {where}; found other characters.") from None
        if key.kind != kind:
            raise DataError(f"Expected a key of the stated kind {kind[:40]!r} {where}; it is {key.kind[:40]!r}.")
        return key

    @classmethod
    def read(cls, content: bytes) -> PublicKey:
        """Returns a key from its bytes in OpenSSH's format.

        Raises:
            DataError: bytes that are no key; for Ed25519, other than 32 bytes.
        """
        length = int.from_bytes(content[:4], "big")
        kind = content[4 : 4 + length].decode("ascii", "replace")
        if kind == ED25519 and len(read_fields(content, 2, "a public key")[1]) != 32:
            raise DataError("Expected an Ed25519 key of 32 bytes; it has another length.")
        return cls(kind, content)


@dataclass(frozen=True)
class SigningKey:
    """A private key that was read, ready to sign."""

    private: Ed25519PrivateKey

    @property
    def public(self) -> PublicKey:
        """Returns its public key."""
        raw = self.private.public_key().public_bytes_raw()
        return PublicKey(ED25519, field(ED25519.encode()) + field(raw))


def new_key(file: str | os.PathLike, passphrase: str | None, comment: str = "") -> Path:
    """Makes an Ed25519 key pair: the private key in FILE, of mode 0600, and the public key in FILE.pub.

    Args:
        file: path of the private key; neither file may exist.
        passphrase: encrypts the private key, at least 8 characters; None leaves it readable for all who have the file.
        comment: words at the end of the public key's line, such as the name of the signer.

    Returns:
        The path of FILE.pub, which others need to verify.

    Raises:
        DataError: a short passphrase, an existing file, a folder that is shared, or a file that cannot be written.
    """
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = Path(file)
    public = path.with_name(f"{path.name}.pub")
    if passphrase is not None and len(passphrase) < LEAST_PASSPHRASE:
        raise DataError(f"Expected a passphrase of at least {LEAST_PASSPHRASE} characters; it is shorter.")
    if not comment.isprintable():
        raise DataError("Expected a comment of one printable line.")
    refuse_shared(path)
    for there in (path, public):
        if os.path.lexists(there):
            raise DataError(f"Expected no file at {show(there)}; a key is never replaced: choose another name.")
    key = Ed25519PrivateKey.generate()
    lock = forms.NoEncryption() if passphrase is None else forms.BestAvailableEncryption(passphrase.encode())
    content = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, lock)
    line = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    try:
        for there, text, mode in ((path, content, 0o600), (public, f"{line.decode()} {comment}".strip() + "\n", 0o644)):
            handle = os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as out:
                out.write(text if isinstance(text, bytes) else text.encode())
    except OSError as error:
        raise DataError(f"The key {show(path)} cannot be written: {error.strerror}.") from None
    return public


def read_signing_key(file: str | os.PathLike, passphrase: str | None = None) -> SigningKey:
    """Returns a private key from an OpenSSH file.

    Args:
        file: path of the private key.
        passphrase: None for a key without one.

    Raises:
        DataError: a missing or damaged file, a key of another kind, a wrong passphrase, or one that is missing.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    path = Path(file)
    refuse_shared(path)
    content = read_small(path, "a private key")
    try:
        key = load_ssh_private_key(content, None if passphrase is None else passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if passphrase is None and is_encrypted(path):
            raise DataError(f"Expected the passphrase of {show(path)}; none is stated.") from None
        wrong = "" if passphrase is None else " with this passphrase"
        raise DataError(f"Expected an OpenSSH private key in {show(path)}; it cannot be read{wrong}.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DataError(f"Expected an Ed25519 key in {show(path)}: `dpdistill key new FILE` makes one.")
    return SigningKey(key)


def is_encrypted(file: str | os.PathLike) -> bool:
    """Returns whether a private key in OpenSSH's format has a passphrase; False for a file of another form."""
    lines = read_small(Path(file), "a private key").decode("ascii", "replace").split("\n")
    try:
        content = base64.b64decode("".join(lines[1 : lines.index("-----END OPENSSH PRIVATE KEY-----")]))
    except ValueError:
        return False
    magic = b"openssh-key-v1\0"
    return content.startswith(magic) and content[len(magic) + 4 :][:4] != b"none"


def read_small(path: Path, what: str) -> bytes:
    """Returns the contents of an untrusted file of keys or signatures.

    Raises:
        DataError: no regular file, or one above 64 KiB.
    """
    if not path.is_file():
        raise DataError(f"Expected {what} at {show(path)}; there is no such file.")
    with reading(path), path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DataError(f"Expected {what} of at most {MOST_BYTES >> 10} KiB at {show(path)}; it is larger.")
    return content


def refuse_shared(path: Path) -> None:
    """Raises DataError for the path of a private key in a folder that is shared."""
    if any((above / CERTIFICATE).is_file() for above in path.resolve().parents):
        raise DataError(f"Expected a private key outside of a shared folder; {show(path)} lies in one.")
