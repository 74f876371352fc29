"""Texts that mean the same: spellings of one number, and forms of Unicode of one name."""

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
    """One text for all that stand for the same number; other texts as they are, and so is 007."""
    if text.isascii() and text.isdigit():
        return text
    text = TRUTH.get(text.lower(), text)
    return format(_EXACT.add(Decimal(text), 0).normalize(_EXACT), "f") if PLAIN.fullmatch(text) else text


def same_spelling(name: str) -> str:
    """Returns one spelling of a name whose accents may be characters of their own, as macOS writes them (NFC)."""
    return unicodedata.normalize("NFC", name)


def decimal_text(value: Decimal) -> str:
    """The shortest text of a decimal number: 1 for 1.000; very long ones as they are."""
    if not value.is_finite() or len(value.as_tuple().digits) > _EXACT.prec or abs(value.adjusted()) > _EXACT.prec:
        return str(value)
    return format(_EXACT.add(value, 0).normalize(_EXACT), "f")


def with_point(text: str, decimal: str) -> str:
    """A number as it is written with a decimal point; texts that are none as they are, or empty.

    Args:
        text: without spaces around it.
        decimal: what its fraction begins with, "." or ","; with a comma points may stand between thousands only.
    """
    if decimal == ".":
        return text
    if COMMA_NUMBER.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return "" if NUMBER.fullmatch(text) else text


def is_negative(key: str) -> bool:
    """Returns whether a `number_key` is that of a negative number."""
    return key.startswith("-") and PLAIN.fullmatch(key) is not None and float(key) < 0
