"""What every document says of a set, in the same words: functions of the shared folder alone."""

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
    """The method's name, as the recipe has it."""
    return plain(folder.recipe.get("method") or "an unnamed method")


def version_of(folder: Folder) -> str:
    """The version of dpdistill that made the set."""
    return plain(mapping(folder.certificate.get("versions")).get("dpdistill") or "of an unstated version")


def name_of(folder: Folder) -> str:
    """A name for a set that has none: "Synthetic images, 10 classes (dos-kip)", "Synthetic rows of income, ..."."""
    schema = folder.schema
    kind = f"rows of {plain(schema.label)}" if isinstance(schema, TableSchema) else "images"
    return f"Synthetic {kind}, {len(folder.schema.classes)} classes ({method_of(folder)})"


def contents(folder: Folder) -> str:
    """Returns what the set holds, in a sentence."""
    schema, count = folder.schema, f"{len(folder.y):,}"
    if isinstance(schema, TableSchema):
        return f"{count} synthetic rows of {len(schema.columns)} columns and the label {plain(schema.label)!r}."
    height, width, channels = schema.shape
    kind = {1: "in grey", 3: "in colour"}.get(channels, f"of {channels} channels")
    said = f"{count} synthetic images of {height} x {width} pixels {kind}, of {len(schema.classes)} classes."
    return f"{said} {STRAIGHTENED}" if schema.straightened else said


STRAIGHTENED = (
    "The records were brought upright, to the middle and near to a common size by their own strokes: what a model that "
    "was trained on these images is asked about has to be, too, at their height and width "
    "(dpdistill.straighten_images)."
)


def holds(column: Column) -> str:
    """Returns what a column may hold: its bounds or its categories, whole ones up to SHOWN characters."""
    if column.is_number:
        said = " to ".join(map(number, column.bounds or ()))
    else:
        kept = 1
        while kept < len(column.categories) and len(", ".join(column.categories[: kept + 1])) <= SHOWN:
            kept += 1
        more = len(column.categories) - kept
        said = ", ".join(column.categories[:kept]) + (f", … and {more} more: {SCHEMA}" if more else "")
    return f"{said}, or missing" if column.missing else said


SHOWN = 200


def origin(folder: Folder, g: Guarantee) -> str:
    """How the set was made, in a sentence."""
    if not g.private:
        return f"Computed by {method_of(folder)} of dpdistill {version_of(folder)} from records, without noise."
    return (
        f"Computed by {method_of(folder)} of dpdistill {version_of(folder)} from noised sums over private records,"
        " which are not published."
    )


def claim(g: Guarantee) -> str:
    """The guarantee, in a sentence."""
    if not g.private:
        return "No privacy guarantee: epsilon is infinite, and nothing limits what the set reveals about its records."
    stated = f"epsilon = {bound(g.epsilon)} and delta = {plain(g.delta)}, neighbouring data sets by {g.relation}"
    if g.seeded:
        return f"No privacy guarantee: the noise came from a seed. With secret noise it would have had {stated}."
    return f"Differentially private with {stated}; it holds for {g.unit or 'one row'}."


def limits(folder: Folder, g: Guarantee) -> list[str]:
    """Returns what the guarantee does not cover and what the set cannot do, a sentence each."""
    said = [
        *([SCORED] if folder.scores is not None else []),
        "A small set that summarises: rare values, small classes and fine detail may be absent or distorted"
        f"{' by noise' if g.private else ''}.",
        "Shares of classes and joint distributions need not be those of the private records.",
    ]
    if not g.private:
        return [*said, "Single private records may be recognisable in it: handle it as those records."]
    said.append(several(g))
    scope = folder.certificate.get("scope")
    return [*said, plain(scope)] if scope else said


def several(g: Guarantee) -> str:
    """Returns what somebody with several rows has, or several units together, in a sentence."""
    several = f"Several units ({plain(g.name)}) together, such as a family, are"
    whose, counted = (several, "of them") if g.name else ("A person with several rows is", "rows")
    known = "; ".join(f"epsilon = {bound(epsilon)} with {k:g} {counted}" for k, epsilon in g.several)
    return f"{whose} protected less{f': at delta = {plain(g.delta)}, {known}' if known else ''}."


def protected(g: Guarantee) -> str:
    """Returns what the guarantee is about: one row, or all rows of one unit."""
    return f"all rows of one {g.whose}" if g.name else "one row"


def unknown(g: Guarantee) -> str:
    """Returns what the attacker of the guarantee does not know, as it follows "somebody who knows everything but"."""
    whose, were = (f"all records of one {g.whose}", "they were") if g.name else ("one record", "it was")
    which = "which of two given sets of records was theirs" if g.name else "which of two given records was used"
    asked = which if g.relation == "replace-one" else f"whether {were} used"
    return f"{whose}, and has no idea {asked},"


def uses(g: Guarantee, publisher: Publisher) -> str:
    """Returns what the set is for: its publisher's word, or ours."""
    if g.holds:
        return publisher.intended_use or USES
    return f"{publisher.intended_use} {UNUSED}".strip()


def biases(g: Guarantee) -> str:
    """Which biases the set has, in a sentence or two."""
    noise = " Noise weighs more on small classes and groups than on large ones." if g.private else ""
    return f"Whatever bias the private records have.{noise}"


def another(folder: Folder, g: Guarantee) -> str:
    """Returns what another set would cost, in a sentence or two."""
    if not g.holds:
        return "Another set from the same records reveals more of them."
    name = folder.certificate.get("releases")
    free = (
        f"Another set made from the same noised sums (id {plain(name)} in certificate.json) costs nothing more. "
        if name
        else ""
    )
    return f"{free}Another set, model or statistic from the records anew has a cost of its own; they add up."


SCORED = f"{SCORES} holds scores that were computed on real records without noise: epsilon does not cover them."
SENSITIVE = (
    "Made from records that may be personal. {claim} No record was copied into it; `dpdistill verify` checks the "
    "arithmetic and the files of this statement, not that the run was as described."
)
UNSAFE = "Made from records that may be personal. {claim}"


def sensitive(folder: Folder, g: Guarantee) -> str:
    """Returns what the set holds about persons, in some sentences."""
    said = (SENSITIVE if g.holds else UNSAFE).format(claim=claim(g))
    return said if folder.scores is None else f"{said} {SCORED}"


USES = "Training and comparing classifiers, and developing programs, where the records themselves cannot be handed out."
UNUSED = "Not for publication: handle it like the private records."
NOT_FOR = (
    "Not for statements about single persons, for published statistics of the private records, or for accuracy claims"
    " without a test on real records."
)
