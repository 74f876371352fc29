"""A generator as a recipe describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Architecture = Literal["dense", "convolutional", "residual"]
"""An architecture of generators of images; those of tables are dense."""
GENERATORS: tuple[Architecture, ...] = get_args(Architecture)


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings:
    """A generator's size and training.

    Args:
        hidden: width of the hidden layers.
        layers: hidden layers.
        architecture: of a generator of images, one of GENERATORS; that of a table is dense.
        code_size: random coordinates behind a record.
        batch: generated records a step, shared evenly by the classes.
        steps: of Adam.
        learning_rate: of Adam, decayed by a cosine.
        hard: draw categories while training; otherwise use their probabilities.
    """

    hidden: int = 256
    layers: int = 2
    architecture: Architecture = "convolutional"
    code_size: int = 16
    batch: int = 500
    steps: int = 2000
    learning_rate: float = 0.002
    hard: bool = True
