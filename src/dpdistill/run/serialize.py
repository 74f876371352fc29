"""Serialises pytrees of arrays as bytes, and records as a keyed digest, without pickle."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np

from dpdistill.schema import TableSchema
from dpdistill.storage.growable_array import forget
from dpdistill.storage.records import Records


def pack(tree: object) -> bytes:
    """Returns the leaves of a pytree, in order, as the bytes of an uncompressed .npz."""
    import jax

    buffer = io.BytesIO()
    np.savez(buffer, *[np.asarray(leaf) for leaf in jax.tree.leaves(tree)], allow_pickle=False)
    return buffer.getvalue()


def unpack(blob: bytes, like: Any) -> Any:
    """Returns the pytree whose leaves `pack` wrote, in the structure of `like`.

    Raises:
        ValueError: the leaves do not fit `like` in number, shape or type.
    """
    import jax

    leaves, structure = jax.tree.flatten(like)
    with np.load(io.BytesIO(blob), allow_pickle=False) as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
    if len(arrays) != len(leaves) or any(
        a.shape != np.shape(b) or a.dtype != np.asarray(b).dtype for a, b in zip(arrays, leaves, strict=True)
    ):
        raise ValueError("The stored arrays do not fit this recipe.")
    return jax.tree.unflatten(structure, arrays)


def releases_id(run_id: str, state: object) -> str:
    """Returns the SHA-256 of a run's random name and a method's last state, which is post-processing of the releases.

    Two runs have different names, whatever their states. Two copies of a run folder that were resumed have different
    states.
    """
    import jax

    digest = hashlib.sha256(run_id.encode())
    for leaf in map(np.asarray, jax.tree.leaves(state)):
        digest.update(f"{leaf.dtype.str} {leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def digest_records(records: Records, key: bytes, chunk: int = 1024) -> bytes:
    """Returns a keyed digest of values, labels and units, in order: for the owner's ledgers only, never shared.

    Values of tables count in single precision, for agreement with ledgers of earlier versions.
    """
    kind = np.dtype(np.float32) if isinstance(records.schema, TableSchema) else records.X.dtype
    digest = hashlib.blake2b(key=key, digest_size=32)
    digest.update(f"{kind.str} {records.X.shape}".encode())
    for start in range(0, len(records), chunk):
        digest.update(np.ascontiguousarray(records.X[start : start + chunk], kind).tobytes())
        digest.update(np.ascontiguousarray(records.y[start : start + chunk]).tobytes())
        forget(records.X, records.y)
    if records.units is not None:
        digest.update(b"units")
        for start in range(0, len(records), chunk):
            digest.update(np.ascontiguousarray(records.units[start : start + chunk]).tobytes())
            forget(records.units)
    return digest.digest()
