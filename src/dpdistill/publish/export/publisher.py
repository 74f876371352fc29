"""Facts about a set that only its publisher can state: no certificate contains them and no code guesses them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import date as Date
from pathlib import Path
from typing import Any

from dpdistill.folder.layout import CARD, CROISSANT, DEPLOYMENT, MAX_JSON
from dpdistill.schema import DataError
from dpdistill.sources.yaml_text import load_yaml
from dpdistill.storage.files import reading, require_file, show

CURATOR_TYPES = ("Government", "Industry", "Nonprofit")
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
_CREATIVE_COMMONS, _OPEN_DATA = "https://creativecommons.org", "https://opendatacommons.org/licenses"
LICENSES = {
    "cc0-1.0": f"{_CREATIVE_COMMONS}/publicdomain/zero/1.0/",
    "cc-by-4.0": f"{_CREATIVE_COMMONS}/licenses/by/4.0/",
    "cc-by-sa-4.0": f"{_CREATIVE_COMMONS}/licenses/by-sa/4.0/",
    "cc-by-nc-4.0": f"{_CREATIVE_COMMONS}/licenses/by-nc/4.0/",
    "cc-by-nc-sa-4.0": f"{_CREATIVE_COMMONS}/licenses/by-nc-sa/4.0/",
    "odbl": f"{_OPEN_DATA}/odbl/1-0/",
    "pddl": f"{_OPEN_DATA}/pddl/1-0/",
    "odc-by": f"{_OPEN_DATA}/by/1-0/",
    "mit": "https://opensource.org/license/mit",
    "apache-2.0": "https://www.apache.org/licenses/LICENSE-2.0",
}
"""Licence identifiers of the Hub, each with the URL by which Croissant names the licence."""
TO_FILL_IN = "TO BE FILLED IN"


def _stated(help: str, *documents: str, choices: tuple[str, ...] = ()) -> str:
    return field(default="", metadata={"help": help, "documents": documents, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Facts that a publisher states; empty fields are omitted from a document or marked TO BE FILLED IN.

    Raises:
        DataError: a curator_type or sector that the registry does not have, a license that is neither an identifier of
            LICENSES nor a URL, or an invalid url or date.
    """

    name: str = _stated("of the data product", CROISSANT, CARD, DEPLOYMENT)
    curator: str = _stated("the organisation that publishes it", CROISSANT, CARD, DEPLOYMENT)
    curator_type: str = _stated("of that organisation", DEPLOYMENT, choices=CURATOR_TYPES)
    license: str = _stated(
        "of the synthetic set: an identifier such as cc-by-4.0, or a URL", CROISSANT, CARD, DEPLOYMENT
    )
    url: str = _stated("where it is published", CROISSANT, CARD, DEPLOYMENT)
    date: str = _stated("of its publication", CROISSANT, DEPLOYMENT)
    version: str = _stated("of the set: 1.0.0", CROISSANT)
    cite: str = _stated("how it is to be cited", CROISSANT)
    intended_use: str = _stated("what it is meant for", CROISSANT, CARD, DEPLOYMENT)
    source: str = _stated("what the records were", CROISSANT)
    period: str = _stated("when they were collected: 2020-01-01/2022-12-31", CROISSANT)
    biases: str = _stated("that the records have", CROISSANT)
    sensitive: str = _stated("columns that are sensitive", CROISSANT)
    social_impact: str = _stated("of the set's use", CROISSANT)
    region: str = _stated("that the records describe", DEPLOYMENT)
    sector: str = _stated("that the records describe", DEPLOYMENT, choices=SECTORS)
    justification: str = _stated("of epsilon, delta and the unit", DEPLOYMENT)
    author: str = _stated("who fills in the registry's form", DEPLOYMENT)

    def __post_init__(self) -> None:
        for each in fields(self):
            choices, value = each.metadata["choices"], getattr(self, each.name)
            if value and choices and value not in choices:
                raise DataError(f"Expected {each.name} among {', '.join(choices)}; got {value!r}.")
        if self.license and self.license not in LICENSES and not re.match(r"https://\w", self.license):
            raise DataError(
                f"Expected license as a URL (https://...) or among {', '.join(LICENSES)}; got {self.license!r}."
            )
        if self.url and not re.match(r"https?://\w", self.url):
            raise DataError(f"Expected url as https://...; got {self.url!r}.")
        if self.date:
            try:
                as_stated = Date.fromisoformat(self.date).isoformat() == self.date
            except ValueError:
                as_stated = False
            if not as_stated:
                raise DataError(f"Expected date as YYYY-MM-DD; got {self.date!r}.")

    @property
    def license_url(self) -> str:
        """URL of the licence; empty without one."""
        return LICENSES.get(self.license, self.license)

    def open_in(self, document: str) -> list[str]:
        """Returns the empty fields that a document would state."""
        return [
            each.name
            for each in fields(self)
            if document in each.metadata["documents"] and not getattr(self, each.name)
        ]

    @classmethod
    def parse(cls, settings: Iterable[str], file: Path | None = None) -> Publisher:
        """Returns a publisher from texts "field=value", which override the fields of a YAML file.

        Raises:
            DataError: another form, an unknown field, or a file that cannot be read.
        """
        known, stated = [each.name for each in fields(cls)], {} if file is None else _read(file)
        if unknown := sorted(set(stated) - set(known)):
            raise DataError(f"Expected fields among {', '.join(known)} in {show(file or Path())}; got {unknown[0]!r}.")
        for text in settings:
            name, sign, value = text.partition("=")
            if not sign or name not in known or not value.strip():
                raise DataError(f"Expected field=value with a field among {', '.join(known)}; got {text!r}.")
            stated[name] = value.strip()
        return cls(**stated)


def _read(file: Path) -> dict[str, str]:
    """Reads the fields of a YAML file; lists become one text with commas."""
    if require_file(file) > MAX_JSON:
        raise DataError(f"{show(file)} is too large for a publisher's facts.")
    with reading(file):
        content = file.read_bytes()
    try:
        stated: Any = load_yaml(content)
    except DataError as error:
        raise DataError(f"{show(file)}: {error}") from None
    if not isinstance(stated, dict):
        raise DataError(f"Expected lines field: value in {show(file)}.")
    texts: dict[str, str] = {}
    for key, value in stated.items():
        several = value if isinstance(value, list) else [value]
        if not several or not all(isinstance(each, str) and each.strip() for each in several):
            raise DataError(f"Expected a text, or a list of texts, as {key!r} in {show(file)}.")
        texts[str(key)] = ", ".join(each.strip() for each in several)
    return texts
