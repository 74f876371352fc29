"""Options of a run, in one dataclass each for records, recipe, budget, persons, machine and account.

The command line builds its options from the fields, so that both interfaces use the same names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from dpdistill.schema import AnySchema, DataError

MAX_SEED = 2**32 - 1
IMAGE_FORMATS, TABLE_FORMATS = "IMAGE-FORMATS", "TABLE-FORMATS"
"""Marks in texts for --help; the command line replaces each by a list of formats when it prints the help."""
SOURCES = f"Images as {IMAGE_FORMATS}, or digits:train."
TABLES = f"{TABLE_FORMATS} file, or a database"
TABLE = f"{TABLES}: postgresql://user@host/name, a SQLite or DuckDB file."
SQL = "One SELECT that reads the records from the database DATA."
NEEDS_SCHEMA = "Expected --schema SCHEMA with --sql: a query returns rows of a table."


def option(
    default: Any,
    help: str,
    *,
    name: str | None = None,
    kind: Any = None,
    panel: str | None = None,
    expert: bool = False,
    **how: Any,
) -> Any:
    """Returns a dataclass field that is also a command-line option.

    Args:
        default: default value.
        help: description in --help.
        name: name of the option, such as "--set"; the field's name by default.
        kind: type on the command line, where Python accepts more.
        panel: panel of --help; the PANEL of the dataclass by default.
        expert: show the option only in --help-all where a command has many.
        how: further arguments of typer.Option, such as min and max.
    """
    about = {"help": help, "name": name, "kind": kind, "panel": panel, "expert": expert, **how}
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of reading records.

    Args:
        schema: the reviewed schema.yaml of a table; None for images.
        sql: one SELECT, for a database.
        classes: number of classes, or their names.
        bounds: lowest and highest raw value, (low, high) or "low,high".
        resize: side of the square that images are resized to.
        channels: 1 or 3, for images in files of their own.
        straighten: deskew, centre and rescale every image by its own strokes: for handwriting.
        labels: label kind to read where there are several.
        lenient: let bad records contribute nothing, instead of stopping at the first one.

    Raises:
        DataError: options that contradict each other.
    """

    PANEL: ClassVar[str] = "Data"
    schema: str | os.PathLike | None = option(None, f"The schema.yaml of a table; DATA is a {TABLES}.", kind=str)
    sql: str | None = option(None, SQL)
    classes: Any = option(None, "Number of classes, or names: 10 or cat,dog.", kind=str)
    bounds: Any = option(None, "Lowest and highest raw value: 0,255.", kind=str)
    resize: int | str | None = option(None, "Side of the square that images are resized to.", kind=str)
    channels: int | None = option(None, "1 (grey) or 3 (colour), for images in files of their own.", expert=True)
    straighten: bool = option(
        False,
        "Deskew, centre and rescale every image by its own strokes: for handwriting.",
        name="--straighten",
        expert=True,
    )
    labels: str | None = option(
        None, "Label kind where there are several: fine or coarse of CIFAR-100, or a column of Parquet.", expert=True
    )
    lenient: bool = option(False, "Let bad records contribute nothing.", name="--lenient/--strict")

    def __post_init__(self) -> None:
        if self.sql and not self.schema:
            raise DataError(NEEDS_SCHEMA)
        if self.schema and self.of_images:
            raise DataError(
                "With --schema leave out --classes, --bounds, --resize, --channels, --straighten and --labels: "
                "the schema states them."
            )

    @property
    def of_images(self) -> bool:
        """Returns whether an option for images is stated."""
        stated = (self.classes, self.bounds, self.resize, self.channels, self.straighten, self.labels)
        return any(stated)

    @property
    def table(self) -> bool:
        """Returns whether the records are rows of a table."""
        return self.schema is not None


@dataclass(frozen=True, kw_only=True)
class RecipeChoice:
    """Recipe of a run, with the caller's changes.

    Args:
        method: name of a method; None for the recipe's method, or that of `purpose`.
        purpose: what the set is for, which determines the method: "networks", "kernel" or "classifier" of images;
            "models", "counts", "classifier" or "number" of tables. None for networks and models.
        recipe: name of a published recipe, or a .yaml file.
        per_class: number of synthetic records per class; None for the recipe's.
        settings: texts "field=value".
        public: images that the caller declares public, for a method's subspace; None generates images.
        encoder: a public pre-trained encoder as the kernel: its name, FILE.onnx or a folder with its card, or a sum of
            kernels, "drawn+efficientnet-lite0"; the same as the setting "kernel=...". None for the recipe's kernel.

    Raises:
        DataError: an encoder, and a kernel among the settings; a purpose, and a method or a recipe.
    """

    PANEL: ClassVar[str] = "Recipe"
    purpose: str | None = option(
        None,
        "What the set is for: networks, kernel or classifier (images); models, counts, classifier or number (tables).",
        name="--for",
    )
    method: str | None = option(None, "See `dpdistill methods`; dos-kip if left out, dp-merf for tables, or by --for.")
    recipe: str | None = option(None, "Name of a recipe (see `dpdistill methods --recipes`), or a .yaml file.")
    per_class: int | None = option(None, "Synthetic records per class; 10 if left out.")
    settings: tuple[str, ...] = option((), "A recipe field: field=value.", name="--set", kind=list[str])
    public: str | None = option(
        None, "Images that you declare public, for a method's subspace (dos); generated by default.", expert=True
    )

    encoder: str | None = option(
        None,
        "A network trained on public data as the kernel: efficientnet-lite0, or FILE.onnx with a card. DIR names it.",
        expert=True,
    )

    def __post_init__(self) -> None:
        if self.purpose is not None and (self.method or self.recipe):
            raise DataError("--for determines the method: leave it out with --method and --recipe.")
        if self.encoder is not None:
            if any(setting.startswith("kernel=") for setting in self.settings):
                raise DataError("Expected --encoder or --set kernel=NAME, not both: name a sum, drawn+FILE.onnx.")
            object.__setattr__(self, "settings", (*self.settings, f"kernel={self.encoder}"))
            object.__setattr__(self, "encoder", None)

    @property
    def default(self) -> bool:
        """Returns whether the caller states neither a recipe nor a change."""
        return not (self.purpose or self.method or self.recipe or self.settings)

    def named(self, kind: type[AnySchema], row: Mapping[str, Any]) -> str:
        """Returns the name of the method.

        Args:
            kind: the kind of records.
            row: what the published recipe states; empty without one.

        Raises:
            DataError: a purpose that the kind of records does not have.
        """
        from dpdistill.recipe.methods import method_for

        return row.get("method") or self.method or method_for(kind, self.purpose)


