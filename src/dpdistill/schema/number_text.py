"""Equal meanings of texts: spellings of one number, and Unicode forms of one name."""

from __future__ import annotations

import re
import unicodedata
from decimal import Context, Decimal

TRUTH = {"true": "1", "false": "0"}
PLAIN = re.compile(r"-?(0|[1-9]\d{0,24})(\.\d{0,24})?([eE][+-]?\d{1,2})?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
COMMA_NUMBER = re.compile(r"(?=[+-]?,?\d)[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+)?(,\d*)?([eE][+-]?\d+)?", re.ASCII)
_EXACT = Context(prec=200)


def number_key(text: str) -> str:
    """Returns one text for all spellings of a number; other texts, such as 007, stay unchanged."""
    if text.isascii() and text.isdigit():
        return text
    text = TRUTH.get(text.lower(), text)
    return format(_EXACT.add(Decimal(text), 0).normalize(_EXACT), "f") if PLAIN.fullmatch(text) else text


def same_spelling(name: str) -> str:
    """Returns one spelling of a name whose accents may be separate characters, as macOS writes them (NFC)."""
    return unicodedata.normalize("NFC", name)


def decimal_text(value: Decimal) -> str:
    """Returns the shortest text of a decimal number: 1 for 1.000; very long numbers stay unchanged."""
    if not value.is_finite() or len(value.as_tuple().digits) > _EXACT.prec or abs(value.adjusted()) > _EXACT.prec:
        return str(value)
    return format(_EXACT.add(value, 0).normalize(_EXACT), "f")


def with_point(text: str, decimal: str) -> str:
    """Returns a number's text with a decimal point; texts that are no numbers stay unchanged or become empty.

    Args:
        text: text without surrounding spaces.
        decimal: decimal separator, "." or ","; with a comma, points may stand between thousands only.
    """
    if decimal == ".":
        return text
    if COMMA_NUMBER.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return "" if NUMBER.fullmatch(text) else text


def is_negative(key: str) -> bool:
    """Returns whether a `number_key` is that of a negative number."""
    return key.startswith("-") and PLAIN.fullmatch(key) is not None and float(key) < 0
