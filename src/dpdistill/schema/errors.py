"""Checks of texts that are public facts."""

import re
from collections.abc import Mapping, Set
from typing import Any

from dpdistill.errors import DataError

_SECRET = re.compile(r"([A-Za-z][\w+.-]+):/+.*[@?]\S*")  # pathlib writes one slash for two


def require_ordered(what: str, values: Any) -> None:
    """Refuses a set or a mapping instead of a list: Python orders texts in a set anew in every process.

    Raises:
        DataError: as said.
    """
    if isinstance(values, Set | Mapping):
        raise DataError(f"Expected {what} as a list or tuple, in their order; got a {type(values).__name__}.")


def require_trimmed(what: str, *texts: str) -> None:
    """Raises unless all are texts without spaces around them: values of a table are compared without.

    Raises:
        DataError: an empty text, or one with spaces around it.
    """
    if odd := [text for text in texts if not text or text != text.strip()]:
        raise DataError(f"Expected {what} as a text without spaces around it; got {odd[0][:80]!r}.")


def require_harmless(what: str, *texts: str) -> None:
    """Raises unless all are texts that no spreadsheet takes for a formula: they are written into synthetic.csv.

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
    """A text in which the address of a database ends where a name or a password may begin."""
    return _SECRET.sub(r"\1://...", text)
