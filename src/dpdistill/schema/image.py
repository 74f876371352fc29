"""Public facts about a set of images."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np

from dpdistill.schema.errors import DataError, require_ordered
from dpdistill.schema.facts import STRICT, StrictBool, StrictFloat, StrictInt, read_facts
from dpdistill.schema.number_text import same_spelling
from dpdistill.schema.public_facts import CHANNELS, CLASSES, IMAGE_SIZE, INFERRED, inferred_sentence

FEW_PIXELS = 12
"""Image side below which single pixels are visible when enlarged: such images are smoothed."""


@dataclass(frozen=True)
class Schema:
    """Shape, bounds and classes of a labelled image set, stated by the format or by the caller.

    Args:
        shape: (height, width, channels) of one record.
        bounds: (low, high) of one raw value, for example (0, 255).
        classes: names of the classes, in the order of their indices.
        straightened: whether each image was deskewed by its own moments when it was read; images to compare with need
            the same: `dpdistill.straighten_images`.
        inferred: names of facts that were not stated and were therefore taken from the records; schemas that differ
            only in this field are equal.

    Raises:
        DataError: a shape, bound or class list that cannot describe a data set.
    """

    __pydantic_config__ = STRICT
    shape: tuple[StrictInt, ...]
    bounds: tuple[StrictFloat, StrictFloat]
    classes: tuple[str, ...]
    straightened: StrictBool = False
    inferred: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("shape", "bounds", "classes"):
            require_ordered(name, getattr(self, name))
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise DataError(f"Expected shape (height, width, channels) of positive sizes; got {self.shape}.")
        low, high = self.bounds
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise DataError(f"Expected bounds low < high, both finite; got {self.bounds}.")
        if not self.classes:
            raise DataError("Expected at least 1 class; got 0.")
        if len(set(map(same_spelling, self.classes))) != len(self.classes):
            raise DataError("Expected distinct class names; at least one is named twice.")
        if unknown := [name for name in self.inferred if name not in INFERRED]:
            raise DataError(f"Expected inferred facts among {', '.join(INFERRED)}; got {unknown[0]!r:.80}.")

    @property
    def raw_shape(self) -> tuple[int, ...]:
        """Shape of one stored record."""
        return self.shape

    def __str__(self) -> str:
        h, w, c = self.shape
        sentence = f"{h}x{w}x{c} values in [{self.bounds[0]:g}, {self.bounds[1]:g}], {len(self.classes)} classes"
        return f"{sentence}, straightened" if self.straightened else sentence

    @property
    def dimension(self) -> int:
        """Number of values of one record."""
        return int(np.prod(self.shape))

    def to_unit(self, X: np.ndarray) -> np.ndarray:
        """Returns raw values scaled to [-1, 1]: u = 2 (x - low) / (high - low) - 1, float32; values outside are
        clamped.

        NaN stays NaN: a record that is not finite contributes nothing.
        """
        low, high = self.bounds
        scaled = (np.asarray(X, np.float32) - np.float32(low)) * np.float32(2.0 / (high - low)) - np.float32(1.0)
        return np.clip(scaled, -1.0, 1.0)

    def from_unit(self, U: np.ndarray) -> np.ndarray:
        """Returns raw values from [-1, 1]: x = low + (u + 1) (high - low) / 2, float32, clamped to the bounds."""
        low, high = self.bounds
        U = np.clip(np.asarray(U, np.float32), -1.0, 1.0)
        return (np.float32(low) + (U + np.float32(1.0)) * np.float32((high - low) / 2.0)).astype(np.float32)

    def to_json(self) -> dict:
        """Returns the facts as files store them; `straightened` and `inferred` only if they are set."""
        facts = asdict(self)
        return {key: value for key, value in facts.items() if value or key not in ("straightened", "inferred")}

    def inferred_sentences(self) -> tuple[str, ...]:
        """Returns sentences for the owner about the facts that were taken from the records."""
        h, w, c = self.shape
        classes = f"({', '.join(self.classes[:20])}{', ...' if len(self.classes) > 20 else ''})"
        values = {CLASSES: classes, IMAGE_SIZE: f"{h}x{w}", CHANNELS: str(c)}
        return tuple(inferred_sentence(name, values[name]) for name in self.inferred)

    @classmethod
    def from_json(cls, data: dict) -> Schema:
        return read_facts(cls, data)
