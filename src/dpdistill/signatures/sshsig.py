"""Detached signatures in OpenSSH's format, which `ssh-keygen -Y sign` writes and `ssh-keygen -Y verify` checks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from dpdistill.schema import DataError
from dpdistill.signatures.keys import ED25519, PublicKey, SigningKey
from dpdistill.signatures.wire import field, read_fields

NAMESPACE = "dpdistill"
"""Purpose of the signatures: one made for another purpose, such as a commit, is not accepted."""
_MAGIC, _VERSION = b"SSHSIG", (1).to_bytes(4, "big")
_ARMOUR = re.compile(rb"\s*-----BEGIN SSH SIGNATURE-----\n([A-Za-z0-9+/=\s]+)\n-----END SSH SIGNATURE-----\s*")
_LINE = 70
_HASHES = {"sha512": hashlib.sha512, "sha256": hashlib.sha256}


@dataclass(frozen=True)
class Signature:
    """A signature that was read, not yet checked.

    Args:
        key: the public key that it names.
        namespace: its purpose.
        hash: name of the hash of the message.
        value: the algorithm's name and the signature's bytes.
    """

    key: PublicKey
    namespace: str
    hash: str
    value: bytes


def sign(message: bytes, key: SigningKey) -> bytes:
    """Returns the signature of a message, as the text of a file.

    Source:
        OpenSSH, PROTOCOL.sshsig.
    """
    value = field(ED25519.encode()) + field(key.private.sign(_signed(message, NAMESPACE, "sha512")))
    fields = (key.public.content, NAMESPACE.encode(), b"", b"sha512", value)
    text = base64.b64encode(_MAGIC + _VERSION + b"".join(map(field, fields)))
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join((b"-----BEGIN SSH SIGNATURE-----", *lines, b"-----END SSH SIGNATURE-----", b""))


def read_signature(text: bytes) -> Signature:
    """Returns the signature in an untrusted file.

    Raises:
        DataError: a text of another form, or of another version.
    """
    found = _ARMOUR.fullmatch(text)
    try:
        content = base64.b64decode(b"".join(found[1].split()), validate=True) if found else b""
    except binascii.Error:
        content = b""
    head = _MAGIC + _VERSION
    if not content.startswith(head):
        raise DataError("Expected an OpenSSH signature (SSHSIG, version 1); the file holds something else.")
    key, namespace, _, name, value = read_fields(content[len(head) :], 5, "a signature")
    purpose, hash_name = namespace.decode("utf-8", "replace"), name.decode("utf-8", "replace")
    return Signature(PublicKey.read(key), purpose, hash_name, value)


def fault(signature: Signature, message: bytes) -> str:
    """Returns why a signature is not that of the message by the key that it names; empty if it is."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if signature.key.kind != ED25519:
        return f"its key is of the kind {signature.key.kind[:40]!r}: only ssh-ed25519 is checked"
    if signature.namespace != NAMESPACE:
        return f"it was made for another purpose, {signature.namespace[:40]!r}"
    if signature.hash not in _HASHES:
        return f"its hash {signature.hash[:40]!r} is unknown"
    algorithm, value = read_fields(signature.value, 2, "a signature")
    raw = read_fields(signature.key.content, 2, "a public key")[1]
    if algorithm != ED25519.encode():
        return "its algorithm is not that of its key"
    try:
        signed = _signed(message, NAMESPACE, signature.hash)
        Ed25519PublicKey.from_public_bytes(raw).verify(value, signed)
    except (InvalidSignature, ValueError):
        return "the file was changed after it was signed"
    return ""


def _signed(message: bytes, namespace: str, name: str) -> bytes:
    """Returns the bytes that the key signs: the purpose and the hash of the message."""
    return _MAGIC + b"".join(map(field, (namespace.encode(), b"", name.encode(), _HASHES[name](message).digest())))
