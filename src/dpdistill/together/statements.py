"""Signed statements of owners: the key of a run, the answer to a coordinator's challenge, and each contribution."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dpdistill.signatures.keys import PublicKey, SigningKey
from dpdistill.signatures.wire import read_fields
from dpdistill.together.masks import Attempt

RUN_KEY, HELLO, CONTRIBUTION = "run key", "hello", "contribution"


def sha256(content: bytes) -> str:
    """Returns the SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _content(kind: str, stated: Any) -> bytes:
    return b"dpdistill together 1 " + json.dumps([kind, stated]).encode()


def signed(key: SigningKey, kind: str, stated: Any) -> str:
    """Returns the Ed25519 signature of a statement, hexadecimal.

    Args:
        key: the owner's key.
        kind: RUN_KEY, HELLO or CONTRIBUTION; a signature of one kind is none of another.
        stated: JSON values.
    """
    return key.private.sign(_content(kind, stated)).hex()


def is_signed(public: PublicKey, signature: object, kind: str, stated: Any) -> bool:
    """Returns whether a signature is that of a statement by a key."""
    try:
        raw = read_fields(public.content, 2, "a public key")[1]
        Ed25519PublicKey.from_public_bytes(raw).verify(bytes.fromhex(str(signature)), _content(kind, stated))
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Contribution:
    """An owner's statement about its masked words.

    Args:
        name: the owner.
        params: SHA-256 of the parameters of the question.
        words: SHA-256 of the masked words.
        mask: SHA-256 of the key of the owner's own mask.
        signature: Ed25519 signature over all of this and the attempt.
    """

    name: str
    params: str
    words: str
    mask: str
    signature: str = ""

    def stated(self, attempt: Attempt) -> list[str]:
        """Returns what is signed."""
        return [attempt.content().decode(), self.name, self.params, self.words, self.mask]

    def to_json(self) -> list[str]:
        """Returns the statement as JSON values."""
        return [self.name, self.params, self.words, self.mask, self.signature]

    @classmethod
    def from_json(cls, data: object) -> Contribution:
        """Returns the statement that `to_json` wrote.

        Raises:
            ValueError: another form.
        """
        if not isinstance(data, list) or len(data) != 5 or not all(isinstance(each, str) for each in data):
            raise ValueError("Expected the five texts of a contribution.")
        return cls(*data)

    def is_of(self, attempt: Attempt, public: PublicKey) -> bool:
        """Returns whether the owner of a key signed this for an attempt."""
        return is_signed(public, self.signature, CONTRIBUTION, self.stated(attempt))
