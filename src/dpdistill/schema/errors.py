"""Checks of texts that are public facts."""

import re
from collections.abc import Mapping, Set
from typing import Any

from dpdistill.errors import DataError

_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufeff\ufffe\uffff]")
_SECRET = re.compile(r"([A-Za-z][\w+.-]+):/+.*[@?]\S*")  # pathlib writes two slashes as one


def require_ordered(what: str, values: Any) -> None:
    """Refuses a set or a mapping instead of a list: Python orders texts in a set differently in every process.

    Raises:
        DataError: a set or a mapping.
    """
    if isinstance(values, Set | Mapping):
        raise DataError(f"Expected {what} as a list or tuple, in their order; got a {type(values).__name__}.")


def require_trimmed(what: str, *texts: str) -> None:
    """Raises unless all are texts without surrounding spaces: values of a table are compared without such spaces.

    Raises:
        DataError: an empty text, or one with surrounding spaces.
    """
    if odd := [text for text in texts if not text or text != text.strip()]:
        raise DataError(f"Expected {what} as a text without spaces around it; got {odd[0][:80]!r}.")


def require_writable(what: str, *texts: str) -> None:
    """Raises unless every output format can store and restore the texts.

    UTF-8 has no lone surrogates, XML (pages and plots) no control characters but tabs and line breaks, and readers of
    CSV files drop a byte order mark.

    Raises:
        DataError: a text with such a character.
    """
    for text in texts:
        if odd := _UNWRITABLE.search(text):
            raise DataError(
                f"Expected {what} without the character U+{ord(odd[0]):04X}, which some file formats cannot store; got "
                f"{text[:80]!r}: rename it, in the records too."
            )


def require_printable(what: str, *texts: str) -> None:
    """Raises unless all are texts of printable characters, as class names must be.

    Raises:
        DataError: an empty text, or one with a line break or another character that is not printable.
    """
    if odd := [text for text in texts if not text or not text.isprintable()]:
        raise DataError(f"Expected {what} of printable characters; got {odd[0][:80]!r}.")


def require_harmless(what: str, *texts: str) -> None:
    """Raises unless all texts, which are written into synthetic.csv, are safe from being read as spreadsheet formulas.

    Raises:
        DataError: a text that begins with =, +, - or @ and is no number.
    """
    for text in texts:
        if not text.startswith(("=", "+", "-", "@")):
            continue
        try:
            float(text)
        except ValueError:
            raise DataError(
                f"Expected {what} as a number, or without {text[0]} at its beginning, where a spreadsheet takes it for"
                f" a formula; got {text[:80]!r}: rename it, in the records too."
            ) from None


def hide_secrets(text: str) -> str:
    """Returns a text whose database addresses are cut before any name or password."""
    return _SECRET.sub(r"\1://...", text)
