"""Fields of OpenSSH's binary formats: each is a length of four bytes, and that many bytes (RFC 4251, section 5)."""

from __future__ import annotations

from dpdistill.schema import DataError


def field(content: bytes) -> bytes:
    """Returns a field: its length, and its bytes."""
    return len(content).to_bytes(4, "big") + content


def read_fields(content: bytes, count: int, what: str) -> tuple[bytes, ...]:
    """Returns the fields of an untrusted text of bytes, which must end after the last one.

    Args:
        content: the bytes.
        count: number of fields.
        what: name of the format, for the error.

    Raises:
        DataError: fewer or more bytes.
    """
    found, at = [], 0
    for _ in range(count):
        length = int.from_bytes(content[at : at + 4], "big")
        if len(content) < at + 4 + length:
            raise DataError(f"Expected {what} of {count} fields; it ends early.")
        found.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    if at != len(content):
        raise DataError(f"Expected {what} of {count} fields; more bytes follow.")
    return tuple(found)
