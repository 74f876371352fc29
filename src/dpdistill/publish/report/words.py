"""Formats numbers and JSON values as text; templates use these functions as filters."""

from __future__ import annotations

import math

MARGIN = 1e-6
DEEPEST = 20
"""Levels of a JSON value that are shown; an ellipsis replaces deeper levels."""
KINDS = {
    "FCNTK": "the tangent kernel of an infinitely wide dense network",
    "ConvNTK": "the tangent kernel of an infinitely wide convolutional network",
    "EmpiricalNTK": "the tangent kernel of a finite network",
    "FeatureKernel": "the inner product of features",
    "ScatterNet": "two layers of wavelets and moduli",
    "WhiteScatterNet": "a ScatterNet whose channels are decorrelated on procedurally generated images",
    "DrawnNet": "two layers of filters learned from procedurally generated images, never from records",
    "Deskewed": "features of a deskewed, centred and rescaled record",
    "Normalised": "features normalised at every position, minus their mean over generated images",
    "GammaCorrected": "features of a gamma-corrected record",
    "Silhouettes": "procedurally generated textured outlines on black",
    "Mirrored": "features that are equal for a record and its mirror image",
    "Perceptual": "the activations of all layers of an untrained ResNet-18",
    "PublicEncoder": "pooled activations of a network that was trained on data declared public",
    "SideBySide": "the features of two maps side by side",
    "LeNet": "a small convolutional network",
    "ResNet18": "a residual network of 18 layers",
}
"""Descriptions of kernels and their parts."""


def bound(value: float, digits: int = 4) -> str:
    """Returns a bound with some significant digits, rounded up so that the text is a bound too; ∞ stays ∞."""
    if math.isinf(value):
        return "∞"
    if value <= 0:
        return "0"
    value = max(value, 1e-300)
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    # MARGIN: 1.0000000001 is the requested 1, not 1.001.
    return f"{math.ceil(value / unit * (1 - MARGIN)) * unit:.{digits}g}"


def plain(value: object, depth: int = 0) -> str:
    """Returns a JSON value as text: 1e-05 as 1e-5, lists with commas, true as yes, kernels in words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        text = "∞" if value == math.inf else f"{value:.6g}"
        return text.replace("e-0", "e-").replace("e+0", "e+")
    if isinstance(value, list | tuple | dict) and depth == DEEPEST:
        return "…"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item, depth + 1) for item in value) or "none"
    if isinstance(value, dict) and isinstance(value.get("kind"), str):
        kind, fields = value["kind"], {key: item for key, item in value.items() if key != "kind"}
        name = f"{kind}, {KINDS[kind]}" if kind in KINDS else kind
        return f"{name} ({plain(fields, depth + 1)})"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {plain(item, depth + 1)}" for key, item in value.items()) or "none"
    return str(value)


def number(value: float, thousands: str = "") -> str:
    """Returns a number as text: whole numbers up to 15 digits in full, others with 6 significant digits."""
    value = float(value)
    whole = abs(value) < 1e15 and value == round(value)
    return f"{round(value):{thousands}}" if whole else plain(value)


def share(value: float) -> str:
    """Returns a share of rows as a whole percentage; a share below one percent but above zero as `<1 %`."""
    return "<1 %" if 0 < value < 0.01 else f"{100 * value:.0f} %"


def power_of_ten(delta: float) -> str:
    """Returns 1e-05 as 10⁻⁵; any other number as m·10ⁿ."""
    mantissa, exponent = f"{delta:.2e}".split("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if float(mantissa) == 1.0 else f"{float(mantissa):g}·{power}"


def one_in(delta: float) -> str:
    """Returns 1e-5 as `1 in 100,000`."""
    return f"1 in {1 / max(delta, 1e-300):,.0f}"


def guess_bound(epsilon: float, delta: float) -> float:
    """Returns the largest probability that a fifty-fifty guess about one record is right: (e^ε + δ) / (1 + e^ε)."""
    odds = math.exp(min(epsilon, 700.0))
    return min((odds + delta) / (1.0 + odds), 1.0)


def percent(value: float) -> str:
    """Returns a probability as a percentage, rounded up, with enough digits to differ from 100."""
    digits = 1
    while digits < 4 and math.ceil(value * 100 * 10**digits - MARGIN) >= 100 * 10**digits:
        digits += 1
    rounded = math.ceil(value * 100 * 10**digits - MARGIN) / 10**digits
    return f"{rounded:.{digits}f} %" if rounded < 100 else "100 %"


def factor(epsilon: float) -> str:
    """Returns e^ε as text: 2.72, 22,030, or e^40 if the number is too large to read."""
    if epsilon > 30:
        return f"e^{bound(epsilon)}"
    value = math.exp(epsilon)
    return f"{math.ceil(value):,}" if value >= 1000 else bound(value, 3)


FILTERS = (bound, plain, number, share, power_of_ten, one_in, percent, factor)
