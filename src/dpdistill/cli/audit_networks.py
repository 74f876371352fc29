"""Attacks on networks: which of their training images can be rebuilt, and what is left when those are gone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.audit import Out, Seed, app, records_of
from dpdistill.cli.options import SOURCES, Bounds, Channels, Classes, Labels, Resize, Straighten
from dpdistill.cli.owners_page import owners_folder, write_page
from dpdistill.cli.reading import check_source
from dpdistill.cli.settings import check_names
from dpdistill.cli.terminal import Bar, say, working
from dpdistill.recipe.choices import LOSSES
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import DataError
from dpdistill.storage.files import require_file

Architecture = Annotated[
    str, typer.Option(help="convnet, convnet64, mlp (of any widths), lenet, vgg11, resnet18 or vit.")
]
At = Annotated[str, typer.Option(help="Whose gradients: final, initial or both.")]
MOST = 2000
"""Records times outputs of a network whose tangent kernel is formed."""
Batch = Annotated[int | None, typer.Option(min=1, help="Images that move in a step; all if left out.")]


@app.command("model")
def audit_model(
    before: Annotated[str, typer.Option(help="Parameters before training: an .npz file.")],
    after: Annotated[str, typer.Option(help="The same after training.")],
    members: Annotated[str, typer.Option(help=f"Images that it was trained on: {SOURCES}")],
    to: Annotated[
        str, typer.Option("--out", help="Name of the network: its owner's page goes to DIR.audit.")
    ] = "model",
    architecture: Architecture = "mlp",
    images: Annotated[int | None, typer.Option(min=1, help="To search for; twice the members if left out.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of the search.")] = 10_000,
    at: At = "both",
    batch: Batch = None,
    bounds: Annotated[str, typer.Option(help="What the network saw as the darkest and the brightest value.")] = "0,1",
    classes: Classes = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
    seed: Seed = 0,
) -> None:
    """Which of its training images can be rebuilt from a network, without any of them being looked at."""
    low, high = _two(bounds)
    check_names("architecture", [architecture], ARCHITECTURES)
    check_source(members, table=False)
    owners_folder(to)
    for path in (before, after):
        require_file(Path(path))
    import jax.numpy as jnp

    from dpdistill.attacks.attacked import attacked, kernel_distance, outputs_of, tangent_kernel
    from dpdistill.attacks.reconstruction import Reconstruction, curve, outliers
    from dpdistill.audits.chapters import outlier_chapter, reconstruction_chapter
    from dpdistill.networks.parameters import read_parameters, sized

    how = {"resize": resize, "channels": channels, "straighten": straighten, "labels": labels}
    X, _ = _pictures(records_of(members, classes=classes, **how), None, seed)
    network, shape = sized(_network(architecture), before), X.shape[1:]
    start, end = (read_parameters(path, network, shape) for path in (before, after))
    attack = Reconstruction(images or 2 * len(X), steps, at=at, batch=batch, bounds=(low, high))
    if attack.images < len(X):
        raise DataError(f"Expected at least as many --images as members, {len(X)}; got {attack.images}.")
    net = attacked(network)
    with Bar() as bar:
        found = attack.run(net, start, end, shape, seed=seed, progress=bar)
    rebuilt = (found.X - low) / (high - low)
    pairs = curve(X, rebuilt)
    seen = jnp.asarray(low + (high - low) * X)
    nothing = _nothing(X)
    pictures, results = reconstruction_chapter(pairs, X, rebuilt, nothing)
    chapters, said = [pictures], outputs_of(net, end, seen)
    if said.size <= MOST:  # the kernel of more takes hours and all memory
        with working("comparing"):
            kernels = [tangent_kernel(net, params, seen) for params in (start, end)]
            duals = outliers(kernels[0], outputs_of(net, start, seen), said)[pairs.images]
        who, more = outlier_chapter(duals, pairs.distances, kernel_distance(*kernels))
        chapters, results = [pictures, who], results | more
    _said(results["rebuilt"], len(X), pairs.error, nothing)
    summary = (
        f"{attack.images} images were searched for in {steps:,} steps; {100 * found.loss:.2g} % of the change is left."
    )
    write_page(to, "model", "What a network gives away", summary, chapters, results)


@app.command("training")
def audit_training(
    data: Annotated[str, typer.Argument(metavar="DATA", help=f"Images: {SOURCES}")],
    *,
    to: Out,
    records: Annotated[int, typer.Option(min=2, help="To train on, drawn at random.")] = 20,
    architecture: Architecture = "mlp",
    widths: Annotated[
        str | None, typer.Option(help="Units of the hidden layers of an mlp; 512,512 if left out.")
    ] = None,
    multiplier: Annotated[
        int, typer.Option(min=1, metavar="<int>", help="Times the units of every layer of another architecture.")
    ] = 1,
    weights: Annotated[str | None, typer.Option(help="Start from these parameters: an .npz file.")] = None,
    positive: Annotated[
        str | None,
        typer.Option(help="Classes to tell from all others, such as 1,3,5; all from each other if left out."),
    ] = None,
    loss: Annotated[str, typer.Option(help="squares or cross-entropy.")] = "squares",
    training_steps: Annotated[
        int, typer.Option(min=1, help="Of training at most; it ends when all is learned.")
    ] = 20_000,
    linearised: Annotated[bool, typer.Option("--linearised", help="Train to first order.")] = False,
    layers: Annotated[int, typer.Option(min=1, help="Trainings, each without those that came back best.")] = 3,
    peel: Annotated[int | None, typer.Option(min=1, help="Images left out each time; a quarter if left out.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Of the search.")] = 6_000,
    at: Annotated[
        str | None, typer.Option(help="Whose gradients: final, initial or both; initial for --linearised, else both.")
    ] = None,
    batch: Batch = None,
    classes: Classes = None,
    bounds: Bounds = None,
    resize: Resize = None,
    channels: Channels = None,
    straighten: Straighten = False,
    labels: Labels = None,
    seed: Seed = 0,
) -> None:
    """Train a network on some records without privacy, rebuild them from it, and again without those that came back.

    What a network of yours would give away, before you train it. Nothing but the owner's page is written.
    """
    check_names("loss", [loss], LOSSES)
    check_names("architecture", [architecture], ARCHITECTURES)
    units = _units(architecture, widths, multiplier, weights)
    check_source(data, table=False)
    owners_folder(to)
    from dpdistill.attacks.attacked import Descent, attacked, outputs_of, stable_rate, targets_of
    from dpdistill.attacks.reconstruction import Reconstruction
    from dpdistill.attacks.repeated_reconstruction import check_layers
    from dpdistill.attacks.repeated_reconstruction import peel as peel_off
    from dpdistill.audits.chapters import onion_chapter, outlier_chapter, reconstruction_chapter

    read = records_of(data, None, None, classes, bounds, resize, channels, straighten, labels)
    names = read.schema.classes
    sides = None if positive is None else _sides(positive, names)
    X, y = _pictures(read, records, seed)
    y, k = (y, len(names)) if sides is None else (sides[y], 2)
    targets, shape = targets_of(y, k, loss), X.shape[1:]
    network, params = _begin(architecture, units, multiplier, weights, shape, targets.shape[1], seed)
    net, removed = attacked(network), peel or max(1, len(X) // 4)
    outputs = outputs_of(net, params, X[:1]).shape[1]
    if outputs != targets.shape[1]:
        raise DataError(f"Expected --weights of a network with outputs {targets.shape[1]}; got {outputs}.")
    _check_kernel(len(X), outputs)
    try:
        check_layers(len(X), layers, removed)
        attack = Reconstruction(2 * len(X), steps, at=at or ("initial" if linearised else "both"), batch=batch)
        with working("preparing"):
            how = Descent(training_steps, learning_rate=stable_rate(net, params, X), loss=loss)
        with Bar() as bar:
            asked = {"layers": layers, "removed": removed, "linearised": linearised, "seed": seed, "progress": bar}
            found = peel_off(X, targets, net, params, how, attack, **asked)
    except ValueError as error:
        raise DataError(str(error)) from None
    first, nothing = found[0], _nothing(X)
    made = [
        reconstruction_chapter(first.pairs, X, first.found, nothing),
        outlier_chapter(first.duals, first.pairs.distances, first.turned),
        *([onion_chapter(found, removed, nothing)] if layers > 1 else []),
    ]
    results = {name: value for _, each in made for name, value in each.items()}
    _said(results["rebuilt"], len(X), first.pairs.error, nothing)
    summary = f"{network.title} trained on {len(X)} records {'to first order' if linearised else 'in full'}, by {loss}."
    write_page(to, "training", "What training gives away", summary, [chapter for chapter, _ in made], results)


def _units(architecture: str, widths: str | None, multiplier: int, weights: str | None) -> tuple[int, ...]:
    """Units of the hidden layers of an mlp, where no file says them."""
    units = _whole("widths", widths or "512,512")
    if widths is not None and weights is not None:
        raise DataError("Expected --widths without --weights: the file says how many units there are.")
    if widths is not None and architecture != "mlp":
        raise DataError(f"Expected --widths with --architecture mlp; got {architecture}, which takes --multiplier.")
    if multiplier > 1 and (architecture == "mlp" or weights is not None):
        raise DataError("Expected --multiplier with another architecture than mlp, and without --weights.")
    if weights is not None:
        require_file(Path(weights))
    return units


def _begin(
    architecture: str,
    units: tuple[int, ...],
    multiplier: int,
    weights: str | None,
    shape: tuple[int, ...],
    outputs: int,
    seed: int,
) -> tuple[Any, Any]:
    """The network and the parameters that training starts from."""
    from dpdistill.attacks.attacked import start
    from dpdistill.networks.network import MLP, times
    from dpdistill.networks.parameters import read_parameters, sized

    network = _network(architecture)
    if weights is not None:
        network = sized(network, weights)
        return network, read_parameters(weights, network, shape)
    if architecture == "mlp":
        return MLP(widths=units), start(seed, (math.prod(shape), *units, outputs))
    network = times(network, multiplier)
    return network, network.init(shape, outputs)


def _check_kernel(records: int, outputs: int) -> None:
    if records * outputs > MOST:
        raise DataError(f"Expected at most --records {MOST // outputs} for {outputs} outputs; got {records}.")


def _network(architecture: str) -> Any:
    from dpdistill.evaluation import ARCHITECTURES

    return ARCHITECTURES[architecture]


def _pictures(records: Any, number: int | None, seed: int) -> tuple[Any, Any]:
    """Images in [0, 1] and their classes: all, or so many of those with a known class, drawn at random."""
    import numpy as np

    rows = np.arange(len(records)) if number is None else np.flatnonzero(np.asarray(records.y) >= 0)
    if number is not None:
        if number > len(rows):
            raise DataError(f"Expected fewer --records than {number}: there are not so many with a known class.")
        rows = np.random.default_rng(seed).choice(rows, number, replace=False)
    X, y = records.take(rows)
    if X.ndim != 4 or X.shape[3] not in (1, 3):
        raise DataError(f"Expected grey or colour images; got records of shape {X.shape[1:]}.")
    return (X + 1.0) / 2.0, y


def _nothing(X: Any) -> float:
    """Mean squared distance of images to their mean, which an attacker may know; of one image, to grey."""
    import numpy as np

    known = X.mean(0) if len(np.unique(X.reshape(len(X), -1), axis=0)) > 1 else 0.5
    return float(np.square(X - known).sum((1, 2, 3)).mean())


def _said(near: int, images: int, error: float, nothing: float) -> None:
    say(f"{near} of {images} training images were rebuilt to less than half the distance from their mean; "
        f"mean squared distance {error:.2f} (the mean image: {nothing:.2f}).")  # fmt: skip


def _sides(positive: str, names: tuple[str, ...]) -> Any:
    """1 for the classes that are named, 0 for the others."""
    import numpy as np

    wanted = [name.strip() for name in positive.split(",")]
    if unknown := [name for name in wanted if name not in names]:
        raise DataError(f"Unknown class {unknown[0]!r} in --positive: choose among {', '.join(names)}.")
    if len(set(wanted)) == len(names):
        raise DataError("Expected a class in --positive to be left out: there is nothing to tell them from.")
    return np.isin(names, wanted).astype(np.int64)


def _whole(name: str, text: str) -> tuple[int, ...]:
    try:
        units = tuple(int(part) for part in text.split(","))
    except ValueError:
        units = (0,)
    if min(units) < 1:
        raise DataError(f"Expected --{name} as whole numbers above zero, 512,512; got {text!r}.")
    return units


def _two(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise DataError(f"Expected --bounds as two numbers, 0,1; got {text!r}.") from None
    if not low < high:
        raise DataError(f"Expected --bounds as two numbers, the lower first; got {text!r}.")
    return low, high
