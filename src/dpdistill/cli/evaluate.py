"""Scores of a synthetic set on held-out records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.cli.evaluate_checks import (
    check_choices,
    check_fit,
    check_kind_of_options,
    check_pictures,
    check_reference,
    check_student,
    note_left_out,
    opened,
    read_test_images,
    schema_of_rows,
    split_names,
)
from dpdistill.cli.options import MAX_SEED, SOURCES, SQL, Folder, Labels, table_source
from dpdistill.cli.pictures import generate
from dpdistill.cli.reference import image_reference, real_images, table_reference, table_scores
from dpdistill.cli.settings import check_names
from dpdistill.cli.students import own_lesson, pictures_of, student_scores, teacher_named, training_of
from dpdistill.cli.terminal import Bar, give, say, warn
from dpdistill.schema import DataError, TableSchema


def evaluate(
    context: typer.Context,
    folder: Folder,
    test: Annotated[str, typer.Option(help=f"Held-out records: {SOURCES} CSV or Parquet, or a database, with --sql.")],
    sql: Annotated[str | None, typer.Option(help=SQL.replace("DATA", "--test"))] = None,
    labels: Labels = None,
    lenient: Annotated[
        bool,
        typer.Option("--lenient/--strict", help="Leave out real records of other classes, and what cannot be read."),
    ] = False,
    nets: Annotated[int, typer.Option(min=1, metavar="<int>", help="Independent nets.")] = 3,
    training: Annotated[
        str | None,
        typer.Option(
            help="quick, mixup (the same on mixtures of two records), muon (the same by another optimiser, best for "
            "photographs), paper (a thousand epochs), or large (few epochs, no augmentation): the default for more "
            "than 20,000 records, and for those of --generated."
        ),
    ] = None,
    architecture: Annotated[
        list[str] | None,
        typer.Option(
            help="Of the nets: convnet (the default), convnet64 (half as wide), mlp, lenet, vgg11, resnet18 or vit; "
            "several times for several."
        ),
    ] = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            help='Of images: one of the twelve classifiers of tables too, on pixels: "logistic regression", MLP.'
        ),
    ] = None,
    classifiers: Annotated[
        str | None,
        typer.Option(help='Of a table: which of the twelve, "LDA,MLP", or fast for those that take seconds.'),
    ] = None,
    flip: Annotated[bool, typer.Option("--flip", help="Mirror images while training: for photographs.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, metavar="<int>", help="Of the nets.")] = 0,
    kernel: Annotated[
        list[str] | None,
        typer.Option(help="Of kernel ridge regression, see `dpdistill methods`; the recipe's, or scatternet."),
    ] = None,
    ridge: Annotated[float | None, typer.Option(help="Of kernel ridge regression; the recipe's, or 0.001.")] = None,
    schema: Annotated[
        str | None, typer.Option(help="The schema.yaml of a test table that is written in another way than DIR's.")
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Also train nets on a teacher's scores of these pictures: drawn, mixed (drawn ones and the images of "
            "DIR), generated, equal parts of several (drawn+generated), or DATA."
        ),
    ] = None,
    taught_by: Annotated[
        str | None,
        typer.Option(
            help="Of --teacher: classifier, the released one, or krr, kernel ridge regression on the set; "
            "the first where DIR has one."
        ),
    ] = None,
    slopes: Annotated[
        bool,
        typer.Option(
            "--slopes",
            help="Of --teacher: also learn how its scores change with each pixel. Two to three times the seconds, and "
            "as many pictures teach more.",
        ),
    ] = False,
    then_set: Annotated[
        bool,
        typer.Option(
            "--then-set",
            help="Train the nets that learned from --teacher further, on the set itself: both tell them something.",
        ),
    ] = False,
    student_epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Of the nets that learn from --teacher; 4 if left out."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--pictures", min=1, metavar="<int>", help="How many of them, unless DATA; 20,000 if left out."),
    ] = None,
    generated: Annotated[
        int, typer.Option(min=0, metavar="<int>", help="Also train nets on so many images of DIR's generator.")
    ] = 0,
    distance: Annotated[
        list[str] | None,
        typer.Option(
            help="Fréchet and kernel distance of the images (with --generated, of those) to the test set, over "
            "a kernel's features, such as scatternet, or a network's last hidden layer with weights of yours: "
            "resnet18=FILE.npz. Not comparable with those over Inception's."
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="The real records that DIR was made from: what as many of them reach, what all of them reach, and how "
            "near DIR's are to them. For their owner: not covered by epsilon."
        ),
    ] = None,
    reference_sql: Annotated[str | None, typer.Option(help=SQL.replace("DATA", "--reference"))] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, metavar="<int>", help="Of nets that learn from all of those; 3 if left out."),
    ] = None,
    include_scores: Annotated[
        bool, typer.Option("--include-scores", help="Add the scores to DIR and its report: not covered by epsilon.")
    ] = False,
) -> None:
    """Train models on the synthetic records and score them on a test set.

    Images: networks and kernel ridge regression. Tables: twelve classifiers.
    """
    # What can be refused without JAX is refused before it is imported.
    distilled = opened(folder, test, sql)
    table = isinstance(distilled.schema, TableSchema)
    check_kind_of_options(context, folder, table=table)
    check_reference(reference, reference_sql, include_scores, table, epochs)
    if table:
        table_file = schema_of_rows(folder, schema, distilled.schema)
    check_student(teacher, taught_by, slopes, student_epochs, then_set)
    check_pictures(folder, distilled, teacher, taught_by, number, generated)
    check_choices(training, architecture, classifier, classifiers, kernel, distance)
    check_fit(architecture or [], ridge, distilled.schema)
    records = None if table else read_test_images(test, distilled.schema, labels, strict=not lenient)
    from dpdistill.cli.recipes import kernel_in, teacher_in
    from dpdistill.evaluation import available, training_for
    from dpdistill.publish.report.folder import read_folder

    check_names("classifier", classifier or [], available() if classifier else ())
    if include_scores:
        read_folder(folder)  # what cannot be used is refused here, before minutes of training
    if table:
        how = {"strict": not lenient, "seed": seed, "names": _listed(classifiers)}
        real = None if reference is None else table_source(reference, reference_sql)
        scores = _evaluate_table(distilled, table_source(test, sql), real, table_file, **how)
        give(scores=scores)
        _include(folder, scores, wanted=include_scores)
        return
    facts = distilled.schema
    networks = _networks(architecture or ["convnet"], facts)
    fits = _regressions(kernel or (), ridge, kernel_in(folder), facts)
    measured = _feature_kernels(distance or (), facts)
    released = teacher_in(folder, distilled)
    real = None if reference is None else real_images(reference, facts, labels, strict=not lenient)
    teaches = None if teacher is None else teacher_named(distilled, released, fits, taught_by)
    pictures = None if teacher is None else pictures_of(teacher, number or 20_000, folder, distilled, seed)
    more = generate(folder, generated, distilled, seed) if generated else None
    how, student = {"nets": nets, "flip": flip, "seed": seed}, training_of(slopes, student_epochs)
    used = training_for(len(distilled.train_set[0]), training)
    scores = _scores(distilled, records, fits, released, networks, used, **how)
    then = own_lesson(distilled) if then_set else None
    scores |= student_scores(teaches, pictures, records, networks, student, then=then, **how)
    if more is not None:
        learned = _soft_labels(more, released, distilled, folder)
        scores |= _generated_scores(more, facts, records, networks, learned, training, **how)
    scores |= _pixel_scores(distilled, records, classifier or [], seed)
    scores |= _distances(distilled, more, records, measured, seed)
    give(scores=scores)
    if real is not None:
        image_reference(distilled, real, records, networks, fits, training, epochs or 3, **how)
    _include(folder, scores, wanted=include_scores)


def _listed(classifiers: str | None) -> tuple[str, ...] | None:
    """The classifiers that --classifiers names, all of which are installed."""
    from dpdistill.evaluation.classifiers import chosen

    return None if classifiers is None else chosen(split_names(classifiers))


def _evaluate_table(distilled: Any, test: Any, reference: Any, table_file: Any, strict: bool, **how: Any) -> dict:
    """Scores of a synthetic table, and what real rows reach beside it."""
    from dpdistill.sources.tables.load import load_table

    records = load_table(test, table_file, strict=strict)
    note_left_out(records, "test")
    real = None if reference is None else load_table(reference, table_file, strict=strict)
    scores = table_scores(distilled, records, **how)
    if real is not None:
        note_left_out(real, "real")
        table_reference(distilled, real, records, **how)
    return scores


def _networks(names: list[str], schema: Any) -> list[Any]:
    """The networks of these names, each of which takes records of the schema."""
    from dpdistill.evaluation import ARCHITECTURES, check_network

    networks = [ARCHITECTURES[name] for name in dict.fromkeys(names)]
    for network in networks:
        check_network(network, schema)
    return networks


def _regressions(names: Iterable[str], ridge: float | None, recipe: Any, schema: Any) -> dict[str, Any]:
    """Kernels and ridges by name, each of which takes records of the schema."""
    from dpdistill.cli.recipes import regressions
    from dpdistill.evaluation import check_krr

    fits = regressions(names, ridge, recipe)
    for each in fits.values():
        check_krr(*each, schema)
    return fits


def _include(folder: str, scores: dict, *, wanted: bool) -> None:
    """Add the scores to the folder and its report, where they are wanted."""
    if not wanted:
        return
    from dpdistill.folder.layout import SCORES
    from dpdistill.publish.export import renew_documents
    from dpdistill.publish.report import write_report
    from dpdistill.storage.atomic import write_atomically

    text = json.dumps(scores, indent=2) + "\n"
    write_atomically(Path(folder) / SCORES, lambda file: file.write(text.encode()))
    if left := renew_documents(folder):
        warn(
            f"{' and '.join(left)}: changed since the run or written by another version, and left as they are."
            f" Say there that {SCORES} holds scores on real records, which epsilon does not cover;"
            " `dpdistill export` writes documents that do."
        )
    write_report(folder)


def _soft_labels(more: Any, released: Any, distilled: Any, folder: str) -> Any:
    """Soft labels of generated images as the set has them; None without a released classifier or a softness."""
    from dpdistill.cli.recipes import softness_in
    from dpdistill.kernels.ridge import soft_labels

    softness = 0.0 if distilled.soft_labels is None else softness_in(folder)
    if released is None or not softness:
        return None
    with Bar() as bar:
        return soft_labels(released(more[0], progress=bar), more[1], softness)


def _generated_scores(
    more: Any, schema: Any, test: Any, networks: list, labels: Any, training: str | None, **how: Any
) -> dict:
    """Scores of networks that learn from images of the generator and their classes, or soft labels."""
    from dpdistill.evaluation import TRAININGS, score_network

    (X, y), scores = more, {}
    for network in networks:
        learned = {"training": replace(TRAININGS[training or "large"], network=network), "soft_labels": labels}
        with Bar() as bar:
            score = score_network(X, y, schema, test, progress=bar, **learned, **how)
        what = f"{network.title} accuracy, trained on {len(y):,} generated pictures"
        what += "" if labels is None else " with soft labels"
        what += "" if training is None else f", {training} training"
        say(f"{what}: {score.mean:.2f} %")
        scores[f"{what}, %"] = round(score.mean, 2)
    return scores


def _pixel_scores(distilled: Any, test: Any, names: list[str], seed: int) -> dict:
    """Scores of classifiers of tables, on the pixels of the images that models are trained on."""
    from dpdistill.evaluation import score_pixels

    (X, y), scores = distilled.train_set, {}
    for name in names:
        score = score_pixels(X, y, distilled.schema, test, name=name, seed=seed)
        say(f"{name} accuracy: {score.mean:.2f} % (on pixels)")
        scores[f"{name} accuracy, on pixels, %"] = round(score.mean, 2)
    return scores


def _feature_kernels(names: Iterable[str], schema: Any) -> dict[str, Any]:
    """Kernels by name, or of a network's last hidden layer (network=FILE.npz), in the order they were asked for."""
    from dpdistill.evaluation import ARCHITECTURES, check_krr, check_network
    from dpdistill.kernels.feature import FeatureKernel
    from dpdistill.networks.parameters import Hidden, read_parameters, sized
    from dpdistill.recipe.build import kernel_named
    from dpdistill.recipe.parts import implement

    kernels: dict[str, Any] = {}
    for name in names:
        network, given, path = name.partition("=")
        if not given:
            kernels[name] = implement(kernel_named(name, "distance"))
            continue
        used = sized(ARCHITECTURES[network], path)
        if not getattr(used, "widths", used):
            raise DataError(f"Expected --distance {network}=FILE with a hidden layer; {path} has none.")
        check_network(used, schema)
        params = read_parameters(path, used, schema.shape)
        # Not its path: it says where the evaluator keeps files, and scores may be added to the shared folder.
        kernels[f"{network} with given weights{f' ({len(kernels) + 1})' if kernels else ''}"] = FeatureKernel(
            Hidden(used, params)
        )
    if without := [name for name, kernel in kernels.items() if kernel.features is None]:
        raise DataError(f"Expected --distance as a kernel with features, such as scatternet: {without[0]} has none.")
    for each in kernels.values():
        check_krr(each, 0.0, schema)
    return kernels


