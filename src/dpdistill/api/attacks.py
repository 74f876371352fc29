"""Reconstruction attacks on networks, for the owner of the training images alone."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpdistill.api.attack_options import ModelSearch, TrainingSearch, VictimTraining
from dpdistill.api.listener import SILENT, Listener
from dpdistill.api.options import Reading
from dpdistill.api.reading import check_source, read_records
from dpdistill.folder.save import audit_folder
from dpdistill.schema import DataError
from dpdistill.storage.files import require_file

if TYPE_CHECKING:
    import numpy as np

    from dpdistill.audits.results import ModelAttack, TrainingAttack
    from dpdistill.networks.network import Network
    from dpdistill.storage.records import Records

Place = str | os.PathLike


def attack_model(
    before: Place,
    after: Place,
    members: Any,
    *,
    search: ModelSearch = ModelSearch(),
    reading: Reading = Reading(),
    seed: int | None = None,
    out: Place | None = None,
    listener: Listener = SILENT,
) -> ModelAttack:
    """Reconstructs training images from a network's parameters before and after training.

    The attack does not read the training images; its reconstructions are compared with them afterwards.

    Args:
        before: .npz file of the parameters before training.
        after: .npz file of the parameters after training.
        members: the training images: `Records`, a path, or an object that holds them.
        search: options of the search for images.
        reading: options of reading the training images.
        seed: seed of the search; None for 0.
        out: writes the owner's page to OUT.audit; None leaves writing to `save` of the result.
        listener: receives notes, warnings and progress.

    Returns:
        Images and reconstructions, with their distances.

    Raises:
        DataError, ValueError: images or parameters that cannot be used.

    Guarantee: none: this reads the training images.
    Source: Loo, Hasani, Lechner & Rus, 2024 (Understanding reconstruction attacks with the neural tangent kernel).

    Example:
        >>> attack_model("start.npz", "trained.npz", "train/", search=ModelSearch(steps=400))  # doctest: +SKIP
    """
    _check_images(members, reading)
    if out is not None:
        audit_folder(out)
    files = Path(before), Path(after)
    for path in files:
        require_file(path)
    records = read_records(members, reading, listener)
    from dpdistill.attacks.model_attack import reconstruct_members
    from dpdistill.attacks.reconstruction import Reconstruction
    from dpdistill.audits.results import ModelAttack
    from dpdistill.networks.parameters import read_parameters, sized

    X, _ = _images(records)
    network = sized(_network(search.architecture), files[0])
    start, end = (read_parameters(path, network, X.shape[1:]) for path in files)
    attack = Reconstruction(
        search.images or 2 * len(X), search.steps, at=search.at, batch=search.batch, bounds=search.input_bounds
    )
    if attack.images < len(X):
        raise DataError(f"Expected at least as many --images as members, {len(X)}; got {attack.images}.")
    with listener.progress() as report:
        found = reconstruct_members(network, start, end, X, attack, seed=seed or 0, progress=report)
    result = ModelAttack.of(found, attack)
    if out is not None:
        result.save(out)
    return result


def attack_training(
    data: Any,
    *,
    training: VictimTraining = VictimTraining(),
    search: TrainingSearch = TrainingSearch(),
    reading: Reading = Reading(),
    seed: int | None = None,
    out: Place | None = None,
    listener: Listener = SILENT,
) -> TrainingAttack:
    """Trains a network without privacy, reconstructs its images, and repeats without the best reconstructed ones.

    The attack shows what a network trained on such images would leak. The network itself is not returned.

    Args:
        data: images: `Records`, a path, or an object that holds them.
        training: number of images, and options of the network and its training.
        search: options of the search for images.
        reading: options of reading the images.
        seed: seed of the draw, the network and the search; None for 0.
        out: writes the owner's page to OUT.audit; None leaves writing to `save` of the result.
        listener: receives notes, warnings and progress.

    Returns:
        The images, and each training with its reconstructions.

    Raises:
        DataError, ValueError: images, weights or numbers that cannot be used.

    Guarantee: none: this reads the images.
    Source: Loo, Hasani, Lechner & Rus, 2024 (Understanding reconstruction attacks with the neural tangent kernel);
    Carlini et al., 2022 (The privacy onion effect).

    Example:
        >>> attack_training("digits:train", training=VictimTraining(positive="1,3,5,7,9"))  # doctest: +SKIP
    """
    _check_images(data, reading)
    if out is not None:
        audit_folder(out)
    records = read_records(data, reading, listener)
    from dpdistill.attacks.attacked_networks import Descent, attacked, outputs_of, stable_rate, targets_of
    from dpdistill.attacks.reconstruction import Reconstruction
    from dpdistill.attacks.repeated_reconstruction import check_layers, peel
    from dpdistill.audits.results import TrainingAttack

    names, seed = records.schema.classes, seed or 0
    sides = None if training.positive is None else _sides(training.positive, names)
    X, y = _images(records, training.records, seed)
    y, k = (y, len(names)) if sides is None else (sides[y], 2)
    targets = targets_of(y, k, training.loss)
    network, params = _begin(training, X.shape[1:], targets.shape[1], seed)
    net = attacked(network)
    _check_outputs(outputs_of(net, params, X[:1]).shape[1], targets.shape[1], len(X))
    at = search.at or ("initial" if training.linearised else "both")
    try:
        check_layers(len(X), training.layers, training.removed)
        attack = Reconstruction(2 * len(X), search.steps, at=at, batch=search.batch)
        with listener.working("preparing"):
            rate = stable_rate(net, params, X)
        descent = Descent(training.training_steps, learning_rate=rate, loss=training.loss)
        with listener.progress() as report:
            layers = peel(
                X, targets, net, params, descent, attack, layers=training.layers, removed=training.removed,
                linearised=training.linearised, seed=seed, progress=report,
            )  # fmt: skip
    except ValueError as error:
        raise DataError(str(error)) from None
    result = TrainingAttack(
        network.title, training.loss, training.linearised, X, tuple(layers), training.removed
    )  # fmt: skip
    if out is not None:
        result.save(out)
    return result


def _check_images(data: Any, reading: Reading) -> None:
    """Refuses rows of a table, lenient reading, and a missing source."""
    if reading.table:
        raise DataError("An attack on a network takes images: leave out --schema and --sql.")
    if reading.lenient:
        raise DataError("An attack on a network takes only readable images: leave out --lenient.")
    if isinstance(data, str | os.PathLike):
        check_source(data, table=False)


def _images(records: Records, number: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Returns images in [0, 1] and their classes: all, or a number of those with a known class, drawn at random."""
    import numpy as np

    rows = np.arange(len(records)) if number is None else np.flatnonzero(np.asarray(records.y) >= 0)
    if number is not None:
        if number > len(rows):
            raise DataError(f"Expected fewer --records than {number}: fewer records have a known class.")
        rows = np.random.default_rng(seed).choice(rows, number, replace=False)
    X, y = records.take(rows)
    if X.ndim != 4 or X.shape[3] not in (1, 3):
        raise DataError(f"Expected grey or colour images; got records of shape {X.shape[1:]}.")
    return (X + 1.0) / 2.0, y


