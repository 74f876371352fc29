"""Names that people write, checked without the code that they name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpdistill.schema import DataError

PICTURES = {
    "drawn": "drawn by a program: no picture shows anything of a record",
    "generated": "made by the folder's generator: post-processing of the release",
    "mixed": "drawn by a program and mixed with the folder's synthetic images: post-processing of the release",
}
"""Kinds of pictures that a teacher may label, and what a person reads about each; KIND+KIND are equal parts of both."""


def kinds_of(pictures: Any) -> tuple[str, ...]:
    """Returns the kinds that "drawn+generated" names; none where it names something else."""
    kinds = tuple(pictures.split("+")) if isinstance(pictures, str) else ("",)
    return kinds if set(kinds) <= set(PICTURES) and len(set(kinds)) == len(kinds) else ()


def check_names(what: str, names: Iterable[str], among: Iterable[str]) -> None:
    """Refuses names that are not among the known ones.

    Raises:
        DataError: with all that are.
    """
    if unknown := sorted({*names} - {*among}):
        raise DataError(f"Unknown {what} {', '.join(map(repr, unknown))}: choose among {', '.join(among)}.")
