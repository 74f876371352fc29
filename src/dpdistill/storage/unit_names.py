"""Names of units (persons): one key for all spellings, and texts that mean "no unit", in tables and images."""

from __future__ import annotations

import re
import unicodedata

from dpdistill.schema.number_text import is_negative, number_key

_WORDS = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NaT", "null", "NULL", "Null", "None", "none", "NONE")
NO_UNIT = frozenset(("", "?", "-", "--", ".", *_WORDS))
"""Texts that mean "no unit"; negative numbers and the texts of `csv.missing` mean the same."""
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_NEGATIVE = re.compile(r"-\d+(\.0*)?", re.ASCII)


def unit_key(name: str | bytes | int) -> str | None:
    """Returns one text for all spellings of a unit's name; None for a name that means "no unit".

    Spellings that look alike are one name: Unicode's forms (NFKC), invisible characters, spaces around a name and
    several spaces within, and numbers of one value. Upper and lower case differ. Two persons whose names become equal
    are protected together, as one unit. Two names of one person would protect that person less than promised.

    Args:
        name: name in the source.
    """
    text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
    key = number_key(text if text.isascii() and text.isalnum() else _plain(text))
    if key in NO_UNIT or (key.startswith("-") and (is_negative(key) or _NEGATIVE.fullmatch(key))):
        return None
    return key


def _plain(text: str) -> str:
    """Returns a text in one Unicode form, without invisible characters."""
    shown = unicodedata.normalize("NFKC", text)
    shown = "".join(c for c in shown if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf"))
    return " ".join(unicodedata.normalize("NFKC", _INVISIBLE.sub("", shown)).split())