def _begin(training: VictimTraining, shape: tuple[int, ...], outputs: int, seed: int) -> tuple[Network, Any]:
    """Returns the network and its initial parameters."""
    from dpdistill.attacks.attacked_networks import start
    from dpdistill.networks.network import MLP, times
    from dpdistill.networks.parameters import read_parameters, sized

    network = _network(training.architecture)
    if training.weights is not None:
        weights = Path(training.weights)
        network = sized(network, weights)
        return network, read_parameters(weights, network, shape)
    if training.architecture == "mlp":
        units = training.units
        return MLP(widths=units), start(seed, (math.prod(shape), *units, outputs))
    network = times(network, training.multiplier)
    return network, network.init(shape, outputs)


def _check_outputs(outputs: int, expected: int, records: int) -> None:
    from dpdistill.attacks.model_attack import LARGEST_KERNEL

    if outputs != expected:
        raise DataError(f"Expected --weights of a network with outputs {expected}; got {outputs}.")
    if records * outputs > LARGEST_KERNEL:
        raise DataError(f"Expected at most --records {LARGEST_KERNEL // outputs} for {outputs} outputs; got {records}.")


def _network(architecture: str) -> Network:
    from dpdistill.evaluation import ARCHITECTURES

    return ARCHITECTURES[architecture]


def _sides(positive: Any, names: tuple[str, ...]) -> np.ndarray:
    """Returns 1 for each positive class, 0 for the others."""
    import numpy as np

    parts = positive.split(",") if isinstance(positive, str) else map(str, positive)
    wanted = [name.strip() for name in parts]
    if unknown := [name for name in wanted if name not in names]:
        raise DataError(f"Unknown class {unknown[0]!r} in --positive: choose among {', '.join(names)}.")
    if len(set(wanted)) == len(names):
        raise DataError("Expected --positive to leave out at least one class, as the negative side.")
    return np.isin(names, wanted).astype(np.int64)
