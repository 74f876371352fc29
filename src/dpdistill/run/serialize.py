"""Pytrees of arrays as bytes, and records as a keyed digest: no pickle anywhere."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np

from dpdistill.schema import TableSchema
from dpdistill.storage.growable_array import forget
from dpdistill.storage.records import Records


def pack(tree: object) -> bytes:
    """The leaves of a pytree, in order, as the bytes of an uncompressed .npz."""
    import jax

    buffer = io.BytesIO()
    np.savez(buffer, *[np.asarray(leaf) for leaf in jax.tree.leaves(tree)], allow_pickle=False)
    return buffer.getvalue()


def unpack(blob: bytes, like: Any) -> Any:
    """The pytree whose leaves `pack` wrote, in the structure of `like`.

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
    """SHA-256 of a run's random name and a method's last state, which is post-processing of the releases.

    Two runs have two names, whatever their states; two ends of a run whose folder was copied have two states.
    """
    import jax

    digest = hashlib.sha256(run_id.encode())
    for leaf in map(np.asarray, jax.tree.leaves(state)):
        digest.update(f"{leaf.dtype.str} {leaf.shape}".encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def digest_records(records: Records, key: bytes, chunk: int = 1024) -> bytes:
    """Keyed digest of values, labels and units, in order: for the owner's ledgers only, never for what is shared.

    Values of tables count in single precision, as ledgers of earlier versions know them.
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
