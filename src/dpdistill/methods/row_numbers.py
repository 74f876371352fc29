"""Numbers of a table's rows by a released regression: predictions, and numbers drawn around them."""

from __future__ import annotations

import numpy as np

from dpdistill.features.table_rows import RowIndicators
from dpdistill.methods.generator_arrays import pieces_of
from dpdistill.methods.row_labels import encoded, labelled
from dpdistill.schema import AnySchema, TableSchema
from dpdistill.schema.points import knots_of


def input_pieces(schema: TableSchema) -> tuple[tuple[str, int, int], ...]:
    """Returns the pieces of whole encoded rows from which the number is predicted."""
    found: list[tuple[str, int, int]] = []
    for kind, start, width in pieces_of(schema):
        if kind != "numbers" or not start <= schema.target_at < start + width:
            found.append((kind, start, width))
            continue
        before, after = schema.target_at - start, start + width - schema.target_at - 1
        found += [("numbers", start, before)] * (before > 0) + [("numbers", schema.target_at + 1, after)] * (after > 0)
    return tuple(found)


def predicted(points: np.ndarray, schema: TableSchema, X: np.ndarray) -> np.ndarray:
    """Returns mean and standard deviation (n, 2), float64, of the scaled number of encoded rows (n, d).

    Raises:
        DataError: points that do not belong to the schema.
    """
    indicators = RowIndicators(input_pieces(schema), knots_of(len(points), schema.inputs))
    found = encoded(indicators, X).astype(np.float64) @ points
    found[:, 0] = np.clip(found[:, 0], -1.0, 1.0)
    return found


def completed(
    points: np.ndarray | None, schema: AnySchema, X: np.ndarray, y: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns generated records with the labels, or the numbers, that a released classifier or regression draws.

    Args:
        points: released classifier (D, classes) or regression (D, 2) of a table, or None.
        schema: public facts.
        X: encoded records, (n, ...).
        y: classes of the generator, (n,); those of images stay.
        seed: public seed of the labels.
    """
    if points is not None and isinstance(schema, TableSchema) and schema.target is not None:
        return drawn_numbers(points, schema, X, seed)
    return X, labelled(points, schema, X, y, seed)


def drawn_numbers(points: np.ndarray, schema: TableSchema, X: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns encoded rows whose number is drawn from N(mean, standard deviation^2), and the classes of the numbers.

    The rows of n begin those of more rows.

    Args:
        points: released regression, (D, 2).
        schema: public facts.
        X: encoded rows, (n, d).
        seed: public seed of the numbers.
    """
    mean, spread = predicted(points, schema, X).T
    X = X.copy()
    X[:, schema.target_at] = np.clip(mean + spread * np.random.default_rng((seed, 1)).standard_normal(len(X)), -1, 1)
    raw = schema.from_unit(X)
    return schema.to_unit(raw), schema.bins(raw).astype(np.int32)