def _distances(distilled: Any, more: Any, test: Any, kernels: dict[str, Any], seed: int) -> dict:
    """Distances of the generated images, or of those of the set where there are none, to the test set."""
    from dpdistill.evaluation import score_distances

    own = "images of the set" if distilled.training is None else "tiles of the set's images"
    X, what = (distilled.train_set[0], own) if more is None else (more[0], "generated images")
    scores = {}
    for name, kernel in kernels.items():
        with Bar() as bar:
            found = score_distances(X, distilled.schema, test, kernel=kernel, seed=seed, progress=bar)
        title = f"distance of {found.images:,} {what} to {found.real:,} real ones over {name}"
        say(f"Fréchet {title}: {found.frechet:.3f} of the real images' variance; kernel distance {found.kernel:.4f}")
        scores[title] = {"Fréchet": round(found.frechet, 4), "kernel": round(found.kernel, 5)}
    return scores


def _scores(distilled: Any, test: Any, fits: dict, released: Any, networks: list, training: str, **how: Any) -> dict:
    """Score a synthetic set in every way, say each result, and return all as scores.json has them, in percent."""
    from dpdistill.evaluation import TRAININGS, score_classifier, score_krr, score_network

    schema, targets, nets = distilled.schema, distilled.targets, how["nets"]
    X, y = distilled.train_set
    spread = f"mean ± std over {nets} nets" if nets > 1 else "1 net"
    soft = "" if distilled.soft_labels is None else ", soft labels"
    scores: dict[str, Any] = {}
    for network in networks:
        recipe = replace(TRAININGS[training], network=network)
        with Bar() as bar:
            learned = {"training": recipe, "soft_labels": distilled.soft_labels}
            score = score_network(X, y, schema, test, progress=bar, **learned, **how)
        say(f"{network.title} accuracy: {score} ({spread}, {training} training{soft})")
        scores[f"{network.title} accuracy, %"] = {"mean": round(score.mean, 2), "std": round(score.std, 2)}
    regression = {}
    scores |= {"nets": nets, "training": training, "KRR accuracy, %": regression}
    X, y = distilled.support_set
    for name, (kernel, ridge) in fits.items():
        with Bar() as bar:
            score = score_krr(X, y, schema, test, kernel=kernel, ridge=ridge, targets=targets, progress=bar)
        say(f"KRR accuracy: {score.mean:.2f} % ({name}, ridge {ridge:g})")
        regression[f"{name}, ridge {ridge:g}"] = round(score.mean, 2)
    if released is not None:
        with Bar() as bar:
            score = score_classifier(released, test, progress=bar)
        say(f"Released classifier accuracy: {score.mean:.2f} %")
        scores["released classifier accuracy, %"] = round(score.mean, 2)
    return scores