@dataclass(frozen=True, kw_only=True)
class BudgetChoice:
    """Stated part of a budget; defaults are the recipe's, or epsilon 1 at delta 1e-5 under add-remove.

    Args:
        epsilon: > 0.
        delta: in (0, 0.01].
        adjacency: "add-remove" or "replace-one".
    """

    PANEL: ClassVar[str] = "Privacy"
    epsilon: float | None = option(None, "Privacy budget; 1 if left out.")
    delta: float | None = option(None, "Privacy budget; 1e-5 if left out.")
    adjacency: str | None = option(None, "add-remove (if left out) or replace-one.", expert=True)

    @property
    def stated(self) -> dict[str, Any]:
        """Returns the stated fields by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


@dataclass(frozen=True, kw_only=True)
class Persons:
    """Unit of privacy: single records, or all records of a person together.

    Args:
        unit_column: column or array that names the person of each record; None for that in schema.yaml.
        person_from: "filename" if the files of class folders are named by person, as p017 in p017_scan2.png.
        rows_per_unit: maximum number of records used per person, drawn at random; None for 4.
    """

    PANEL: ClassVar[str] = "Persons"
    unit_column: str | None = option(
        None,
        "Protect persons: column (CSV, Parquet) or array (.npz) that names the person of each record.",
    )
    person_from: str | None = option(
        None,
        'Protect persons in class folders: "filename" if the text before the first "_" names the person, as p017 in '
        "p017_scan2.png.",
        metavar="filename",
    )
    rows_per_unit: int | None = option(None, "Maximum number of records per person, drawn at random; 4 by default.")

    @property
    def stated(self) -> bool:
        """Returns whether anything is stated."""
        return self != Persons()

    @property
    def unit(self) -> str | None:
        """Returns the name of the unit; None for single records or the column in schema.yaml."""
        return self.unit_column if self.person_from is None else "person"

    def __post_init__(self) -> None:
        """Refuses persons that are named in two ways, or in an unknown one.

        Raises:
            DataError: as stated.
        """
        if self.person_from not in (None, "filename"):
            raise DataError(f"Expected --person-from filename; got {self.person_from!r:.80}.")
        if self.person_from is not None and self.unit_column is not None:
            raise DataError("Expected --unit-column or --person-from, not both.")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Computing resources of a run; they change its speed, never its guarantee.

    Args:
        memory: memory limit of records and features, in bytes or as "512M" or "4G"; None for half of the machine's.
        workers: number of processes that hold the records and compute partial sums; None for this process alone.
        ray: address of a Ray cluster whose machines hold the workers, or "local".
        share: folder or address that all workers can read.

    Raises:
        DataError: a cluster without a number of workers, or an invalid amount of memory.
    """

    PANEL: ClassVar[str] = "Machine"
    memory: int | str | None = option(
        None,
        "Memory limit of the records: 512M, 4G; half of all by default. The rest stays on disk.",
        kind=str,
        expert=True,
    )
    workers: int | None = option(
        None, "Number of processes that compute sums, one core each.", min=1, metavar="<int>", expert=True
    )
    ray: str | None = option(
        None, "Address of a Ray cluster whose machines hold the --workers; `local` starts one.", expert=True
    )
    share: str | None = option(
        None, "Folder or address (s3://...) for the records during the run; all workers can read it.", expert=True
    )
    NAMES: ClassVar[tuple[str, ...]] = ("workers", "ray", "share")

    def __post_init__(self) -> None:
        if (self.ray or self.share) and not self.workers:
            raise DataError("Expected --workers N with --ray and --share: the number of worker processes.")
        if self.memory is not None:
            from dpdistill.storage.memory import parse_memory

            parse_memory(self.memory)


@dataclass(frozen=True, kw_only=True)
class Account:
    """Payment of a run, and public facts about it.

    Args:
        ledger: ledger file that composes all runs on the data set, or postgresql://user@host/database#ledger; None for
            none.
        overwrite: replace an earlier result, and pay for a new run.
        seed: seed of everything public, never of the noise; None for 0.
        class_size: number of records of a class, if public; states how large the noise is compared with one class.
    """

    PANEL: ClassVar[str] = "Privacy"
    ledger: str | os.PathLike | None = option(
        None,
        "Ledger of all runs on this data set, a FILE or postgresql://host/database#name; see `dpdistill budget new`.",
        kind=str,
    )
    overwrite: bool = option(
        False, "Replace an earlier result, and pay for a new run.", name="--overwrite", panel="Output"
    )
    seed: int | None = option(
        None,
        "Seed of everything public, never of the noise; 0 by default.",
        min=0,
        max=MAX_SEED,
        metavar="<int>",
        panel="Recipe",
        expert=True,
    )
    class_size: int | None = option(
        None,
        "Number of records of a class, if public; prints how large the noise is compared with one class.",
        min=1,
        metavar="<int>",
        expert=True,
    )
