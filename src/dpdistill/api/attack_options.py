"""Options of an attack on a network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dpdistill.api.options import option
from dpdistill.recipe.choices import LOSSES
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import DataError
from dpdistill.storage.files import require_file

NETWORKS = "convnet, convnet64, mlp (of any widths), lenet, vgg11, resnet18 or vit."
POINTS = "Network whose gradients are matched: final, initial or both"
BATCH = "Number of images updated per step; all if left out."
WIDTHS = "512,512"


@dataclass(frozen=True, kw_only=True)
class ModelSearch:
    """Options of the search for training images behind a network's parameters.

    Args:
        architecture: name of the network's architecture.
        images: number of images to search for; None for twice the members.
        steps: number of search steps.
        at: network whose gradients are matched: "final", "initial" or "both".
        batch: number of images updated per step; None for all.
        pixel_bounds: darkest and brightest input value of the network, (low, high) or "low,high".

    Raises:
        DataError: an unknown architecture, or bounds that are not two increasing numbers.
    """

    PANEL: ClassVar[str] = "Attack"
    architecture: str = option("mlp", NETWORKS, panel="Networks")
    images: int | None = option(
        None, "Number of images to search for; twice the members if left out.", min=1, panel="Data"
    )
    steps: int = option(10_000, "Number of search steps.", min=1)
    at: str = option("both", f"{POINTS}.", expert=True)
    batch: int | None = option(None, BATCH, min=1, expert=True)
    pixel_bounds: Any = option(
        "0,1", "Darkest and brightest input value of the network.", name="--bounds", kind=str, panel="Data"
    )

    def __post_init__(self) -> None:
        from dpdistill.recipe.names import check_names

        check_names("architecture", [self.architecture], ARCHITECTURES)
        _ = self.input_bounds  # the property refuses bad bounds

    @property
    def input_bounds(self) -> tuple[float, float]:
        """Returns the (darkest, brightest) input value of the network."""
        stated = self.pixel_bounds
        try:
            low, high = (float(part) for part in (stated.split(",") if isinstance(stated, str) else stated))
        except (ValueError, TypeError):
            raise DataError(f"Expected --bounds as two numbers, 0,1; got {stated!r}.") from None
        if not low < high:
            raise DataError(f"Expected --bounds as two numbers, the lower first; got {stated!r}.")
        return low, high


@dataclass(frozen=True, kw_only=True)
class VictimTraining:
    """Options of the network that is trained for an attack, without privacy.

    Args:
        records: number of records to train on, drawn at random.
        architecture: name of the network's architecture.
        widths: numbers of units of the hidden layers of an mlp, (512, 512) or "512,512".
        multiplier: factor for the number of units of every layer; for all architectures but mlp.
        weights: .npz file of the initial parameters.
        positive: classes of the positive side of a binary task, "1,3,5" or names; None for a task with all classes.
        loss: "squares" or "cross-entropy".
        training_steps: maximum number of training steps.
        linearised: train the network's first-order expansion.
        layers: number of trainings; each leaves out the images that were reconstructed best.
        peel: number of images left out after each training; None for a quarter.

    Raises:
        DataError: an unknown name, options that contradict each other, or a missing file.
    """

    PANEL: ClassVar[str] = "Attack"
    records: int = option(20, "Number of records to train on, drawn at random.", min=2, panel="Data")
    architecture: str = option("mlp", NETWORKS, panel="Networks")
    widths: Any = option(
        None, f"Numbers of units of the hidden layers of an mlp; {WIDTHS} if left out.", kind=str, expert=True
    )
    multiplier: int = option(
        1, "Factor for the units of every layer; for all but mlp.", min=1, metavar="<int>", expert=True
    )
    weights: str | os.PathLike | None = option(None, ".npz file of the initial parameters.", kind=str, expert=True)
    positive: Any = option(
        None, "Positive classes of a binary task, such as 1,3,5; a task with all classes if left out.", kind=str
    )
    loss: str = option("squares", "squares or cross-entropy.", expert=True)
    training_steps: int = option(
        20_000, "Maximum number of training steps; fewer once the loss is small.", min=1, expert=True
    )
    linearised: bool = option(False, "Train the network's first-order expansion.", name="--linearised", expert=True)
    layers: int = option(3, "Number of trainings; each leaves out the best reconstructed images.", min=1, expert=True)
    peel: int | None = option(
        None, "Number of images left out after each training; a quarter by default.", min=1, expert=True
    )

    def __post_init__(self) -> None:
        from dpdistill.recipe.names import check_names

        check_names("loss", [self.loss], LOSSES)
        check_names("architecture", [self.architecture], ARCHITECTURES)
        assert self.units
        for wrong, sentence in (
            (
                self.widths is not None and self.weights is not None,
                "Expected --widths without --weights: the file determines the number of units.",
            ),
            (
                self.widths is not None and self.architecture != "mlp",
                f"Expected --widths with --architecture mlp; got {self.architecture}, which takes --multiplier.",
            ),
            (
                self.multiplier > 1 and (self.architecture == "mlp" or self.weights is not None),
                "Expected --multiplier with an architecture other than mlp, and without --weights.",
            ),
        ):
            if wrong:
                raise DataError(sentence)
        if self.weights is not None:
            require_file(Path(self.weights))

    @property
    def units(self) -> tuple[int, ...]:
        """Returns the number of units of each hidden layer of an mlp, where no file determines them."""
        stated = WIDTHS if self.widths is None else self.widths
        try:
            units = tuple(int(part) for part in (stated.split(",") if isinstance(stated, str) else stated))
        except (ValueError, TypeError):
            units = ()
        if not units or min(units) < 1:
            raise DataError(f"Expected --widths as whole numbers above zero, {WIDTHS}; got {stated!r}.")
        return units

    @property
    def removed(self) -> int:
        """Returns the number of images left out after each training."""
        return self.peel or max(1, self.records // 4)


@dataclass(frozen=True, kw_only=True)
class TrainingSearch:
    """Options of the search for the training images of an attacked network: twice as many as it was trained on.

    Args:
        steps: number of search steps.
        at: network whose gradients are matched: "final", "initial" or "both"; None for "initial" where the network's
            first-order expansion is trained, and for "both" otherwise.
        batch: number of images updated per step; None for all.
    """

    PANEL: ClassVar[str] = "Attack"
    steps: int = option(6_000, "Number of search steps.", min=1)
    at: str | None = option(None, f"{POINTS}; by default initial with --linearised, and both without.", expert=True)
    batch: int | None = option(None, BATCH, min=1, expert=True)
