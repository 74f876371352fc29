"""More records at no further cost: those of a generator, or drawn pictures under a released classifier's scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.options import MAX_SEED, Folder
from dpdistill.cli.terminal import Bar, give, note, say
from dpdistill.method import Distilled
from dpdistill.schema import DataError, TableSchema
from dpdistill.storage.files import reading

LEARNED_FROM = 55_000
"""Pictures that DPImageBench trains on; it chooses by those behind them, and stops without any."""


def sample(
    folder: Folder,
    *,
    n: Annotated[int, typer.Option("--n", min=1, metavar="<int>", help="Rows, or pictures.")],
    to: Annotated[
        str, typer.Option("--out", help="For rows: a .csv or .parquet file. For pictures: a .npz file, or a folder.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            help="Of pictures: generated (the default where DIR has a generator), drawn (otherwise), mixed with the "
            "images of DIR, or equal parts of several: drawn+generated."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="Of pictures: dpimagebench writes OUT/gen/gen.npz as that benchmark reads it."),
    ] = None,
    slopes: Annotated[
        bool,
        typer.Option(
            "--slopes",
            help="Of scored pictures, in a .npz file: also how the margin between the two likeliest classes (margins) "
            "changes with every pixel (slopes; times units, where there are any), for models that learn that, too.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, metavar="<int>", help="Of what is made; public.")] = 1,
) -> None:
    """More records, at no further cost.

    Tables: rows of the generator. Images: those of the generator with their classes, or pictures that a program draws,
    with the released classifier's scores.
    """
    from dpdistill.folder.layout import GENERATOR
    from dpdistill.folder.save import read_distilled
    from dpdistill.storage.memory import check_sample

    distilled, path = read_distilled(folder), Path(to)
    check_sample(n, distilled.schema)
    if isinstance(distilled.schema, TableSchema):
        if kind is not None:
            raise DataError(f"{folder} holds a table: --kind is for pictures.")
        if form is not None:
            raise DataError(f"{folder} holds a table: --format is for pictures.")
        if slopes:
            raise DataError(f"{folder} holds a table: --slopes is for pictures.")
        _rows(folder, path, n, seed, distilled)
    else:
        kind = kind or ("generated" if (Path(folder) / GENERATOR).is_file() else "drawn")
        _pictures(folder, path, kind, form, n, seed, distilled, slopes)


def _make_room(path: Path) -> None:
    """The folder that a file will lie in: not to be missed after minutes of work."""
    with reading(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)


def _rows(folder: str, path: Path, n: int, seed: int, distilled: Distilled) -> None:
    from dpdistill.cli.pictures import generate
    from dpdistill.folder.tables import write_rows

    schema: Any = distilled.schema
    if path.suffix not in (".csv", ".parquet"):
        raise DataError(f"Expected --out as a .csv or .parquet file; got {path}.")
    if path.exists():
        raise DataError(f"{path} exists: choose another file with --out.")
    _make_room(path)
    X, y = generate(folder, n, distilled, seed)
    write_rows(path, schema.from_unit(X), y, schema)
    give(out=str(path), records=n, kind="rows")
    say(f"{path}: {n:,} synthetic rows; they cost no further epsilon.")


def _pictures(
    folder: str, path: Path, kind: str, form: str | None, n: int, seed: int, distilled: Distilled, slopes: bool
) -> None:
    from dpdistill.cli.pictures import PICTURES, kinds_of
    from dpdistill.folder.labelled import check_target, write_dpimagebench, write_labelled

    schema: Any = distilled.schema
    if not kinds_of(kind):
        raise DataError(
            f"Unknown kind {kind!r} of pictures: choose among {', '.join(PICTURES)}, or several, each once: "
            "drawn+generated."
        )
    if form not in (None, "dpimagebench"):
        raise DataError(f"Unknown format {form!r}: leave --format out, or say dpimagebench.")
    if slopes and form is not None:
        raise DataError(f"The format {form} has no place for slopes: leave --slopes or --format out.")
    if slopes and kind == "generated":
        raise DataError(
            "Expected --slopes with scored pictures, such as --kind drawn or mixed; generated have classes."
        )
    if slopes and path.suffix != ".npz":
        raise DataError(f"Expected --out as a .npz file with --slopes; got {path}.")
    check_target(path, folder_only=form is not None)
    _make_room(path)
    generated = kind == "generated"
    made = _generated(folder, n, seed, distilled) if generated else _scored(folder, kind, n, seed, distilled, slopes)
    X, y, scores, about, more = made
    if form is None:
        what = "; ".join(PICTURES[each] for each in kinds_of(kind))
        write_labelled(path, X, y, scores, schema, {"pictures": what, "seed": seed, **about}, more)
    else:
        write_dpimagebench(path, X, y)
        if n <= LEARNED_FROM:
            note(f"DPImageBench trains on the first {LEARNED_FROM:,} pictures and chooses by the rest: take --n 60000.")
    give(out=str(path), records=n, kind=kind)
    said = "their classes" if generated else "the released classifier's scores"
    say(f"{path}: {n:,} {kind} pictures with {said}; they cost no further epsilon.")


def _generated(folder: str, n: int, seed: int, distilled: Distilled) -> tuple[Any, Any, None, dict, dict]:
    """Pictures of the generator, their classes, no scores, what they are, and nothing beside them."""
    from dpdistill.cli.pictures import generate
    from dpdistill.folder.layout import GENERATOR, sha256

    X, y = generate(folder, n, distilled, seed)
    about = {
        "classes": "by the released shares",
        "generator_sha256": sha256(Path(folder) / GENERATOR),
        "guarantee": "post-processing of the release: that of the certificate in the folder of the generator",
    }
    return X, y, None, about, {}


def _scored(
    folder: str, kind: str, n: int, seed: int, distilled: Distilled, slopes: bool
) -> tuple[Any, Any, Any, dict, dict]:
    """Pictures, the class of the largest score, the classifier's scores, what they are, and their slopes if wanted."""
    from dpdistill.cli.pictures import MORE_IMAGES, check_generator, kinds_of, make_pictures
    from dpdistill.folder.layout import CLASSIFIER, GENERATOR, SYNTHETIC, TRAINING, sha256

    if distilled.classifier is None:
        if (Path(folder) / GENERATOR).is_file():
            raise DataError(f"{folder} has no released classifier, but a generator: say --kind generated.")
        raise DataError(f"{folder} has no released classifier: its images are all there are. {MORE_IMAGES}")
    from dpdistill.cli.recipes import teacher_in
    from dpdistill.kernels.ridge import centred

    if "generated" in kinds_of(kind):
        check_generator(folder, distilled.schema)
    teacher: Any = teacher_in(folder, distilled)
    X = make_pictures(kind, n, folder, distilled, seed)
    with Bar() as bar:
        scores, more = _sloped(teacher, X, bar) if slopes else (centred(teacher(X, progress=bar)), {})
    about = {
        "targets": "scores of the released classifier, centred over the classes; y is the largest",
        "classifier_sha256": sha256(Path(folder) / CLASSIFIER),
        "guarantee": "post-processing of the release: that of the certificate in the folder of the classifier",
    }
    if "mixed" in kinds_of(kind):
        about["images_sha256"] = sha256(Path(folder) / (SYNTHETIC if distilled.training is None else TRAINING))
    if "generated" in kinds_of(kind):
        about["generator_sha256"] = sha256(Path(folder) / GENERATOR)
    if slopes:
        about["slopes"] = "gradient of targets[margins[0]] - targets[margins[1]] by the numbers of X"
        if "units" in more:
            about["units"] = "multiply a network's gradients and slopes by these before they are compared"
    return X, scores.argmax(1), scores, about, more


def _sloped(teacher: Any, X: Any, progress: Any) -> tuple[Any, dict[str, Any]]:
    """Centred scores, the two likeliest classes of a picture, and how their margin changes with its raw numbers."""
    from dpdistill.evaluation.student import likeliest, margin_weights
    from dpdistill.kernels.ridge import centred

    scores, gradients = teacher.sloped(X, lambda scores: margin_weights(centred(scores)), progress=progress)
    scores, (low, high) = centred(scores), teacher.schema.bounds
    margins = likeliest(scores).astype("<i8")
    made = {"margins": margins, "slopes": (gradients * (2.0 / (high - low))).astype("<f4")}
    return scores, made if (units := teacher.units(X)) is None else {**made, "units": units.astype("<f4")}
