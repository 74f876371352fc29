"""Names that users write, checked without importing the code that they name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dpdistill.schema import DataError

PICTURES = {
    "drawn": "procedurally generated: the images contain no information about records",
    "generated": "made by the folder's generator: post-processing of the release",
    "mixed": "procedurally generated images mixed with the folder's synthetic images: post-processing of the release",
}
"""Kinds of images that a teacher may label, each with a description; KIND+KIND stands for equal parts of both."""


def kinds_of(pictures: Any) -> tuple[str, ...]:
    """Returns the kinds in a name such as "drawn+generated"; none for an unknown name."""
    kinds = tuple(pictures.split("+")) if isinstance(pictures, str) else ("",)
    return kinds if set(kinds) <= set(PICTURES) and len(set(kinds)) == len(kinds) else ()


def check_names(what: str, names: Iterable[str], among: Iterable[str]) -> None:
    """Refuses unknown names.

    Raises:
        DataError: an unknown name; the message lists the known ones.
    """
    if unknown := sorted({*names} - {*among}):
        raise DataError(f"Unknown {what} {', '.join(map(repr, unknown))}: choose among {', '.join(among)}.")
