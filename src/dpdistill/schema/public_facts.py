"""Public facts about a data set: the sources that take each from the records, and the option that states it instead."""

from __future__ import annotations

from typing import NamedTuple

CLASSES, IMAGE_SIZE, CHANNELS = "classes", "image size", "channels"


class Fact(NamedTuple):
    """A public fact.

    Args:
        name: name in certificates.
        stated_by: the option that states the fact.
        otherwise: origin of the fact without the option.
        inferred_from: formats of `dpdistill.sources.load` whose records give the fact without the option.
        how: the part of these records that gives the fact.
    """

    name: str
    stated_by: str
    otherwise: str
    inferred_from: tuple[str, ...] = ()
    how: str = ""


FACTS = (
    Fact(
        CLASSES,
        "--classes",
        "the format (IDX, CIFAR, SVHN), a list of names in the file (.npz, Parquet, data sets), or else refused",
        ("folders", "archive"),
        "the names of the folders of the images",
    ),
    Fact(
        IMAGE_SIZE,
        "--resize",
        "the header of the file (IDX, .npz, SVHN) or the format (CIFAR)",
        ("folders", "archive", "list", "parquet", "object", "camelyon", "chexpert"),
        "the first image",
    ),
    Fact(CHANNELS, "--channels", "the header or the format; 3 for image files", ("object",), "the first item"),
    Fact("bounds", "--bounds", "0 to 255 for 8-bit values, the file (.npz), or else refused"),
    Fact("label", "--labels", "the names and types of the columns in the file (Parquet, data sets)"),
    Fact("person", "--unit-column", "none: each record is a unit of its own"),
    Fact("columns of a table", "schema.yaml", "refused; a draft marks values derived from the records"),
    Fact("number of columns", "schema.yaml", "refused"),
    Fact("label column and classes of a table", "schema.yaml", "refused"),
    Fact("separator, decimal and missing values", "schema.yaml", "the defaults in the documentation"),
)
"""All public facts. A format's header belongs to the file: no record changes it."""
INFERRED = {fact.name: fact for fact in FACTS if fact.inferred_from}
"""Facts that some source takes from the records."""


def inferred_sentence(name: str, value: str) -> str:
    """Returns a sentence for the owner about a fact that was taken from the records.

    Args:
        name: name of the fact.
        value: the fact, in words.
    """
    fact = INFERRED[name]
    return (
        f"Taken from the records and treated as public: {name} {value}, from {fact.how}. Pass {fact.stated_by} to be "
        "independent of them."
    )
