"""Checks that held-out records fit a synthetic set."""

from __future__ import annotations

from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records


def check_test_set(schema: Schema, test: Records) -> None:
    """Refuses test records of another shape, other classes or another straightening than the synthetic set's."""
    if test.schema.shape != schema.shape:
        raise DataError(f"Expected test records of shape {schema.shape}; got {test.schema.shape}.")
    if test.schema.classes != schema.classes:
        raise DataError(f"Expected the test classes {_some(schema.classes)}; got {_some(test.schema.classes)}.")
    if isinstance(test.schema, Schema) and test.schema.straightened != schema.straightened:
        which = "straightened" if schema.straightened else "not straightened"
        raise DataError(f"Expected test images that are {which}, as the set's: load(..., like=schema) reads them so.")
    if not (test.y >= 0).any():
        raise DataError("Expected at least one test record with a known label; got none.")


def _some(classes: tuple[str, ...]) -> str:
    return ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
