"""What only whoever publishes a set can say of it: no certificate implies it, and nothing here guesses it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from dpdistill.schema import DataError

CURATOR_TYPES = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
TO_FILL_IN = "TO BE FILLED IN"


def _stated(help: str, choices: tuple[str, ...] = ()) -> str:
    return field(default="", metadata={"help": help, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Facts that a publisher states; what is empty is left out of a document, or marked TO BE FILLED IN.

    Raises:
        DataError: a curator_type or sector that the registry does not have.
    """

    name: str = _stated("of the data product")
    curator: str = _stated("the organisation that publishes it")
    curator_type: str = _stated("of that organisation", CURATOR_TYPES)
    license: str = _stated("of the synthetic set: an identifier such as cc-by-4.0")
    url: str = _stated("where it is published")
    intended_use: str = _stated("what it is meant for")
    region: str = _stated("that the records describe")
    sector: str = _stated("that the records describe", SECTORS)
    author: str = _stated("who fills in the registry's form")

    def __post_init__(self) -> None:
        for each in fields(self):
            choices, value = each.metadata["choices"], getattr(self, each.name)
            if value and choices and value not in choices:
                raise DataError(f"Expected {each.name} among {', '.join(choices)}; got {value!r}.")

    @classmethod
    def parse(cls, settings: Iterable[str]) -> Publisher:
        """A publisher from texts "field=value".

        Raises:
            DataError: another form, or an unknown field.
        """
        known, stated = [each.name for each in fields(cls)], {}
        for text in settings:
            name, sign, value = text.partition("=")
            if not sign or name not in known or not value.strip():
                raise DataError(f"Expected field=value with a field among {', '.join(known)}; got {text!r}.")
            stated[name] = value.strip()
        return cls(**stated)
