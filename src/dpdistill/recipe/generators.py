"""Settings of a generator in a recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Architecture = Literal["dense", "convolutional", "residual"]
"""Architecture of image generators; generators of tables are dense."""
GENERATORS: tuple[Architecture, ...] = get_args(Architecture)


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings:
    """Size and training settings of a generator.

    Args:
        hidden: width of the hidden layers.
        layers: number of hidden layers.
        architecture: architecture of an image generator, one of GENERATORS; a generator of tables is dense.
        code_size: number of random coordinates behind a record.
        batch: generated records per step, shared evenly by the classes.
        steps: steps of Adam.
        learning_rate: learning rate of Adam, with cosine decay.
        hard: whether to draw categories while training; otherwise their probabilities are used.
    """

    hidden: int = 256
    layers: int = 2
    architecture: Architecture = "convolutional"
    code_size: int = 16
    batch: int = 500
    steps: int = 2000
    learning_rate: float = 0.002
    hard: bool = True
