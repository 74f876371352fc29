"""Texts that stand for numbers: one key for all that stand for the same."""

from __future__ import annotations

import re
from decimal import Context, Decimal

TRUTH = {"true": "1", "false": "0"}
PLAIN = re.compile(r"-?(0|[1-9]\d{0,24})(\.\d{0,24})?([eE][+-]?\d{1,2})?", re.ASCII)
_EXACT = Context(prec=200)


def number_key(text: str) -> str:
    """One text for all that stand for the same number; other texts as they are, and so is 007."""
    text = TRUTH.get(text.lower(), text)
    return format(_EXACT.add(Decimal(text), 0).normalize(_EXACT), "f") if PLAIN.fullmatch(text) else text


def is_negative(key: str) -> bool:
    """Whether a `number_key` is that of a negative number."""
    return key.startswith("-") and PLAIN.fullmatch(key) is not None and float(key) < 0
