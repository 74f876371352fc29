"""Writes README.md as a dataset card of the Hugging Face Hub: YAML front matter, then text.

Source: Hugging Face, dataset card specification (huggingface_hub, datasetcard.md).
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from markupsafe import Markup

from dpdistill.folder.layout import CSV, IMAGES, SYNTHETIC, TRAINING
from dpdistill.publish.export import sentences
from dpdistill.publish.export.publisher import LICENSES, TO_FILL_IN, Publisher
from dpdistill.publish.report import recipe
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import Guarantee, mapping, read_guarantee
from dpdistill.publish.report.words import FILTERS, bound, number, plain
from dpdistill.publish.templating import environment
from dpdistill.schema import AnySchema, TableSchema
from dpdistill.sources.yaml_text import dump_yaml

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~$&])")


def markdown(value: object) -> Markup:
    """Returns a value as one line of text, escaped for Markdown."""
    return Markup(_MARKUP.sub(r"\\\1", " ".join(plain(value).split())))


WARNING = "> **No privacy guarantee.**"


def literal(text: str) -> Markup:
    """Returns a text as a Python literal that cannot end a block of code."""
    return Markup(repr(text).replace("`", r"\x60"))


_BAR = re.compile(r"(?<!\\)\|")
_PAGES = environment("dpdistill.publish.export")
_PAGES.filters |= {function.__name__: function for function in (*FILTERS, markdown, literal, sentences.holds)}


class Elsewhere(NamedTuple):
    """Describes a folder that was exported from the shared folder.

    Args:
        front: the parts of the front matter that say where the records lie.
        values: file names, numbers of records and their encoding, in Markdown.
    """

    front: dict[str, Any]
    values: str


def describe(folder: Folder, publisher: Publisher, elsewhere: Elsewhere | None = None) -> str:
    """Returns the text of the card.

    Args:
        folder: contents of the shared folder.
        publisher: facts that the publisher states.
        elsewhere: contents of the card's folder; by default the shared folder itself.
    """
    g = read_guarantee(folder.certificate)
    folder = folder if elsewhere is None else replace(folder, scores=None)  # these files stay in the shared folder
    records = _in_folder(folder) if elsewhere is None else elsewhere
    front = {**_front(folder, publisher), **records.front}
    text = _PAGES.get_template("card.md").render(
        title=front["pretty_name"],
        publisher=publisher,
        open=TO_FILL_IN,
        g=g,
        stated=_stated(g),
        contents=sentences.contents(folder),
        origin=sentences.origin(folder, g),
        claim=sentences.claim(g),
        unknown=sentences.unknown(g),
        limits=sentences.limits(folder, g),
        uses=sentences.uses(g, publisher),
        not_for=sentences.NOT_FOR,
        table=isinstance(folder.schema, TableSchema),
        schema=folder.schema,
        times=isinstance(folder.schema, TableSchema) and any(column.is_time for column in folder.schema.columns),
        facts=[*recipe.facts(folder.recipe), ("Version", f"dpdistill {sentences.version_of(folder)}")],
        accuracy=recipe.accuracy(folder),
        references=recipe.references(folder.recipe),
        values=records.values,
        folder=folder,
        arrays=TRAINING if folder.has(TRAINING) else SYNTHETIC,
        soft=folder.soft_labels,
        scaled=_scaled(folder.schema),
        in_folder=elsewhere is None,
    )
    return f"---\n{dump_yaml(front, width=80)}---\n\n{text}"


def _scaled(schema: AnySchema) -> Markup:
    """Returns the Python expression of the images with pixels from 0 to 1, or of the encoded rows of a table."""
    if isinstance(schema, TableSchema):
        return Markup('data["X"]')
    low, high = schema.bounds
    shifted = 'data["X"]' if low == 0 else f'(data["X"] - {number(low)})'
    return Markup(f"({shifted} / {number(high - low)})")


def _stated(g: Guarantee) -> list[tuple[str, str]]:
    """Returns the rows of the guarantee's table."""
    return [
        ("ε", f"**{bound(g.epsilon)}**"),
        ("δ", f"**{plain(g.delta)}**"),
        ("Neighbouring data sets", markdown(g.relation)),
        ("Unit", markdown(g.unit or "one row")),
        ("Noise", markdown(g.noise)),
        *([("Owners", markdown(g.owners))] if g.owners else []),
    ]


def contradicted(expected: str, found: str) -> list[str]:
    """Returns where a completed card contradicts ours: rows of the guarantee's table, or its warning."""
    ours, theirs = _rows(expected), _rows(found)
    differ = [row for row in ours if row not in theirs] + [row for row in theirs if row not in ours]
    return [name for name, *_ in differ]


def _rows(text: str) -> list[tuple[str, ...]]:
    """Returns the table rows with an epsilon or a delta, and the warning, without alignment spaces."""
    lines = [line.strip() for line in text.splitlines()]
    rows: list[tuple[str, ...]] = [("the warning", line) for line in lines if line.startswith(WARNING)]
    for is_table, block in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            cells = [tuple(cell.strip() for cell in _BAR.split(line.removeprefix("|"))) for line in block]
            states = any(row[0].strip("* ") in ("ε", "δ") for row in cells)
            rows += [row for row in cells if states and any(set(cell) - set("-: ") for cell in row)]
    return rows


def _front(folder: Folder, publisher: Publisher) -> dict[str, Any]:
    table = isinstance(folder.schema, TableSchema)
    private = read_guarantee(folder.certificate).holds
    records = len(folder.pictures) or len(folder.y)
    size = next((name for most, name in _SIZES if records < most), "n>1M")
    return {
        "pretty_name": publisher.name or sentences.name_of(folder),
        **_license(publisher),
        "task_categories": ["tabular-classification" if table else "image-classification"],
        "size_categories": [size],
        "annotations_creators": ["machine-generated"],
        "tags": ["synthetic", "dataset-distillation", *(["differential-privacy"] if private else [])],
    }


def _license(publisher: Publisher) -> dict[str, str]:
    """Returns the licence fields of the Hub: an identifier, or "other" with name and link."""
    if not publisher.license or publisher.license in LICENSES:
        return {"license": publisher.license or "unknown"}
    name = re.sub(r"[^a-z0-9.]+", "-", publisher.license.lower().removeprefix("https://")).strip("-")
    return {"license": "other", "license_name": name, "license_link": publisher.license}


def _in_folder(folder: Folder) -> Elsewhere:
    files = mapping(folder.certificate.get("files"))
    path = CSV if CSV in files else f"{IMAGES}/*/*.png" if folder.pictures else None
    table = isinstance(folder.schema, TableSchema)
    values = "" if table else f"`synthetic.npz` holds the exact values, `{IMAGES}` 8-bit images."
    if TRAINING in files:
        values += f" Models are trained on enlarged tiles of the images, in `{TRAINING}` and in the 8-bit images."
    return Elsewhere({} if path is None else configs(path), values)


def configs(path: str) -> dict[str, Any]:
    """Returns front matter that makes the Hub show and load the files under a path."""
    return {"configs": [{"config_name": "default", "data_files": [{"split": "train", "path": path}]}]}
