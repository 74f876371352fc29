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
POINTS = "Whose gradients: final, initial or both"
BATCH = "Images that move in a step; all if left out."
WIDTHS = "512,512"


@dataclass(frozen=True, kw_only=True)
class ModelSearch:
    """How images behind the parameters of a network are searched for.

    Args:
        architecture: name of the network's architecture.
        images: how many are searched for; None for twice the members.
        steps: of the search.
        at: whose gradients are used: "final", "initial" or "both".
        batch: images that move in a step; None for all.
        pixel_bounds: what the network saw as the darkest and the brightest value, (low, high) or "low,high".

    Raises:
        DataError: an unknown architecture, or bounds that are none.
    """

    PANEL: ClassVar[str] = "Attack"
    architecture: str = option("mlp", NETWORKS, panel="Networks")
    images: int | None = option(None, "To search for; twice the members if left out.", min=1, panel="Data")
    steps: int = option(10_000, "Of the search.", min=1)
    at: str = option("both", f"{POINTS}.", expert=True)
    batch: int | None = option(None, BATCH, min=1, expert=True)
    pixel_bounds: Any = option(
        "0,1", "What the network saw as the darkest and the brightest value.", name="--bounds", kind=str, panel="Data"
    )

    def __post_init__(self) -> None:
        from dpdistill.recipe.names import check_names

        check_names("architecture", [self.architecture], ARCHITECTURES)
        _ = self.seen  # refuses bounds that cannot be

    @property
    def seen(self) -> tuple[float, float]:
        """Returns what the network saw as (darkest, brightest) value."""
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
    """How the network is made and trained that an attack is tried on, without privacy.

    Args:
        records: how many are drawn at random to train on.
        architecture: name of the network's architecture.
        widths: units of the hidden layers of an mlp, (512, 512) or "512,512".
        multiplier: times the units of every layer of another architecture.
        weights: an .npz file of the parameters that training starts from.
        positive: classes to tell from all others, "1,3,5" or names; None to tell all classes from each other.
        loss: "squares" or "cross-entropy".
        training_steps: of training at most.
        linearised: train to first order.
        layers: trainings, each without the images that came back best.
        peel: images left out each time; None for a quarter.

    Raises:
        DataError: an unknown name, options that contradict each other, or a file that is not there.
    """

    PANEL: ClassVar[str] = "Attack"
    records: int = option(20, "To train on, drawn at random.", min=2, panel="Data")
    architecture: str = option("mlp", NETWORKS, panel="Networks")
    widths: Any = option(None, f"Units of the hidden layers of an mlp; {WIDTHS} if left out.", kind=str, expert=True)
    multiplier: int = option(
        1, "Times the units of every layer of another architecture.", min=1, metavar="<int>", expert=True
    )
    weights: str | os.PathLike | None = option(
        None, "Start from these parameters: an .npz file.", kind=str, expert=True
    )
    positive: Any = option(
        None, "Classes to tell from all others, such as 1,3,5; all from each other if left out.", kind=str
    )
    loss: str = option("squares", "squares or cross-entropy.", expert=True)
    training_steps: int = option(20_000, "Of training at most; it ends when all is learned.", min=1, expert=True)
    linearised: bool = option(False, "Train to first order.", name="--linearised", expert=True)
    layers: int = option(3, "Trainings, each without those that came back best.", min=1, expert=True)
    peel: int | None = option(None, "Images left out each time; a quarter if left out.", min=1, expert=True)

    def __post_init__(self) -> None:
        from dpdistill.recipe.names import check_names

        check_names("loss", [self.loss], LOSSES)
        check_names("architecture", [self.architecture], ARCHITECTURES)
        assert self.units
        for wrong, sentence in (
            (
                self.widths is not None and self.weights is not None,
                "Expected --widths without --weights: the file says how many units there are.",
            ),
            (
                self.widths is not None and self.architecture != "mlp",
                f"Expected --widths with --architecture mlp; got {self.architecture}, which takes --multiplier.",
            ),
            (
                self.multiplier > 1 and (self.architecture == "mlp" or self.weights is not None),
                "Expected --multiplier with another architecture than mlp, and without --weights.",
            ),
        ):
            if wrong:
                raise DataError(sentence)
        if self.weights is not None:
            require_file(Path(self.weights))

    @property
    def units(self) -> tuple[int, ...]:
        """Returns the units of the hidden layers of an mlp, where no file states them."""
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
        """Returns how many images are left out each time."""
        return self.peel or max(1, self.records // 4)


@dataclass(frozen=True, kw_only=True)
class TrainingSearch:
    """How images behind a network that was trained for the attack are searched for: twice as many as it saw.

    Args:
        steps: of the search.
        at: whose gradients are used: "final", "initial" or "both"; None for the initial ones of a network that was
            trained to first order, and for both of others.
        batch: images that move in a step; None for all.
    """

    PANEL: ClassVar[str] = "Attack"
    steps: int = option(6_000, "Of the search.", min=1)
    at: str | None = option(None, f"{POINTS}; initial for --linearised, else both.", expert=True)
    batch: int | None = option(None, BATCH, min=1, expert=True)
