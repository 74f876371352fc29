"""Options of a run: one dataclass each for the records, the recipe, the budget, persons and the machine.

The command line makes its options of the fields, so that Python and the command line take the same words.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from dpdistill.schema import DataError

MAX_SEED = 2**32 - 1
IMAGE_FORMATS, TABLE_FORMATS = "IMAGE-FORMATS", "TABLE-FORMATS"
"""Stand for the tables of formats in texts for --help, which the command line asks when it prints them."""
SOURCES = f"Images as {IMAGE_FORMATS}, or digits:train."
TABLES = f"{TABLE_FORMATS} file, or a database"
TABLE = f"{TABLES}: postgresql://user@host/name, a SQLite or DuckDB file."
SQL = "One SELECT, whose rows are read from the database that DATA names."
NEEDS_SCHEMA = "Expected --schema SCHEMA with --sql: the rows of a query are a table."


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
    """A field that the command line takes as an option.

    Args:
        default: what it is if left out.
        help: what it means, for --help.
        name: of the option, "--set"; the field's name if left out.
        kind: its type at the command line, where Python takes more.
        panel: of --help; the PANEL of its dataclass if left out.
        expert: only --help-all shows the option where a command has many.
        how: further arguments of typer.Option, such as min and max.
    """
    about = {"help": help, "name": name, "kind": kind, "panel": panel, "expert": expert, **how}
    return field(default=default, metadata={"option": about})


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How records are read.

    Args:
        schema: the reviewed schema.yaml of a table; None for images.
        sql: one SELECT, for a database.
        classes: number of classes, or their names.
        bounds: lowest and highest raw value, (low, high) or "low,high".
        resize: side of the square that images are resized to.
        channels: 1 or 3, for images in files of their own.
        straighten: deskew, centre and rescale every image by its own strokes: for handwriting.
        labels: which labels to take where there are several.
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
        None, "Which labels, where there are several: fine or coarse of CIFAR-100, or a column of Parquet.", expert=True
    )
    lenient: bool = option(False, "Let bad records contribute nothing.", name="--lenient/--strict")

    def __post_init__(self) -> None:
        if self.sql and not self.schema:
            raise DataError(NEEDS_SCHEMA)
        if self.schema and self.of_images:
            raise DataError(
                "With --schema leave --classes, --bounds, --resize, --channels, --straighten and --labels out: "
                "it states all."
            )

    @property
    def of_images(self) -> bool:
        """Returns whether an option is stated that images alone have."""
        stated = (self.classes, self.bounds, self.resize, self.channels, self.straighten, self.labels)
        return any(stated)

    @property
    def table(self) -> bool:
        """Returns whether the records are rows of a table."""
        return self.schema is not None


@dataclass(frozen=True, kw_only=True)
class RecipeChoice:
    """Which recipe a run takes, and what the caller changes of it.

    Args:
        method: name of a method; None for the recipe's, or the default of the kind of records.
        recipe: a published recipe by its name, or a .yaml file.
        per_class: synthetic records per class; None for the recipe's.
        settings: texts "field=value".
        public: images that the caller declares public, for a method's subspace; None draws them.

    Raises:
        DataError: a recipe and a method.
    """

    PANEL: ClassVar[str] = "Recipe"
    method: str | None = option(None, "See `dpdistill methods`; dos-kip if left out, dp-merf for tables.")
    recipe: str | None = option(None, "One by name, see `dpdistill methods --recipes`, or a .yaml file.")
    per_class: int | None = option(None, "Synthetic records per class; 10 if left out.")
    settings: tuple[str, ...] = option((), "A recipe field: field=value.", name="--set", kind=list[str])
    public: str | None = option(
        None, "Images that you say are public, for a method's subspace (dos): as DATA; drawn if left out.", expert=True
    )

    @property
    def default(self) -> bool:
        """Returns whether nothing is stated of the method."""
        return not (self.method or self.recipe or self.settings)


@dataclass(frozen=True, kw_only=True)
class BudgetChoice:
    """The stated part of a budget; the rest is the recipe's, or epsilon 1 at delta 1e-5 under add-remove.

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
        """Returns what is stated, by name."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


@dataclass(frozen=True, kw_only=True)
class Persons:
    """Whom a run protects: single records, or all records of a person together.

    Args:
        unit_column: the column or array that names the person of each record; None for what schema.yaml states.
        rows_per_unit: the most records of a person that are used, drawn at random; None for 4.
    """

    PANEL: ClassVar[str] = "Persons"
    unit_column: str | None = option(
        None,
        "Protect persons: the column (CSV, Parquet) or array (.npz) that names the person of each record; of "
        "class folders a word for it, and files are named PERSON_*.png.",
    )
    rows_per_unit: int | None = option(None, "Most records of a person that are used, drawn at random; 4 if left out.")

    @property
    def stated(self) -> bool:
        """Returns whether anything is stated."""
        return self.unit_column is not None or self.rows_per_unit is not None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine that a run computes on. It changes the speed, never the guarantee.

    Args:
        memory: bytes, or "512M", "4G", that records and features may take; None for half of the machine's.
        workers: processes that hold the records and add up parts of them; None leaves that to this process.
        ray: address of a Ray cluster whose machines hold the workers, or "local".
        share: folder or address that all workers see.

    Raises:
        DataError: a cluster without the number of workers, or an amount of memory that is none.
    """

    PANEL: ClassVar[str] = "Machine"
    memory: int | str | None = option(
        None,
        "What the records may take: 512M, 4G; half of all if left out. The rest is on the disk.",
        kind=str,
        expert=True,
    )
    workers: int | None = option(None, "Share the sums out to so many processes, a core each.", min=1, metavar="<int>")
    ray: str | None = option(
        None, "Address of a Ray cluster whose machines hold the --workers; `local` starts one.", expert=True
    )
    share: str | None = option(
        None, "Folder or address (s3://...) that all workers see: the records lie there for the run.", expert=True
    )
    NAMES: ClassVar[tuple[str, ...]] = ("workers", "ray", "share")

    def __post_init__(self) -> None:
        if (self.ray or self.share) and not self.workers:
            raise DataError("Expected --workers N with --ray and --share: how many processes hold the records.")
        if self.memory is not None:
            from dpdistill.storage.memory import parse_memory

            parse_memory(self.memory)


@dataclass(frozen=True, kw_only=True)
class Account:
    """How a run is paid, and what is public about it.

    Args:
        ledger: file that composes all runs on the data set; None for none.
        overwrite: replace an earlier result, and pay for a new run.
        seed: fixes everything public, never the noise; None for 0.
        class_size: records of a class, if that is public: how large the noise is compared with one class is stated.
    """

    PANEL: ClassVar[str] = "Privacy"
    ledger: str | os.PathLike | None = option(
        None,
        "File that adds up all runs on this data set; `dpdistill budget new FILE --cap ...` begins it.",
        kind=str,
    )
    overwrite: bool = option(
        False, "Replace an earlier result, and pay for a new run.", name="--overwrite", panel="Output"
    )
    seed: int | None = option(
        None,
        "Fixes everything public, never the noise; 0 if left out.",
        min=0,
        max=MAX_SEED,
        metavar="<int>",
        panel="Recipe",
        expert=True,
    )
    class_size: int | None = option(
        None,
        "Records of a class, if that is public: how large the noise is compared with one class is stated.",
        min=1,
        metavar="<int>",
        expert=True,
    )
