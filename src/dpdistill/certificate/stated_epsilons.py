"""Checks that a text states no epsilons and deltas other than the certificate's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpdistill.certificate.format import Certificate

MOST = 1 << 22
"""Largest number of bytes that are read from a text."""
_NUMBER = r"((?>\d[\d,]*\.?\d*(?:e[+-]?\d+)?))(?! ?(?:\^|[⁻−]|\*\*[-−]))"
"""Pattern of a whole number that is no power of ten in another notation."""
_GAP = r"[^\d\n]{0,40}?"
_EPSILON = re.compile(
    rf"(?:epsilon|\beps\b|[εϵɛєԑƐ]){_GAP}{_NUMBER}|\(\s*{_NUMBER}\s*,[^()]*\)[\s-]*(?:DP\b|differ)", re.I
)
_DELTA = re.compile(rf"(?:delta|δ){_GAP}{_NUMBER}", re.IGNORECASE)
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]")
_HEADLINE = (
    re.compile(rf"^ *epsilon: {_NUMBER}", re.IGNORECASE | re.MULTILINE),  # of YAML
    _EPSILON,
)


def states_another(path: Path, certificate: Certificate, headline: bool = False) -> str | None:
    """Returns an epsilon or delta in a text that the certificate does not state, such as "epsilon 0.1"; None if all
    agree.

    Args:
        path: path of the text.
        certificate: its claim, its epsilons at other deltas and those for several rows are allowed.
        headline: check the first epsilon only, which must be the claimed one.
    """
    with path.open("rb") as file:
        text = file.read(MOST).decode("utf-8", "replace")
    text = _UNSEEN.sub("", unicodedata.normalize("NFKC", text))
    epsilons, deltas = _allowed(certificate)
    if headline:
        first = next((result for each in _HEADLINE if (result := next(_numbers(each, text), None))), None)
        return f"epsilon {first}" if first and epsilons and not _is_among(first, epsilons[:1]) else None
    for name, pattern, allowed in (("epsilon", _EPSILON, epsilons), ("delta", _DELTA, deltas)):
        for number in _numbers(pattern, text):
            if not _is_among(number, allowed):
                return f"{name} {number}"
    return None


def _numbers(pattern: re.Pattern, text: str) -> Iterator[str]:
    for result in pattern.finditer(text):
        yield next(group for group in result.groups() if group)


def _allowed(certificate: Certificate) -> tuple[list[Any], list[Any]]:
    """Returns (epsilons, deltas) of a certificate, the claimed ones first; empty without a guarantee."""
    if certificate.schedule is None:
        return [], []
    claim = certificate.schedule.budget
    tables = [*certificate.epsilons.values(), *certificate.groups.values(), certificate.group_privacy]
    deltas = [float(delta) for delta in certificate.epsilons if re.fullmatch(r"[\d.e-]{1,30}", delta)]
    return [claim.epsilon, *tables], [claim.delta, *deltas]


def _is_among(number: str, allowed: list[Any]) -> bool:
    """Returns whether a number equals an allowed one as a page rounds it; commas separate thousands or decimals."""
    read = {float(number.replace(",", "")), float(number.replace(",", ".")) if number.count(",") == 1 else 0.0}
    numbers = [each for each in allowed if isinstance(each, int | float)]
    return any(abs(stated - each) <= 1e-2 * each for stated in read for each in numbers)
