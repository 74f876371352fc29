"""`dpdistill attack`: reconstructs training images from a network."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.attack_options import ModelSearch, TrainingSearch, VictimTraining
from dpdistill.api.options import SOURCES, Account, Reading
from dpdistill.cli.audit import Out, say_page
from dpdistill.cli.expand import Fields, expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.terminal import say

app = typer.Typer(
    no_args_is_help=True,
    help="Reconstruct training images from a network, for the owner of the images: not covered by epsilon.",
)
Seed = Annotated[Account, Fields("seed", seed="Seed of all random numbers; 0 by default.")]


@app.command("model")
@expand
def attack_model(
    *,
    before: Annotated[str, typer.Option(rich_help_panel="Attack", help="Parameters before training: an .npz file.")],
    after: Annotated[str, typer.Option(rich_help_panel="Attack", help="Parameters after training: an .npz file.")],
    members: Annotated[str, typer.Option(rich_help_panel="Data", help=f"Training images of the network: {SOURCES}")],
    to: Annotated[
        str,
        typer.Option(
            "--out", rich_help_panel="Output", help="Name of the network: its owner's page goes to DIR.audit."
        ),
    ] = "model",
    search: ModelSearch,
    reading: Annotated[Reading, Fields("classes", "resize", "channels", "straighten", "labels")],
    account: Seed,
) -> None:
    """Reconstruct training images from a network's parameters, without reading the images."""
    found = dp.attack_model(
        before, after, members, search=search, reading=reading, seed=account.seed, out=to, listener=Terminal()
    )
    _say_rebuilt(found.rebuilt, len(found.members), found.pairs.error, found.baseline)
    say_page(found, to)


@app.command("training")
@expand
def attack_training(
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"Images: {SOURCES}")],
    *,
    to: Out,
    training: VictimTraining,
    search: TrainingSearch,
    reading: Annotated[Reading, Fields("classes", "bounds", "resize", "channels", "straighten", "labels")],
    account: Seed,
) -> None:
    """Train a network without privacy, reconstruct its images, and repeat without the best reconstructed ones.

    Shows what a network of yours would leak, before you train it. Only the owner's page is written.
    """
    found = dp.attack_training(
        data, training=training, search=search, reading=reading, seed=account.seed, out=to, listener=Terminal()
    )
    _say_rebuilt(found.rebuilt, len(found.members), found.layers[0].pairs.error, found.baseline)
    say_page(found, to)


def _say_rebuilt(rebuilt: int, images: int, error: float, baseline: float) -> None:
    say(f"{rebuilt} of {images} training images were reconstructed to less than half the distance from their mean; "
        f"mean squared distance {error:.2f} (the mean image: {baseline:.2f}).")  # fmt: skip
