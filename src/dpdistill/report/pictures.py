"""The pictures of the page: synthetic records as inline PNG, the ε(δ) curve as inline SVG."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from dpdistill.schema import Schema

WIDTH, HEIGHT = 520, 320
LEFT, RIGHT, TOP, BOTTOM = 54, 10, 34, 54


def to_pixels(X: np.ndarray, schema: Schema) -> np.ndarray:
    """Raw values (m, h, w, c) as pixels: rint(255 (x - low) / (high - low)), clamped, (m, h, w, 1 or 3), uint8.

    One channel is grey and three are red, green, blue; of any other number the mean is shown in grey.
    """
    low, high = schema.bounds
    X = np.asarray(X, np.float64)
    if X.shape[-1] not in (1, 3):
        X = X.mean(axis=-1, keepdims=True)
    return np.rint(np.clip((X - low) / (high - low), 0.0, 1.0) * 255.0).astype(np.uint8)


def png_uri(pixels: np.ndarray) -> str:
    """One image (h, w, 1 or 3), uint8, as a PNG data URI of its own size; a browser enlarges it."""
    buffer = io.BytesIO()
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[-1] == 1 else pixels)
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def power_of_ten(delta: float) -> str:
    """1e-05 as 10⁻⁵; any other number as m·10ⁿ."""
    mantissa, exponent = f"{delta:.2e}".split("e")
    power = "10" + str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if float(mantissa) == 1.0 else f"{float(mantissa):g}·{power}"


def curve_svg(table: Sequence[tuple[float, float]], budget: tuple[float, float] | None, labels: Sequence[str]) -> str:
    """ε against δ on a logarithmic axis.

    Args:
        table: (δ, ε) pairs, δ in (0, 1), ε finite.
        budget: the (δ, ε) of the headline, δ > 0, drawn larger, or None.
        labels: the text at each point of the table.
    """
    points = sorted(zip(table, labels, strict=True))
    exponents = [math.log10(delta) for (delta, _), _ in points]
    first, last = min(exponents), max(exponents)
    top = _nice_ceiling(1.08 * max(epsilon for (_, epsilon), _ in points))

    def x(delta: float) -> float:
        return LEFT + 24 + (math.log10(delta) - first) / max(last - first, 1e-9) * (WIDTH - LEFT - RIGHT - 48)

    def y(epsilon: float) -> float:
        return HEIGHT - BOTTOM - epsilon / top * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="ε against δ">']
    for tick in (top * k / 4 for k in range(5)):
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y(tick) + 5:.1f}" text-anchor="end">{tick:g}</text>')
    for exponent in range(math.ceil(first - 1e-9), math.floor(last + 1e-9) + 1):
        tick, text = x(10.0**exponent), power_of_ten(10.0**exponent)
        parts.append(f'<text x="{tick:.1f}" y="{HEIGHT - BOTTOM + 22}" text-anchor="middle">{text}</text>')
    parts.append(f'<text class="name" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">δ</text>')
    parts.append(f'<text class="name" x="{LEFT - 10}" y="15" text-anchor="end">ε</text>')
    line = " ".join(f"{x(delta):.1f},{y(epsilon):.1f}" for (delta, epsilon), _ in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for (delta, epsilon), label in points:
        paid = budget is not None and math.isclose(delta, budget[0], rel_tol=1e-6)
        # Beside the headline's point there is no room for a second label.
        crowded = not paid and budget is not None and abs(math.log10(delta / budget[0])) < 0.6
        parts.append(
            f'<circle class="{"paid" if paid else "point"}" cx="{x(delta):.1f}" cy="{y(epsilon):.1f}"'
            f' r="{7 if paid else 4}"/>'
            f'<text class="{"value paid" if paid else "value"}" x="{x(delta):.1f}" y="{y(epsilon) - 13:.1f}"'
            f' text-anchor="middle">{"" if crowded else label}</text>'
        )
    return "".join(parts) + "</svg>"


def _nice_ceiling(value: float) -> float:
    """The smallest of 1, 1.2, 1.6, … 8, 10 times a power of ten that is not below value: it splits in four."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next((k * power for k in (1, 1.2, 1.6, 2, 2.4, 3, 4, 6, 8) if k * power >= value), 10 * power)
