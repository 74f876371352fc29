"""Common options and results of `evaluate` and `student`: networks, regressions, held-out images, scores."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Container, Iterable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dpdistill.api.listener import Listener
from dpdistill.api.options import MAX_SEED, option
from dpdistill.api.reading import check_source
from dpdistill.recipe.kernel_names import kernel_named
from dpdistill.recipe.names import check_names
from dpdistill.recipe.networks import ARCHITECTURES
from dpdistill.schema import DataError, Schema, TableSchema

if TYPE_CHECKING:
    from dpdistill.audits.reference import Nearness
    from dpdistill.evaluation.images import Regressions
    from dpdistill.evaluation.scored import Nets, Scored
    from dpdistill.evaluation.table_scores import TableScores
    from dpdistill.method import Distilled
    from dpdistill.storage.records import Records

NOTE = "Computed from the private records, for their owner: not covered by epsilon."


@dataclass(frozen=True, kw_only=True)
class HeldOutImages:
    """Options of reading held-out images, with the shape and classes of the synthetic set.

    Args:
        labels: label kind to read where there are several.
        lenient: leave out unreadable records and records of other classes, instead of stopping at the first one.
    """

    PANEL: ClassVar[str] = "Data"
    labels: str | None = option(
        None,
        "Label kind where there are several: fine or coarse of CIFAR-100, or a column of Parquet.",
        expert=True,
    )
    lenient: bool = option(
        False, "Leave out unreadable real records and records of other classes.", name="--lenient/--strict"
    )


@dataclass(frozen=True, kw_only=True)
class Networks:
    """Networks to train, and their number.

    Args:
        architecture: names of architectures; the ConvNet if empty.
        nets: number of independent nets per architecture.
        flip: mirror images while training: for photographs.
        seed: seed of the nets and of all other random numbers.

    Raises:
        DataError: an unknown architecture, or a number out of its bounds.
    """

    PANEL: ClassVar[str] = "Networks"
    architecture: tuple[str, ...] = option(
        (),
        "Architecture: convnet (the default), convnet64 (half as wide), mlp, lenet, vgg11, resnet18 or vit; several "
        "times for several architectures.",
        kind=list[str],
    )
    nets: int = option(
        1, "Number of independent nets; of several the mean and the standard deviation.", min=1, metavar="<int>"
    )
    flip: bool = option(False, "Mirror images while training: for photographs.", name="--flip")
    seed: int = option(0, "Seed of the nets.", min=0, max=MAX_SEED, metavar="<int>", panel="Recipe", expert=True)

    def __post_init__(self) -> None:
        check_names("architecture", self.architecture, ARCHITECTURES)
        if self.nets < 1:
            raise DataError(f"Expected nets={self.nets} >= 1.")
        if not 0 <= self.seed <= MAX_SEED:
            raise DataError(f"Expected a seed from 0 to {MAX_SEED}; got {self.seed}.")

    def nets_for(self, schema: Schema) -> Nets:
        """Returns the networks, checked against the schema.

        Raises:
            DataError: a network that does not accept the schema's records.
        """
        from dpdistill.evaluation.images import networks_named
        from dpdistill.evaluation.scored import Nets

        networks = networks_named(self.architecture or ("convnet",), schema)
        return Nets(architectures=networks, number=self.nets, flip=self.flip, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class Regression:
    """Kernel ridge regression on a synthetic set.

    Args:
        kernel: names of kernels; by default the recipe's, or scatternet where the recipe has none.
        ridge: ridge of all kernels; None for the recipe's with the recipe's kernel, and 0.001 with others.

    Raises:
        DataError: an unknown kernel, or an invalid ridge.
    """

    PANEL: ClassVar[str] = "Other scores"
    kernel: tuple[str, ...] = option(
        (), "Kernel of kernel ridge regression, see `dpdistill methods`; the recipe's or scatternet.", kind=list[str]
    )
    ridge: float | None = option(None, "Ridge of kernel ridge regression; the recipe's, or 0.001.", expert=True)

    def __post_init__(self) -> None:
        for each in self.kernel:
            kernel_named(each)
        if self.ridge is not None and not 0.0 <= self.ridge < math.inf:
            raise DataError(f"Expected ridge={self.ridge} >= 0.")

    def fits(self, folder: str | os.PathLike, schema: Schema) -> Regressions:
        """Returns kernels and ridges by name, checked against the schema.

        Raises:
            DataError: a recipe that cannot be read, or a kernel or ridge that cannot be used.
        """
        from dpdistill.evaluation import check_krr
        from dpdistill.evaluation.teacher import kernel_in, regressions

        fits = regressions(self.kernel, self.ridge, kernel_in(str(folder)))
        for each in fits.values():
            check_krr(*each, schema)
        return fits


def check_sides(networks: Networks, schema: Schema) -> None:
    """Refuses images that are too small for the networks.

    Raises:
        DataError: such a network, with its smallest image.
    """
    for name in networks.architecture:
        if min(schema.shape[:2]) < (least := ARCHITECTURES[name].least_side):
            raise DataError(f"Architecture {name} takes images with sides >= {least}; got {schema.shape}.")


def open_set(folder: str | os.PathLike, test: Any, sql: str | None = None) -> Distilled:
    """Returns the synthetic set of a folder, after checking that the held-out records exist.

    Raises:
        DataError: no synthetic set, or no held-out records.
    """
    from dpdistill.folder.save import read_distilled
    from dpdistill.storage.records import Records

    distilled = read_distilled(folder)
    if not isinstance(test, Records):
        check_source(test, isinstance(distilled.schema, TableSchema), sql)
    return distilled


def read_held_out(test: Any, schema: Schema, how: HeldOutImages, listener: Listener) -> Records:
    """Returns held-out images of the shape and classes of a synthetic set.

    Raises:
        DataError: images that cannot be read, or that do not fit the set.
    """
    from dpdistill.sources.load import load
    from dpdistill.storage.records import Records
    from dpdistill.storage.test_set import check_test_set

    if isinstance(test, Records):
        records = test
    else:
        records = load(test, "test", like=schema, labels=how.labels, strict=not how.lenient)
    check_test_set(schema, records)
    note_left_out(records, "test", listener)
    return records


def note_left_out(records: Records, what: str, listener: Listener) -> None:
    """Notes how many unreadable records and records of other classes are left out."""
    if left := int((records.y < 0).sum()):
        listener.note(f"{left:,} of {len(records):,} {what} records are left out: unreadable or of other classes.")


@dataclass(frozen=True)
class Evaluation:
    """Scores of a synthetic set on held-out records; printed as on the command line.

    Args:
        scores: scores by their names in --json and scores.json; accuracies of images in percent.
        found: individual scores, with the accuracy of every net.
        real: scores of the same models on real records (`Reference`), for the owner: not covered by epsilon.
        nearness: distances between records of the set and real ones; None without a reference.
    """

    scores: dict[str, Any]
    found: tuple[Scored, ...]
    real: tuple[Scored, ...] = ()
    nearness: Nearness | None = None

    @property
    def table(self) -> TableScores | None:
        """Returns the scores of every classifier of a table; None for images."""
        from dpdistill.evaluation.table_scores import TableScores

        tables = (each.score for each in self.found)
        return next((each for each in tables if isinstance(each, TableScores)), None)

    def __repr__(self) -> str:
        return f"Evaluation(scores={self.scores!r})"

    def __str__(self) -> str:
        nearness = () if self.nearness is None else (self.nearness.text, NOTE)
        return "\n".join((*(each.text for each in (*self.found, *self.real)), *nearness))


def listed(scores: Iterable[Scored], listener: Listener) -> tuple[Scored, ...]:
    """Returns scores; the listener receives the line of each as soon as the score is computed."""
    found = []
    for each in scores:
        listener.line(each.text)
        found.append(each)
    return tuple(found)


def check_page(folder: str | os.PathLike) -> None:
    """Refuses a folder whose report cannot be written again, before minutes of training.

    Raises:
        DataError, CertificateError: a file of the folder that cannot be read.
    """
    from dpdistill.publish.report.folder import read_folder

    read_folder(Path(folder))


def scores_in(folder: str | os.PathLike) -> dict[str, Any]:
    """Returns the scores in a folder's scores.json; empty without that file.

    Raises:
        DataError: a file that cannot be read.
    """
    from dpdistill.folder.layout import SCORES, read_object

    path = Path(folder) / SCORES
    return read_object(path) if path.exists() else {}


def write_scores(folder: str | os.PathLike, scores: Mapping[str, Any], listener: Listener) -> None:
    """Writes scores.json into a folder, and updates its report and documents."""
    from dpdistill.folder.layout import SCORES
    from dpdistill.publish.export import renew_documents
    from dpdistill.publish.report import write_report
    from dpdistill.storage.atomic import write_atomically

    text = json.dumps(scores, indent=2) + "\n"
    write_atomically(Path(folder) / SCORES, lambda file: file.write(text.encode()))
    if left := renew_documents(Path(folder)):
        listener.warn(
            f"{' and '.join(left)}: changed since the run or written by another version, and not updated."
            f" State there that {SCORES} holds scores on real records, which epsilon does not cover;"
            " `dpdistill export` writes updated documents."
        )
    write_report(Path(folder))


def refuse_others(folder: str | os.PathLike, parts: Iterable[Any], names: Container[str], *, table: bool) -> None:
    """Refuses stated options for the other kind of records.

    Args:
        folder: folder of the set.
        parts: dataclasses of options.
        names: fields for the other kind.
        table: True for a table.

    Raises:
        DataError: such options.
    """
    holds, of = ("a table", "images") if table else ("images", "tables")
    stated = [
        option_name(each)
        for part in parts
        for each in fields(part)
        if each.name in names and getattr(part, each.name) != each.default
    ]
    if stated:
        raise DataError(f"{folder} holds {holds}: {', '.join(stated)} {'are' if stated[1:] else 'is'} for {of}.")


def option_name(field: Field[Any]) -> str:
    """Returns the command-line option of a field, such as --reference-sql."""
    name = field.metadata["option"]["name"] or f"--{field.name.replace('_', '-')}"
    return name.partition("/")[0]
