"""How far apart two ways of adding up the same float32 numbers may be, on any processor."""

from __future__ import annotations

from typing import Any

import numpy as np

EPSILON = 2.0**-23
"""Distance from 1 to the next larger float32."""
MARGIN = 8.0
"""The lambda below; it also covers functions that are off by a few units in the last place."""


def float32_tolerance(terms: int, scale: Any = 1.0) -> Any:
    """Largest difference between two float32 results that add up the same terms in any two orders.

        MARGIN sqrt(terms) EPSILON scale

    Each of n additions is off by at most EPSILON / 2 of the sum of magnitudes so far. Other vector widths, fused
    operations and threads add in other orders, with other roundings. As independent errors, the roundings of two sums
    together stay below lambda sqrt(n) EPSILON scale but for a probability of 4 n exp(-lambda^2 / 2).

    Args:
        terms: roundings on the way to one number: what is added up, over all layers, and the steps between.
        scale: sum of the magnitudes of the terms, not of the result, which may be small since terms cancel. Where a
            result passes through a function, the slope of the function times the scale of its argument.

    Source: Higham & Mary, 2019 (A new approach to probabilistic rounding error analysis).
    """
    return MARGIN * np.sqrt(terms) * EPSILON * scale


def assert_close_float32(actual: Any, expected: Any, terms: int, scale: Any = None) -> None:
    """Fails where two float32 results differ by more than another order of their sums explains.

    Args:
        actual: array of the code under test.
        expected: array of the same shape.
        terms: as in `float32_tolerance`.
        scale: as in `float32_tolerance`; the largest magnitude expected if None: where terms do not cancel.
    """
    actual, expected = (np.asarray(values, np.float64) for values in (actual, expected))
    assert actual.shape == expected.shape, f"Expected shape {expected.shape}; got {actual.shape}."
    off, scale = np.abs(actual - expected), np.abs(expected).max(initial=0.0) if scale is None else scale
    tolerance = np.broadcast_to(float32_tolerance(terms, scale), off.shape)
    beyond = ~(off <= tolerance)  # NaN too
    if beyond.any():
        at = tuple(int(i) for i in np.argwhere(beyond)[0])
        raise AssertionError(
            f"Expected {expected[at]:.9g} +- {tolerance[at]:.3g}; got {actual[at]:.9g} at {at}, and {beyond.sum()} of "
            f"{beyond.size} numbers are beyond the tolerance of float32."
        )
