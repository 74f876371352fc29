"""Masks modulo 2^64: they cancel in the sum over a list, and hide everything less than all of it."""

import os
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from parties import is_uniform

from dpdistill.together import owner_store
from dpdistill.together.masks import Attempt, derive, masked, own_key, pair_key, stream, unmasked
from dpdistill.together.owner_store import OwnerStore

NAMES = ("a", "b", "c")
ATTEMPT = Attempt("0" * 64, 3, 0, NAMES)


def masked_by_all(shares, attempt=ATTEMPT):
    """(masked words, keys of own masks) of all owners of an attempt."""
    private = {name: X25519PrivateKey.generate() for name in attempt.names}
    public = {name: key.public_key().public_bytes_raw() for name, key in private.items()}
    words, keys = {}, {}
    for name in attempt.names:
        pairs = {other: pair_key(private[name], public[other], attempt) for other in attempt.names if other != name}
        keys[name] = own_key(os.urandom(32), attempt, shares[name])
        words[name] = masked(shares[name], keys[name], pairs, name)
    return words, keys


def test_the_stream_is_chacha20():
    # RFC 8439, appendix A.1, test vector 1: the key stream of a key, nonce and counter of zeros.
    expected = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert stream(bytes(32), 4).astype("<u8").tobytes().hex() == expected


def test_keys_are_derived_by_hkdf():
    from cryptography.hazmat.primitives import hashes, hmac

    def mac(key, message):
        made = hmac.HMAC(key, hashes.SHA256())
        made.update(message)
        return made.finalize()

    info = (4).to_bytes(8, "big") + b"pair" + (1).to_bytes(8, "big") + b"x"
    assert derive(b"secret", b"pair", b"x") == mac(mac(bytes(32), b"secret"), info + b"\1")  # RFC 5869
    assert derive(b"secret", b"pai", b"rx") != derive(b"secret", b"pair", b"x")


@pytest.mark.parametrize("least", [-(2**62), 0])
def test_masks_cancel_in_the_sum_over_the_list(least):
    draw = np.random.default_rng(0)
    shares = {name: draw.integers(least // 3, 2**62 // 3, 50) for name in NAMES}
    words, keys = masked_by_all(shares)
    assert np.array_equal(unmasked(words, keys), sum(shares.values()))


def test_words_are_uniform_and_nothing_less_than_the_list_is_unmasked():
    zero = {name: np.zeros(50_000, np.int64) for name in NAMES}
    words, keys = masked_by_all(zero)
    own = {name: words[name] - stream(keys[name], 50_000) for name in NAMES}
    for name in NAMES:
        assert is_uniform(words[name])
        assert is_uniform(own[name])  # its own mask is known: the pairs' masks still hide it
    for one, other in combinations(NAMES, 2):
        assert is_uniform(own[one] + own[other])
    without_one_key = sum(words.values()) - stream(keys["a"], 50_000) - stream(keys["b"], 50_000)
    assert is_uniform(without_one_key)
    assert not is_uniform(unmasked(words, keys).view(np.uint64))  # the test finds what is not masked
    assert not is_uniform(own["a"] + own["b"] + own["c"])


def test_every_attempt_has_masks_of_its_own():
    private, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key().public_bytes_raw()
    share, changed = np.arange(3), [ATTEMPT]
    changed += [Attempt("1" * 64, 3, 0, NAMES), Attempt("0" * 64, 4, 0, NAMES), Attempt("0" * 64, 3, 1, NAMES)]
    changed += [Attempt("0" * 64, 3, 0, NAMES[:2])]
    assert len({pair_key(private, other, each) for each in changed}) == len(changed)
    assert len({own_key(bytes(32), each, share) for each in changed}) == len(changed)
    assert own_key(bytes(32), ATTEMPT, share) != own_key(bytes(32), ATTEMPT, share + 1)
    assert own_key(bytes(32), ATTEMPT, share) == own_key(bytes(32), ATTEMPT, share.copy())


def test_both_owners_of_a_pair_have_one_key():
    one, other = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    keys = [
        pair_key(mine, theirs.public_key().public_bytes_raw(), ATTEMPT) for mine, theirs in ((one, other), (other, one))
    ]
    assert keys[0] == keys[1]
    with pytest.raises(ValueError, match="shared key"):
        pair_key(one, bytes(32), ATTEMPT)


def secrets_of(tmp_path, monkeypatch, urandom):
    """The secrets of a new owner, and what the operating system gave."""
    given = []

    def spied(n):
        given.append(urandom(n))
        return given[-1]

    monkeypatch.setattr(owner_store.os, "urandom", spied)
    store = OwnerStore(tmp_path / "run", "0" * 64, "a")
    monkeypatch.undo()
    return (store.secret, store.x25519), given


def test_secrets_have_256_bits_of_the_operating_system(tmp_path, monkeypatch):
    secrets, given = secrets_of(tmp_path, monkeypatch, os.urandom)
    assert {*secrets} <= {*given}
    assert [len(each) for each in secrets] == [32, 32]
    assert len({*secrets}) == 2


def test_a_seed_of_32_bits_would_be_found(tmp_path, monkeypatch):
    # The same check on a store that would take its secrets from NumPy's generator, as 32-bit seeds do.
    import inspect

    source = inspect.getsource(owner_store).replace(
        "os.urandom(KEY_BYTES), os.urandom(KEY_BYTES)",
        "__import__('numpy').random.RandomState(7).bytes(32), __import__('numpy').random.RandomState(8).bytes(32)",
    )
    assert "RandomState" in source
    mutant: dict = {"__name__": "mutant"}
    exec(compile(source, "mutant", "exec"), mutant)
    given = []
    monkeypatch.setattr(os, "urandom", lambda n: given.append(bytes(n)) or bytes(n))
    store = mutant["OwnerStore"](tmp_path / "run", "0" * 64, "a")
    assert not {store.secret, store.x25519} <= {*given}


def test_a_folder_keeps_its_secrets_and_belongs_to_one_run(tmp_path):
    first = OwnerStore(tmp_path / "run", "0" * 64, "a")
    secret = first.secret
    first.close()
    assert OwnerStore(tmp_path / "run", "0" * 64, "a").secret == secret
    assert OwnerStore(tmp_path / "other", "0" * 64, "a").secret != secret
    for run, name in (("1" * 64, "a"), ("0" * 64, "b")):
        with pytest.raises(ValueError, match="another run or another owner"):
            OwnerStore(tmp_path / "run", run, name)
