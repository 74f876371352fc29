"""Numbers as text, and the guarantee in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

MARGIN = 1e-6
KINDS = {
    "FCNTK": "the tangent kernel of an infinitely wide dense network",
    "ConvNTK": "the tangent kernel of an infinitely wide convolutional network",
    "EmpiricalNTK": "the tangent kernel of a finite network",
    "FeatureKernel": "the inner product of features",
    "ScatterNet": "two layers of wavelets and moduli",
    "WhiteScatterNet": "a ScatterNet whose channels are decorrelated on public drawings",
    "Mirrored": "features that do not tell a record from its mirror image",
    "Perceptual": "the activations of all layers of an untrained ResNet-18",
    "LeNet": "a small convolutional network",
    "ResNet18": "a residual network of 18 layers",
}
"""What a kernel, or a part of one, is."""


def upper(value: float, digits: int = 4) -> str:
    """A bound with some significant digits, rounded up so that the text is a bound too; ∞ stays ∞."""
    if math.isinf(value):
        return "∞"
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # MARGIN: 1.0000000001 is the 1 that was asked for, not 1.001.
    return f"{math.ceil(value / unit * (1 - MARGIN)) * unit:.{digits}g}"


def plain(value: Any) -> str:
    """A JSON value for a person: 1e-05 as 1e-5, lists with commas, true and false as yes and no, kernels in words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        text = "∞" if value == math.inf else f"{value:.6g}"
        return text.replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value) or "none"
    if isinstance(value, dict) and isinstance(value.get("kind"), str):
        kind, fields = value["kind"], {key: item for key, item in value.items() if key != "kind"}
        return f"{kind}, {KINDS[kind]} ({plain(fields)})" if kind in KINDS else f"{kind} ({plain(fields)})"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item)}" for key, item in value.items()) or "none"
    return str(value)


def one_in(delta: float) -> str:
    """1e-5 as `1 in 100,000`."""
    return f"1 in {1 / delta:,.0f}"


def guess_bound(epsilon: float, delta: float) -> float:
    """How often a fifty-fifty guess about one record can be right at most: (e^ε + δ) / (1 + e^ε)."""
    odds = math.exp(min(epsilon, 700.0))
    return min((odds + delta) / (1.0 + odds), 1.0)


def percent(value: float) -> str:
    """A probability as a percentage, rounded up, with the digits that tell it from 100."""
    digits = 1
    while digits < 4 and math.ceil(value * 100 * 10**digits - MARGIN) >= 100 * 10**digits:
        digits += 1
    bound = math.ceil(value * 100 * 10**digits - MARGIN) / 10**digits
    return f"{bound:.{digits}f} %" if bound < 100 else "100 %"


def factor(epsilon: float) -> str:
    """e^ε as text: 2.72, 22,030, or e^40 where the number says nothing any more."""
    if epsilon > 30:
        return f"e^{upper(epsilon)}"
    value = math.exp(epsilon)
    return f"{math.ceil(value):,}" if value >= 1000 else upper(value, 3)


@dataclass(frozen=True)
class Neighbours:
    """What a relation does to one record, in the phrases the page needs."""

    change: str
    regardless: str
    had: str
    question: str


def neighbours(relation: str) -> Neighbours:
    """The phrases of a relation; neutral ones where it is unknown."""
    known = {
        "add-remove": Neighbours(
            "added or removed",
            "whether or not any one record was there",
            "had any one record never been used",
            "whether a given record was used",
        ),
        "replace-one": Neighbours(
            "replaced by another",
            "whatever any one record was",
            "had any one record been replaced by another",
            "which of two given records was used",
        ),
    }
    other = Neighbours(
        relation, "whatever any one record was", "had any one record been different", "which of two data sets was used"
    )
    return known.get(relation, other)
