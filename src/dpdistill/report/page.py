"""One self-contained HTML page about a shared folder; it computes nothing but pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from dpdistill.report import promise, sections, tables, words
from dpdistill.report.folder import Folder, read_folder
from dpdistill.report.guarantee import Guarantee, read_guarantee
from dpdistill.schema import TableSchema

REPORT = "report.html"


def write_report(folder: Path | str) -> Path:
    """Writes report.html into a shared folder: images or rows, guarantee, recipe, how to verify.

    Args:
        folder: holds certificate.json, recipe.json, synthetic.npz and, if scores are to be shown, scores.json.

    Returns:
        Path of the page: one file that loads nothing from anywhere.

    Raises:
        DataError: a file that is missing or cannot be used.
    """
    path = Path(folder) / REPORT
    text = render(read_folder(folder))
    partial = path.with_name(f".{REPORT}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8", errors="xmlcharrefreplace")
    os.replace(partial, path)
    return path


def render(folder: Folder) -> str:
    """The page as text."""
    guarantee = read_guarantee(folder.certificate)
    body = [
        *_banners(guarantee),
        _header(folder),
        _tiles(folder, guarantee),
        *_records(folder, guarantee.private and not guarantee.seeded),
        promise.in_words(guarantee, folder.certificate),
        promise.in_numbers(guarantee, folder.certificate),
        sections.scores(folder.scores) if folder.scores is not None else "",
        sections.recipe(folder.recipe, folder.certificate),
        sections.verify(folder.certificate, guarantee.private),
        sections.references(folder.recipe),
        _footer(folder.certificate),
    ]
    room = files("dpdistill.report")
    styles = ("page.css", "tables.css") if isinstance(folder.schema, TableSchema) else ("page.css",)
    return Template((room / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{_title(folder)} · dpdistill"),
        style="\n".join((room / name).read_text(encoding="utf-8") for name in styles),
        body="\n".join(part for part in body if part),
    )


def _records(folder: Folder, noised: bool) -> list[str]:
    schema = folder.schema
    if isinstance(schema, TableSchema):
        return [tables.rows(folder, schema, noised), tables.marginals(folder, schema)]
    return [sections.images(folder, schema, noised)]


def _title(folder: Folder) -> str:
    return words.plain(folder.recipe.get("title") or "Synthetic data set")


def _banners(guarantee: Guarantee) -> list[str]:
    banners = []
    if not guarantee.private:
        banners.append(
            "<strong>No privacy guarantee</strong>ε = ∞: nothing limits what this set reveals about the records it"
            " was made from. Do not share it unless you would share those."
        )
    if guarantee.seeded:
        banners.append(
            "<strong>insecure: seeded noise</strong>The noise was drawn from a seed, for tests only. Whoever knows the"
            " seed can remove it: nothing stated here protects anybody."
        )
    return [f'<div class="banner" role="alert">{text}</div>' for text in banners]


def _header(folder: Folder) -> str:
    facts = [_shape(folder), f"method {words.plain(folder.recipe.get('method'))}"]
    if folder.certificate.get("date"):
        facts.append(words.plain(folder.certificate["date"]))
    return (
        f'<header><p class="eyebrow">Synthetic data set</p>\n<h1>{escape(_title(folder))}</h1>\n'
        f'<p class="soft">{escape(" · ".join(facts))}</p></header>'
    )


def _shape(folder: Folder) -> str:
    schema = folder.schema
    if isinstance(schema, TableSchema):
        count = len(schema.columns)
        return f"{count:,} column{'' if count == 1 else 's'} and the label {schema.label}"
    height, width, channels = schema.shape
    kind = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
    return f"{height} × {width} {kind}"


def _tiles(folder: Folder, g: Guarantee) -> str:
    count, classes = len(folder.y), len(folder.schema.classes)
    each = f"{count // classes} in each of {classes} classes" if _balanced(folder) else f"in {classes} classes"
    noun, unit, more = "images", "row", ""
    if isinstance(folder.schema, TableSchema):
        noun, (unit, more) = "rows", tables.unit(folder.schema.unit)
    tiles = [(f"Synthetic {noun}", "", f"{count:,}", each)]
    smaller = "does not hold: seeded noise" if g.seeded else "the smaller, the more private"
    if g.private:
        tiles.append(("Epsilon, ε", "", words.upper(g.epsilon), smaller))
        tiles.append(("Delta, δ", "", words.plain(g.delta), words.one_in(g.delta) if g.delta else "no slack"))
        change = "; ".join(text for text in (words.neighbours(g.relation).change, more) if text)
        tiles.append(("Protects", " words", f"one {escape(unit)}", escape(change)))
    else:
        tiles.append(("Epsilon, ε", "", "∞", "infinite: no guarantee"))
    body = "".join(
        f'<div class="tile"><dt>{name}</dt><dd class="value{kind}">{value}</dd><dd class="under">{under}</dd></div>'
        for name, kind, value, under in tiles
    )
    return f'<dl class="tiles">{body}</dl>'


def _balanced(folder: Folder) -> bool:
    counts = {int((folder.y == k).sum()) for k in range(len(folder.schema.classes))}
    return len(counts) == 1


def _footer(certificate: Mapping[str, Any]) -> str:
    versions = certificate.get("versions")
    versions = versions if isinstance(versions, Mapping) else {}
    text = " · ".join(f"{name} {words.plain(value)}" for name, value in versions.items())
    lines = [f"Made with {text}." if text else "", "This page is one file and loads nothing from anywhere."]
    return "<footer>" + "".join(f"<p>{escape(line)}</p>" for line in lines if line) + "</footer>"
