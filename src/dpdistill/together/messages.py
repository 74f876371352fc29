"""Messages between coordinator and owners: JSON and raw bytes, of bounded size; no code and no pickled object."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np

MOST_HEADER = 1 << 22
MOST_BYTES = 1 << 32
"""Largest message, and largest header of one, in bytes."""
Message = dict[str, Any]


class Malformed(Exception):
    """A message that is not of the form that `encode` writes."""


def encode(message: Message) -> bytes:
    """Returns the bytes of a message; values of type bytes are appended to its JSON."""
    parts = {name: value for name, value in message.items() if isinstance(value, bytes)}
    fields = {name: value for name, value in message.items() if name not in parts}
    header = json.dumps({"fields": fields, "parts": [[name, len(part)] for name, part in parts.items()]}).encode()
    return b"".join([len(header).to_bytes(8, "big"), header, *parts.values()])


def decode(content: bytes) -> Message:
    """Returns the message that `encode` wrote.

    Raises:
        Malformed: content of another form.
    """
    size = int.from_bytes(content[:8], "big")
    if not 0 < size <= min(MOST_HEADER, len(content) - 8):
        raise Malformed("a header of another size")
    try:
        header = json.loads(content[8 : 8 + size])
        fields, parts = header["fields"], header["parts"]
        if not isinstance(fields, dict) or not all(
            isinstance(name, str) and type(length) is int and length >= 0 for name, length in parts
        ):
            raise Malformed("a header of another form")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Malformed("no JSON header") from None
    at = 8 + size
    for name, length in parts:
        fields[name] = content[at : at + length]
        at += length
    if at != len(content):
        raise Malformed("parts of another length")
    return fields


def field(message: Message, name: str, kind: type) -> Any:
    """Returns a field of a message.

    Raises:
        Malformed: the field is missing or of another type.
    """
    value = message.get(name)
    if type(value) is not kind:
        raise Malformed(f"no field {name!r} of type {kind.__name__}")
    return value


def pack_params(params: Any) -> bytes:
    """Returns the arrays of a pytree, one after another, as raw bytes."""
    return b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(params))


def unpack_params(content: bytes, like: Any) -> Any:
    """Returns the pytree of `pack_params` in the structure, shapes and types of `like`; values may be any.

    Raises:
        Malformed: content of another length.
    """
    leaves, structure = jax.tree.flatten(like)
    result, at = [], 0
    for leaf in map(np.asarray, leaves):
        part = content[at : at + leaf.nbytes]
        at += leaf.nbytes
        if len(part) != leaf.nbytes:
            raise Malformed("parameters of another length")
        result.append(np.frombuffer(part, leaf.dtype).reshape(leaf.shape))
    if at != len(content):
        raise Malformed("parameters of another length")
    return jax.tree.unflatten(structure, result)
