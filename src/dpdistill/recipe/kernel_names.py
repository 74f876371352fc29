"""Kernels by name: of the table, of a public encoder, and sums of both."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import reduce

from dpdistill.recipe.encoders import ENCODERS, PublicEncoder, SideBySide, encoder_named
from dpdistill.recipe.fields import to_json
from dpdistill.recipe.kernels import KERNELS, FeatureKernel, Kernel
from dpdistill.schema import DataError

_WEIGHTED = re.compile(r"(?:([1-9][0-9]{0,2})\*)?(.+)")


def kernel_named(name: object, field: str = "kernel") -> Kernel:
    """Returns a kernel by its name: "drawn", "efficientnet-lite0", "FILE.onnx", or a sum, "drawn+2*efficientnet-lite0".

    Raises:
        DataError: an unknown name, or a sum of kernels without fixed features.
    """
    if isinstance(name, str) and name in KERNELS:
        return KERNELS[name]
    if not isinstance(name, str) or not name or name.startswith("+"):
        raise DataError(f"Unknown {field} {name!r}: choose among {', '.join((*KERNELS, *ENCODERS))}.")
    parts = [_WEIGHTED.fullmatch(part) for part in name.split("+")]
    found = [(int(part[1] or 1), _one(part[2], field)) for part in parts if part]
    if len(found) < len(parts):
        raise DataError(f"Expected a sum of kernels as drawn+2*efficientnet-lite0; got {field}={name!r}.")
    if len(found) == 1:
        return found[0][1]
    for (_, kernel), part in zip(found, name.split("+"), strict=True):
        if not isinstance(kernel, FeatureKernel):
            raise DataError(f"Expected kernels of fixed features in a sum; got {part!r} in {field}={name!r}.")
    return FeatureKernel(_summed([(weight, kernel.encoder) for weight, kernel in found]))  # type: ignore[attr-defined]


def _one(name: str, field: str) -> Kernel:
    if name in KERNELS:
        return KERNELS[name]
    try:
        return FeatureKernel(encoder_named(name))
    except DataError as error:
        if name.endswith(".onnx") or "/" in name:
            raise
        raise DataError(
            f"Unknown {field} {name!r}: choose among {', '.join((*KERNELS, *ENCODERS))}, or name an encoder. {error}"
        ) from None


def _summed(parts: list[tuple[int, object]]) -> SideBySide:
    """Returns maps side by side whose squared norms are in the proportion of the weights."""

    def joined(one: tuple[int, object], other: tuple[int, object]) -> tuple[int, object]:
        total = one[0] + other[0]
        return total, SideBySide(one[1], other[1], float(Fraction(other[0], total)))

    found = reduce(joined, parts)[1]
    assert isinstance(found, SideBySide)
    return found


def name_of_kernel(kernel: Kernel) -> str | None:
    """Returns the name that `kernel_named` takes; None for a kernel that has none."""
    if (short := _short_name(kernel)) is not None:
        return short
    if not isinstance(kernel, FeatureKernel) or not isinstance(kernel.encoder, SideBySide):
        return None
    parts, left, share = list[tuple[Fraction, object]](), kernel.encoder, Fraction(1)
    while isinstance(left, SideBySide):
        weight = Fraction(left.weight).limit_denominator(1000)
        parts.append((share * weight, left.second))
        left, share = left.first, share * (1 - weight)
    parts = [*parts, (share, left)][::-1]
    names = [_short_name(FeatureKernel(part)) for _, part in parts]
    whole = math.lcm(*(weight.denominator for weight, _ in parts))
    weights = [int(weight * whole) for weight, _ in parts]
    rebuilt = _summed([(weight, part) for weight, (_, part) in zip(weights, parts, strict=True)])
    if None in names or max(weights) > 999 or to_json(rebuilt) != to_json(kernel.encoder):
        return None
    return "+".join(f"{name}" if w == 1 else f"{w}*{name}" for w, name in zip(weights, names, strict=True))


def _short_name(kernel: Kernel) -> str | None:
    written = to_json(kernel)
    if isinstance(kernel, FeatureKernel) and isinstance(kernel.encoder, PublicEncoder):
        return kernel.encoder.name
    return next((name for name, other in KERNELS.items() if to_json(other) == written), None)
