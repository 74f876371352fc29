"""Masks modulo 2^64: the sum of masked words is the sum of the shares, and fewer words than all show nothing.

    words_i = share_i + own_i + sum_{j > i} pair_ij - sum_{j < i} pair_ij    (mod 2^64)

A pair's mask is known to two owners and cancels in the sum over the list. An owner's own mask is a ChaCha20 stream
whose key the owner reveals once a round.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
"""Bytes of every secret and of every key of a mask: 256 bits."""
PAIR, OWN = b"dpdistill together pair 1", b"dpdistill together own 1"


@dataclass(frozen=True)
class Attempt:
    """One attempt to add up a round over a list of owners; all masks and signatures are bound to it.

    Args:
        run: SHA-256 of the plan, 64 hexadecimal digits.
        round: number of the round, from 0.
        attempt: number of the attempt, from 0.
        names: the listed owners, in order.
    """

    run: str
    round: int
    attempt: int
    names: tuple[str, ...]

    def content(self) -> bytes:
        """Returns the attempt as bytes; different attempts have different bytes."""
        return json.dumps([self.run, self.round, self.attempt, list(self.names)]).encode()


def derive(secret: bytes, *context: bytes) -> bytes:
    """Returns a key of 256 bits by HKDF-SHA-256; each part of the context counts after its length."""
    info = b"".join(len(part).to_bytes(8, "big") + part for part in context)
    return HKDF(SHA256(), KEY_BYTES, None, info).derive(secret)


def stream(key: bytes, n: int) -> np.ndarray:
    """Returns n words of a key's ChaCha20 stream, (n,), uint64."""
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * n)), "<u8").astype(np.uint64)


def pair_key(mine: X25519PrivateKey, theirs: bytes, attempt: Attempt) -> bytes:
    """Returns the key of the mask that two owners have in common in an attempt.

    Args:
        mine: this owner's private key of the run.
        theirs: the other owner's public key of the run, 32 bytes.
        attempt: the attempt.

    Raises:
        ValueError: a public key that agrees on no secret.
    """
    shared = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
    both = sorted((mine.public_key().public_bytes_raw(), theirs))
    return derive(shared, PAIR, attempt.content(), *both)


def own_key(secret: bytes, attempt: Attempt, share: np.ndarray) -> bytes:
    """Returns the key of an owner's own mask in an attempt.

    It depends on the share, too: if a restored copy of a folder drew another share, its mask would be another one.
    """
    return derive(secret, OWN, attempt.content(), hashlib.sha256(share.tobytes()).digest())


def masked(share: np.ndarray, own: bytes, pairs: Mapping[str, bytes], name: str) -> np.ndarray:
    """Returns an owner's masked words, flat, uint64.

    Args:
        share: the noised integer sum, int64.
        own: key of the owner's own mask.
        pairs: keys of the masks in common with every other listed owner, by name.
        name: this owner's name; masks in common with later names are added, and others subtracted.
    """
    words = share.reshape(-1).astype(np.int64).view(np.uint64) + stream(own, share.size)
    for other, key in pairs.items():
        mask = stream(key, share.size)
        words = words + mask if other > name else words - mask
    return words


def unmasked(words: Mapping[str, np.ndarray], keys: Mapping[str, bytes]) -> np.ndarray:
    """Returns the sum of all shares of a list, (n,), int64.

    Args:
        words: masked words of all listed owners, by name.
        keys: revealed keys of their own masks, by name.
    """
    total = np.zeros_like(next(iter(words.values())))
    for name, each in words.items():
        total = total + each - stream(keys[name], len(each))
    return total.view(np.int64)
