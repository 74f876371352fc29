"""What is refused of `evaluate` before JAX is imported: names, places, and options of the other kind of records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import typer

from dpdistill.cli.pictures import PICTURES, check_generator, kinds_of
from dpdistill.cli.reading import check_source
from dpdistill.cli.settings import check_named, check_names
from dpdistill.cli.terminal import note
from dpdistill.recipe.choices import CLASSIFIERS, TRAININGS
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.names import TEACHERS
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema
from dpdistill.storage.files import require_file

OF_IMAGES = frozenset(
    {"labels", "nets", "training", "architecture", "classifier", "flip", "kernel", "ridge", "teacher", "taught_by"}
    | {"slopes", "then_set", "student_epochs", "number", "generated", "distance", "epochs"}
)
OF_TABLES = frozenset({"schema", "classifiers", "sql", "reference_sql"})
OF_BOTH = frozenset({"folder", "test", "seed", "lenient", "reference", "include_scores"})


def opened(folder: str, test: str, sql: str | None) -> Any:
    """The synthetic set of a folder; the test set is there, unless a database has it."""
    from dpdistill.folder.save import read_distilled

    distilled = read_distilled(folder)
    check_source(test, isinstance(distilled.schema, TableSchema), sql)
    return distilled


def check_reference(reference: str | None, sql: str | None, included: bool, table: bool, epochs: int | None) -> None:
    if reference is None and epochs is not None:
        raise DataError(f"Expected --reference with --epochs {epochs}, which are of nets that learn from real records.")
    if reference is None and sql is not None:
        raise DataError("Expected --reference with --reference-sql.")
    if reference is not None and included:
        raise DataError("Expected --reference without --include-scores: its scores are for the owner of the records.")
    if reference is not None:
        check_source(reference, table, sql)


def check_student(teacher: str | None, taught_by: str | None, slopes: bool, epochs: int | None, then: bool) -> None:
    """Refuse an unknown teacher, and how networks learn from one where they learn from none."""
    check_names("teacher", [] if taught_by is None else [taught_by], TEACHERS)
    stated = {f"--taught-by {taught_by}": taught_by, "--slopes": slopes, f"--student-epochs {epochs}": epochs}
    stated |= {"--then-set": then}
    if teacher is None and (given := [option for option, value in stated.items() if value]):
        raise DataError(f"Expected --teacher with {given[0]}: the pictures to learn from.")


def check_pictures(
    folder: str, distilled: Any, teacher: str | None, taught_by: str | None, number: int | None, generated: int
) -> None:
    """Refuse a teacher or images that the folder does not have, and a number of none."""
    if taught_by == "classifier" and distilled.classifier is None:
        raise DataError(f"{folder} has no released classifier: say --taught-by krr.")
    kinds = kinds_of(teacher or "")
    if generated or "generated" in kinds:
        check_generator(folder, distilled.schema)
    if teacher is not None and not kinds:
        check_source(teacher, table=False)
    if number is not None and not kinds:
        raise DataError(f"Expected --teacher {', '.join(PICTURES)} with --pictures {number}: it says how many.")


def check_kind_of_options(context: typer.Context, folder: str, *, table: bool) -> None:
    """Refuse options that were stated and are for the other kind of records."""
    others, holds, of = (OF_IMAGES, "a table", "images") if table else (OF_TABLES, "images", "tables")
    stated = [
        param.opts[0]
        for param in context.command.params
        if param.name in others and getattr(context.get_parameter_source(param.name), "name", "DEFAULT") != "DEFAULT"
    ]
    if stated:
        raise DataError(f"{folder} holds {holds}: {', '.join(stated)} {'are' if stated[1:] else 'is'} for {of}.")


def check_choices(
    training: str | None,
    architectures: list[str] | None,
    classifiers: list[str] | None,
    of_table: str | None,
    kernels: list[str] | None,
    distances: list[str] | None,
) -> None:
    """Refuse unknown names."""
    check_names("training", [] if training is None else [training], TRAININGS)
    check_names("architecture", architectures or [], ARCHITECTURES)
    check_names("classifier", classifiers or [], CLASSIFIERS)
    check_names("classifier", [] if of_table is None else split_names(of_table), [*CLASSIFIERS, "fast"])
    for each in kernels or []:
        check_named("kernel", each, "kernel")
    for each in distances or []:
        network, given, file = each.partition("=")
        if given:
            check_names("network of --distance", [network], ARCHITECTURES)
            require_file(Path(file))
        else:
            check_names("distance", [each], [*KERNELS, "NETWORK=FILE.npz"])


def read_test_images(test: str, schema: Schema, labels: str | None = None, *, strict: bool = True) -> Any:
    """The test set of a synthetic set of images: of its shape and classes."""
    from dpdistill.evaluation.test_set import check_test_set
    from dpdistill.sources.load import load

    records = load(test, "test", like=schema, labels=labels, strict=strict)
    check_test_set(schema, records)
    note_left_out(records, "test")
    return records


def note_left_out(records: Any, what: str) -> None:
    """Say how many records are of no class of the set, or cannot be read, and do not count."""
    if left := int((records.y < 0).sum()):
        note(f"{left:,} of {len(records):,} {what} records are left out: of other classes, or not to be read.")


def check_fit(architectures: list[str], ridge: float | None, schema: AnySchema) -> None:
    """Refuse networks that images are too small for, and a ridge that is none."""
    if ridge is not None and not 0.0 <= ridge < math.inf:
        raise DataError(f"Expected ridge={ridge} >= 0.")
    for name in architectures:
        assert isinstance(schema, Schema)
        if min(schema.shape[:2]) < (least := ARCHITECTURES[name].least_side):
            raise DataError(f"Architecture {name} takes images with sides >= {least}; got {schema.shape}.")


def split_names(classifiers: str) -> list[str]:
    return [name.strip() for name in classifiers.split(",")]


def schema_of_rows(folder: str, schema: str | None, facts: TableSchema) -> Any:
    """How held-out rows are written: as DIR's schema.yaml says, or another one."""
    from dpdistill.sources.tables.schema_file import read_schema, without_units

    table_file = without_units(read_schema(schema or Path(folder) / "schema.yaml"))
    if table_file.schema != facts:
        raise DataError(f"{schema or 'schema.yaml'} does not state the columns and classes of {folder}.")
    return table_file
