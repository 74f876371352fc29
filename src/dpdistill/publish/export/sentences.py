"""Sentences about a set that all documents share: functions of the shared folder alone."""

from __future__ import annotations

from dpdistill.folder.layout import SCHEMA, SCORES
from dpdistill.publish.export.publisher import Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import Guarantee, mapping
from dpdistill.publish.report.words import bound, number, plain
from dpdistill.schema import Column, TableSchema


def is_table(folder: Folder) -> bool:
    return isinstance(folder.schema, TableSchema)


def method_of(folder: Folder) -> str:
    """Returns the method's name as the recipe states it."""
    return plain(folder.recipe.get("method") or "an unnamed method")


def version_of(folder: Folder) -> str:
    """Returns the version of dpdistill that made the set."""
    return plain(mapping(folder.certificate.get("versions")).get("dpdistill") or "of an unstated version")


def name_of(folder: Folder) -> str:
    """Returns a default name: "Synthetic images, 10 classes (dos-kip)", "Synthetic rows of income, ..."."""
    schema = folder.schema
    if isinstance(schema, TableSchema) and schema.target is not None:
        return f"Synthetic rows of {plain(schema.target)}, a number ({method_of(folder)})"
    if isinstance(schema, TableSchema) and schema.label is None:
        return f"Synthetic rows of {len(schema.columns)} columns ({method_of(folder)})"
    kind = f"rows of {plain(schema.label)}" if isinstance(schema, TableSchema) else "images"
    return f"Synthetic {kind}, {len(folder.schema.classes)} classes ({method_of(folder)})"


def contents(folder: Folder) -> str:
    """Returns a sentence about the contents of the set."""
    schema, count = folder.schema, f"{len(folder.y):,}"
    if isinstance(schema, TableSchema):
        label = "without a label" if schema.label is None else f"and the label {plain(schema.label)!r}"
        label = label if schema.target is None else f"with {plain(schema.target)!r} as the number to predict"
        return f"{count} synthetic rows of {len(schema.columns)} columns {label}."
    height, width, channels = schema.shape
    kind = {1: "in grey", 3: "in colour"}.get(channels, f"of {channels} channels")
    sentence = f"{count} synthetic images of {height} x {width} pixels {kind}, of {len(schema.classes)} classes."
    return f"{sentence} {STRAIGHTENED}" if schema.straightened else sentence


STRAIGHTENED = (
    "The records were deskewed, centred and rescaled before distillation. Images given to a model trained on this set "
    "must be straightened the same way, at this height and width (dpdistill.straighten_images)."
)


def holds(column: Column) -> str:
    """Returns the values that a column may hold: its bounds, or whole category names up to SHOWN characters."""
    if column.is_number:
        sentence = " to ".join(map(column.text if column.is_time else number, column.bounds or ()))
    else:
        kept = 1
        while kept < len(column.categories) and len(", ".join(column.categories[: kept + 1])) <= SHOWN:
            kept += 1
        more = len(column.categories) - kept
        sentence = ", ".join(column.categories[:kept]) + (f", … and {more} more: {SCHEMA}" if more else "")
    return f"{sentence}, or missing" if column.missing else sentence


SHOWN = 200


def origin(folder: Folder, g: Guarantee) -> str:
    """Returns a sentence about how the set was made."""
    if not g.private:
        return f"Computed by {method_of(folder)} of dpdistill {version_of(folder)} from records, without noise."
    return (
        f"Computed by {method_of(folder)} of dpdistill {version_of(folder)} from noised sums over private records,"
        " which are not published."
    )


def claim(g: Guarantee) -> str:
    """Returns the guarantee in a sentence."""
    if not g.private:
        return "No privacy guarantee: epsilon is infinite, and nothing limits what the set reveals about its records."
    stated = f"epsilon = {bound(g.epsilon)} and delta = {plain(g.delta)}, neighbouring data sets by {g.relation}"
    if g.seeded:
        return f"No privacy guarantee: the noise came from a seed. With secret noise the guarantee would be {stated}."
    return f"Differentially private with {stated}; the protected unit is {g.unit or 'one row'}."


def limits(folder: Folder, g: Guarantee) -> list[str]:
    """Returns one sentence for each limit of the guarantee and of the set."""
    sentence = [
        *([SCORED] if folder.scores is not None else []),
        "A small set that summarises: rare values, small classes and fine detail may be absent or distorted"
        f"{' by noise' if g.private else ''}.",
        "Shares of classes and joint distributions may differ from the private records.",
    ]
    if not g.private:
        return [*sentence, "Single private records may be recognisable in the set: handle the set like the records."]
    sentence.append(several(g))
    scope = folder.certificate.get("scope")
    return [*sentence, plain(scope)] if scope else sentence


def several(g: Guarantee) -> str:
    """Returns a sentence about the protection of several units together, or of a person with several rows."""
    several = f"Several units ({plain(g.name)}) together, such as a family, are"
    whose, counted = (several, "of them") if g.name else ("A person with several rows is", "rows")
    known = "; ".join(f"epsilon = {bound(epsilon)} with {k:g} {counted}" for k, epsilon in g.several)
    return f"{whose} protected less{f': at delta = {plain(g.delta)}, {known}' if known else ''}."


def protected(g: Guarantee) -> str:
    """Returns the protected unit: one row, or all rows of one unit."""
    return f"all rows of one {g.whose}" if g.name else "one row"


def unknown(g: Guarantee) -> str:
    """Returns the part that the attacker does not know, to follow "somebody who knows everything but"."""
    whose, were = (f"all records of one {g.whose}", "they were") if g.name else ("one record", "it was")
    which = "which of two given sets of records was theirs" if g.name else "which of two given records was used"
    asked = which if g.relation == "replace-one" else f"whether {were} used"
    return f"{whose}, and has no idea {asked},"


def uses(g: Guarantee, publisher: Publisher) -> str:
    """Returns the intended use: as the publisher states it, or our default text."""
    if g.holds:
        return publisher.intended_use or USES
    return f"{publisher.intended_use} {UNUSED}".strip()


def biases(g: Guarantee) -> str:
    """Returns one or two sentences about biases of the set."""
    noise = " Noise distorts small classes and groups more than large ones." if g.private else ""
    return f"The biases of the private records remain.{noise}"


def another(folder: Folder, g: Guarantee) -> str:
    """Returns one or two sentences about the privacy cost of another set."""
    if not g.holds:
        return "Another set from the same records reveals more about them."
    name = folder.certificate.get("releases")
    free = (
        f"Another set made from the same noised sums (id {plain(name)} in certificate.json) costs nothing more. "
        if name
        else ""
    )
    return f"{free}Each further set, model or statistic from the records costs epsilon of its own; the costs add up."


SCORED = f"{SCORES} holds scores that were computed on real records without noise: epsilon does not cover them."
SENSITIVE = (
    "Made from records that may be personal. {claim} No record was copied into the set. `dpdistill verify` checks the "
    "arithmetic and the files of this statement, not that the run was as described."
)
UNSAFE = "Made from records that may be personal. {claim}"


def sensitive(folder: Folder, g: Guarantee) -> str:
    """Returns sentences about personal information in the set."""
    sentence = (SENSITIVE if g.holds else UNSAFE).format(claim=claim(g))
    return sentence if folder.scores is None else f"{sentence} {SCORED}"


USES = "Training and comparing classifiers, and developing programs, where the records themselves cannot be shared."
UNUSED = "Not for publication: handle the set like the private records."
NOT_FOR = (
    "Not for statements about single persons, for published statistics of the private records, or for accuracy claims"
    " without a test on real records."
)
