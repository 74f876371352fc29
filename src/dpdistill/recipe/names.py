"""Names that people write, checked without the code that they name."""

from __future__ import annotations

from collections.abc import Iterable

from dpdistill.schema import DataError

TEACHERS = ("classifier", "krr")
"""Of networks: the released classifier, or kernel ridge regression on the set."""
PICTURES = {
    "drawn": "drawn by a program: no picture shows anything of a record",
    "generated": "made by the folder's generator: post-processing of the release",
    "mixed": "drawn by a program and mixed with the folder's synthetic images: post-processing of the release",
}
"""Kinds of pictures that a teacher may label, and what a person reads about each; KIND+KIND are equal parts of both."""


def kinds_of(pictures: str) -> tuple[str, ...]:
    """The kinds that "drawn+generated" names; none of them where it names something else."""
    kinds = tuple(pictures.split("+"))
    return kinds if set(kinds) <= set(PICTURES) and len(set(kinds)) == len(kinds) else ()


def check_names(what: str, names: Iterable[str], among: Iterable[str]) -> None:
    """Refuse names that are not among the known ones.

    Raises:
        DataError: with all that are.
    """
    if unknown := sorted({*names} - {*among}):
        raise DataError(f"Unknown {what} {', '.join(map(repr, unknown))}: choose among {', '.join(among)}.")
