"""Every public fact about a data set: which sources take it from the records, and which option states it instead."""

from __future__ import annotations

from typing import NamedTuple

CLASSES, IMAGE_SIZE, CHANNELS = "classes", "image size", "channels"


class Fact(NamedTuple):
    """A public fact.

    Args:
        name: as certificates have it.
        stated_by: the option that states it.
        otherwise: where it comes from if the option is left out.
        inferred_from: formats of `dpdistill.sources.load` whose records it is taken from if the option is left out.
        how: from what of these records.
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
        "the names of the folders that the pictures lie in",
    ),
    Fact(
        IMAGE_SIZE,
        "--resize",
        "the header of the file (IDX, .npz, SVHN) or the format (CIFAR)",
        ("folders", "archive", "list", "parquet", "object"),
        "the first picture",
    ),
    Fact(CHANNELS, "--channels", "the header or the format; 3 for pictures", ("object",), "the first item"),
    Fact("bounds", "--bounds", "0 to 255 for values of 8 bits, the file (.npz), or else refused"),
    Fact("label", "--labels", "the names and types of the columns in the file (Parquet, data sets)"),
    Fact("person", "--unit-column", "none: each record stands for itself"),
    Fact("columns of a table", "schema.yaml", "refused; a draft marks what it took from the records"),
    Fact("number of columns", "schema.yaml", "refused"),
    Fact("label column and classes of a table", "schema.yaml", "refused"),
    Fact("separator, decimal and missing values", "schema.yaml", "as the documentation says"),
)
"""All public facts. What a format's header states is stated by the file: no record changes it."""
INFERRED = {fact.name: fact for fact in FACTS if fact.inferred_from}
"""Those that some source takes from the records."""


def inferred_sentence(name: str, value: str) -> str:
    """A sentence for the owner about a fact that was taken from the records.

    Args:
        name: of the fact.
        value: the fact, in words.
    """
    fact = INFERRED[name]
    return (
        f"Taken from the records and treated as public: {name} {value}, from {fact.how}. Pass {fact.stated_by} to be "
        "independent of them."
    )
