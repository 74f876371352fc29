"""The wire format of protocol buffers: reads and writes the fields of a message, without a schema.

Source: Protocol Buffers, Encoding (https://protobuf.dev/programming-guides/encoding/).
"""

from __future__ import annotations

from collections.abc import Iterator

Value = int | memoryview
_FIXED = {1: 8, 5: 4}


class Damaged(ValueError):
    """Bytes that are no message."""


def read_fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """Yields (number, value) of a message's fields: an int, or the bytes of a text, a message or a fixed number.

    Raises:
        Damaged: a field that ends after the message, or an unknown kind of field.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise Damaged(f"a field of kind {kind}")
        if size > len(message) - at:
            raise Damaged("a field ends after its message")
        yield key >> 3, message[at : at + size]
        at += size


def read_varints(data: Value) -> list[int]:
    """Returns the whole numbers of a field: one, or packed ones."""
    if isinstance(data, int):
        return [data]
    result, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        result.append(value)
    return result


def signed(value: int) -> int:
    """Returns a whole number of 64 bits with its sign."""
    return value - (1 << 64) if value >> 63 else value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise Damaged("a number ends after its message")
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise Damaged("a number of more than 64 bits")


def field(number: int, value: int | str | bytes) -> bytes:
    """Returns the bytes of a field: a whole number, a text or a message."""
    if isinstance(value, int):
        return _bytes_of(number << 3) + _bytes_of(value & ((1 << 64) - 1))
    content = value.encode() if isinstance(value, str) else value
    return _bytes_of(number << 3 | 2) + _bytes_of(len(content)) + content


def _bytes_of(value: int) -> bytes:
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])
