"""Chooses marginals by post-processing: those whose released coarse tables differ most from a model's rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from dpdistill.methods.graphical_model import Clique, megabytes
from dpdistill.methods.marginal_tables import CELLS
from dpdistill.schema.counts import Counts

COST = 0.25
"""Part of the expected noise of a marginal that counts as its error: a model averages the noise of its cells."""
MOST_TRIED = 500
"""Most candidates whose model size is computed."""


def counts_of(codes: np.ndarray, attributes: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Returns the counts of a table of rows, of the shape of the sizes of these attributes.

    Args:
        codes: value of each attribute, (n, attributes).
        attributes: attributes of the table.
        sizes: number of values of each attribute.
    """
    shape = [sizes[a] for a in attributes]
    place = np.ravel_multi_index(tuple(codes[:, a] for a in attributes), shape)
    return np.bincount(place, minlength=math.prod(shape)).reshape(shape)


def excess(difference: np.ndarray, stddev: float) -> float:
    """Returns the error beyond noise: sqrt(m max(0, sum of squares - m stddev^2)), a bound of the sum over m cells."""
    m = difference.size
    return math.sqrt(m * max(0.0, float(np.square(difference).sum()) - m * stddev**2))


def errors_of(coarse: Sequence[Counts], codes: np.ndarray, sizes: Sequence[int], total: float) -> dict[Clique, float]:
    """Returns the error beyond noise of a model's rows for each candidate: the parts of coarse tables.

    Args:
        coarse: released coarse tables.
        codes: coarse groups of the model's rows, (n, attributes).
        sizes: number of coarse groups of each attribute.
        total: released number of rows.
    """
    found: dict[Clique, list[tuple[np.ndarray, float]]] = {}
    for one in coarse:
        difference = one.values - counts_of(codes, one.attributes, sizes) * (total / len(codes))
        for kept in itertools.chain(*(itertools.combinations(range(difference.ndim), k) for k in (2, 3))):
            summed = tuple(k for k in range(difference.ndim) if k not in kept)
            stddev = one.stddev * math.sqrt(math.prod(difference.shape[k] for k in summed))
            clique = tuple(one.attributes[k] for k in kept)
            found.setdefault(clique, []).append((difference.sum(summed), stddev))
    return {clique: _error(parts) for clique, parts in found.items()}


def _error(parts: list[tuple[np.ndarray, float]]) -> float:
    """Returns the error of the mean of several differences of one candidate."""
    mean = np.mean([difference for difference, _ in parts], 0)
    return excess(mean, math.sqrt(sum(stddev**2 for _, stddev in parts)) / len(parts))


def chosen(
    errors: dict[Clique, float],
    measured: Sequence[Clique],
    sizes: Sequence[int],
    stddev: float,
    most: int,
    model_size: float,
) -> list[Clique]:
    """Returns the marginals of the next round: those with the largest error beyond that of their measurement.

        error - COST sqrt(2 / pi) stddev sqrt(most) cells

    The junction tree of all measured marginals has at most `model_size` megabytes, and a round at most CELLS cells.
    Without a candidate, columns are measured again.

    Args:
        errors: error beyond noise of each candidate.
        measured: marginals of earlier rounds.
        sizes: number of values of each attribute.
        stddev: standard deviation of the noise of a round of one table.
        most: most marginals.
        model_size: in megabytes.
    """
    noise = COST * math.sqrt(2.0 / math.pi * most) * stddev
    cells = {clique: math.prod(sizes[a] for a in clique) for clique in errors}
    scores = {clique: error - noise * cells[clique] for clique, error in errors.items()}
    found: list[Clique] = []
    for clique in sorted(scores, key=lambda clique: (-scores[clique], clique))[:MOST_TRIED]:
        if len(found) == most or (scores[clique] <= 0.0 and found):
            break
        known = clique in measured or any({*clique} <= {*other} for other in found)
        if known or sum(cells[c] for c in found) + cells[clique] > CELLS:
            continue
        if megabytes(sizes, [*measured, *found, clique]) <= model_size:
            found.append(clique)
    if found:
        return found
    singles, room = sorted(range(len(sizes)), key=lambda a: (-sizes[a], a))[:most], CELLS
    return sorted((a,) for i, a in enumerate(singles) if sum(sizes[b] for b in singles[: i + 1]) <= room)
