"""Executes one run of a suite in its own process: distils, saves, scores, and returns a line of results."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpdistill.api.pictures import pictures_of
from dpdistill.benchmark.scoring import RECIPE, Student
from dpdistill.benchmark.sources import open_public, open_source
from dpdistill.benchmark.suite import REAL, Run
from dpdistill.certificate.build import read_certificate, versions
from dpdistill.errors import LedgerError
from dpdistill.evaluation import (
    TRAININGS,
    Teacher,
    score_classifier,
    score_krr,
    score_pixels,
)
from dpdistill.evaluation.images import networks_named, trained_networks
from dpdistill.evaluation.score import TestSet, test_set
from dpdistill.evaluation.scored import Nets
from dpdistill.evaluation.students import choose_teacher, own_lesson, student_training, taught_networks
from dpdistill.evaluation.tables import score_tables
from dpdistill.evaluation.teacher import kernel_in, regressions, teacher_in
from dpdistill.folder.layout import CERTIFICATE, sha256
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method
from dpdistill.public_images.image_source import PublicImages
from dpdistill.recipe.build import from_fields
from dpdistill.recipe.parts import implement
from dpdistill.run import driver
from dpdistill.run.driver import backend
from dpdistill.schema import Schema
from dpdistill.storage.records import Records

SETS, RUNS = "sets", "runs"
"""Subfolders of a benchmark: the synthetic sets, one per run, and the owner's folders of the releases."""
_CLAIMS = ("claim", "relation", "noise", "schedule", "backend", "date")

Score = dict[str, Any]
"""Type of a score: {"score": name, "by": model, "value": percent, or None if undefined}."""


def compute(run: Run, suite: Path, data: Path, out: Path) -> dict[str, Any]:
    """Returns the line of a run: recipe, certificate, versions, device, seconds, memory and scores; or an error."""
    facts = {"name": run.name, "run": asdict(run)}
    try:
        finished, device = _finished(run, suite, data, out), "cpu" if run.method == REAL else backend()
        return {**facts, **finished, "device": device, "peak_mb": peak_memory(), "error": None}
    except Exception as error:  # a failed run must not stop other runs
        return {**facts, "error": " ".join(f"{type(error).__name__}: {error}".split())}


def peak_memory() -> int | None:
    """Returns the peak memory of this process in MB; None if the system does not report it."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), None)


def _finished(run: Run, suite: Path, data: Path, out: Path) -> dict[str, Any]:
    # Scoring undersamples the majority class of real rows.
    source = replace(run.source, keep=1.0) if run.method == REAL else run.source
    records, test = open_source(source, data, suite, run.score.mode == "paper", run.repeat)
    began = _clocks()
    if run.method == REAL:
        stated: dict[str, Any] = {"origin": "real records, without privacy", "release": None, "certificate": None}
        scores, made = list(_table_scores(run, records, test)), began
    else:
        folder = out / SETS / run.name
        saved = _distil(run, records, open_public(run, data), out).save(folder, overwrite=True)
        made, certificate = _clocks(), read_certificate(saved)
        stated = {"origin": certificate["recipe"]["origin"], "release": certificate["releases"] or run.release}
        stated["certificate"] = {key: certificate[key] for key in _CLAIMS}
        stated["certificate"]["sha256"] = sha256(folder / CERTIFICATE)
        scores = list((_table_scores if run.source.schema else _image_scores)(run, folder, test))
    found = versions() | ({"scikit-learn": version("scikit-learn")} if run.source.schema else {})
    took = zip(("seconds", "cpu_seconds"), began, made, _clocks(), strict=True)
    seconds = {name: {"distil": round(b - a, 1), "score": round(c - b, 1)} for name, a, b, c in took}
    return {**stated, "versions": found, **seconds, "scores": scores}


def _clocks() -> tuple[float, float]:
    """Returns wall-clock seconds and processor seconds."""
    return time.perf_counter(), time.process_time()


def _distil(run: Run, records: Records, public: PublicImages | None, out: Path) -> Any:
    """Distils from releases if they are paid already, else from the records.

    An incomplete release of another run is completed with that run's recipe, so that nothing is paid twice.
    """
    method: Method = run.build(public)
    if run.budget is None:
        return driver.distill_without_privacy(records, method, seed=run.repeat, named=run.recipe or None)
    run_dir = out / RUNS / f"{run.release}.run"
    wanted = method, run.recipe or None
    again = partial(driver.finish_again, run_dir, method, budget=run.budget, named=wanted[1])
    try:
        return again()
    except LedgerError:  # the release is missing or incomplete
        pass
    try:
        recipe = RunLedger.read(run_dir).recipe
        fields: dict[str, Any] = recipe["fields"] if public is None else {**recipe["fields"], "public_images": public}
        begun = implement(from_fields(recipe["method"], fields), Method), recipe.get("named")
    except LedgerError:
        begun = wanted
    found = driver.distill(records, begun[0], run.budget, seed=run.repeat, run_dir=run_dir, named=begun[1])
    return found if begun == wanted else again()


def _image_scores(run: Run, folder: Path, test: Records) -> Iterator[Score]:
    distilled, how, seed = read_distilled(folder), run.score, run.repeat
    schema, (X, y) = distilled.schema, distilled.train_set
    assert isinstance(schema, Schema)
    data = test_set(schema, test)
    training = TRAININGS[how.training]
    nets = Nets(
        architectures=networks_named(how.architectures, schema), number=how.nets, flip=run.source.mirror, seed=seed
    )
    for title, score in trained_networks((X, y), distilled.soft_labels, schema, data, training, nets):
        yield _score(title, score.mean, f"{how.training} training, {how.nets} net{'s' * (how.nets > 1)}")
    fits = [regressions(() if name == RECIPE else (name,), None, kernel_in(str(folder))) for name in how.kernels]
    for name, (kernel, ridge) in (fit for each in fits for fit in each.items()):
        score = score_krr(*distilled.support_set, schema, data, kernel=kernel, ridge=ridge, targets=distilled.targets)
        yield _score("KRR", score.mean, f"{name}, ridge {ridge:g}")
    if (released := teacher_in(str(folder), distilled)) is not None:
        yield _score("released classifier", score_classifier(released, data).mean, "")
    for name in how.classifiers:
        score = score_pixels(X, y, schema, data, name=name, seed=seed)
        yield _score(f"{name} on pixels", score.mean, f"{len(X):,} images")
    if how.student is not None:
        yield from _student_scores(run, how.student, str(folder), distilled, released, data)


def _student_scores(
    run: Run, how: Student, folder: str, distilled: Distilled, released: Teacher | None, test: TestSet
) -> Iterator[Score]:
    """Yields the scores of students, which never share a table with networks trained on the set."""
    fits = regressions((), None, kernel_in(folder))
    teacher = choose_teacher(distilled, released, fits, how.taught_by)
    pictures = pictures_of(how.pictures, how.number, folder, distilled, run.repeat)
    assert isinstance(distilled.schema, Schema)
    networks = networks_named(how.architectures, distilled.schema)
    nets = Nets(architectures=networks, number=run.score.nets, flip=run.source.mirror, seed=run.repeat)
    training, then = student_training(how.slopes, how.epochs), own_lesson(distilled) if how.then_set else None
    for title, by, score in taught_networks(teacher, pictures, test, nets, training, then=then):
        yield _score(f"{title}, taught", score.mean, f"{by}, {run.score.nets} net{'s' * (run.score.nets > 1)}")


def _table_scores(run: Run, training: Path | Records, test: Records) -> Iterator[Score]:
    mode, rows = run.score.mode, training if isinstance(training, Records) else read_distilled(training)
    keep = run.source.keep if mode == "paper" else 1.0
    scores = score_tables(rows, test, mode=mode, keep=keep, seed=run.repeat)
    for metric, value in zip(scores.metrics, scores.mean.values, strict=True):
        how = f"mean of {len(scores.classifiers)} classifiers, {scores.training_rows:,} rows"
        yield _score(f"{metric}, mode {mode}", 100.0 * value, how)


def _score(score: str, value: float, by: str) -> Score:
    return {"score": score, "by": by, "value": None if math.isnan(value) else round(value, 2)}
