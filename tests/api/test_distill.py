"""dp.distill: what contradicts itself is refused, and nothing about a record reaches the log."""

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dpdistill as dp
from dpdistill.api.listener import Listener
from dpdistill.api.prepare import chosen_recipe

METHOD = dp.LDPDC(per_class=1, sampling_prob=1.0)
X = np.random.default_rng(0).integers(0, 255, (40, 8, 8), dtype=np.uint8)
Y = np.arange(40) % 3


@pytest.fixture
def source(tmp_path) -> Path:
    np.savez(tmp_path / "a.npz", X=X, y=Y, patient=np.array([f"p{i % 9}" for i in range(40)]), classes=["0", "1", "2"])
    return tmp_path / "a.npz"


@pytest.mark.parametrize("persons", [dp.Persons(unit_column="other"), dp.Persons(rows_per_unit=7)])
def test_a_budget_of_units_and_other_persons_are_refused(source, persons):
    with pytest.raises(dp.DataError, match="Expected persons in the budget or in Persons, not in both"):
        dp.distill(source, METHOD, dp.Budget(1.0, unit="patient", rows_per_unit=2), persons=persons)


def test_persons_complete_a_budget_of_single_records(source):
    result = dp.distill(source, METHOD, dp.Budget(1.0), persons=dp.Persons(unit_column="patient", rows_per_unit=3))
    assert result.schedule is not None
    assert (result.schedule.budget.unit, result.schedule.budget.rows_per_unit) == ("patient", 3)


@pytest.mark.parametrize("reading", [dp.Reading(resize=4), dp.Reading(lenient=True), dp.Reading(classes=2)])
def test_records_are_read_already(reading):
    records = dp.Records.from_arrays(X, Y, classes=3)
    with pytest.raises(dp.DataError, match="which are already read: leave reading out"):
        dp.distill(records, METHOD, dp.Budget(1.0), reading=reading)


def test_records_that_are_read_already_take_a_published_recipe(tmp_path):
    """A recipe, a ledger or a plan once refused them as a source of no known format."""
    records = dp.Records.from_arrays(X, Y, classes=3)
    dp.begin_ledger(tmp_path / "l.ledger", 3.0)
    choice = dp.RecipeChoice(method="ldpdc", settings=("per_class=1", "sampling_prob=1"))
    result = dp.distill(records, choice, dp.Budget(1.0), ledger=tmp_path / "l.ledger", run_dir=tmp_path / "run")
    assert result.epsilon == pytest.approx(1.0)
    assert dp.ledger_summary(tmp_path / "l.ledger").spent == pytest.approx(1.0, rel=1e-3)
    planned = dp.plan(records, "decoupled-kip-mnist-eps1-ipc10")
    assert planned.records == 40


@pytest.mark.parametrize("kind", [str, Path])
def test_private_images_are_no_public_ones(source, kind):
    choice = dp.RecipeChoice(method="dos", public=str(source))
    with pytest.raises(dp.DataError, match="The images of --public are the private images of DATA"):
        dp.distill(kind(source), choice, dp.Budget(1.0))


def test_notes_on_records_are_not_logged(tmp_path, caplog):
    for i in range(6):
        folder = tmp_path / "scans" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(X[i]).save(folder / f"{i}.png")
    (tmp_path / "scans" / "a" / "notes.txt").write_text("of a patient")
    told = []

    class Told(Listener):
        def note(self, text):
            told.append(text)

    how = {"reading": dp.Reading(channels=1, classes="a,b")}
    with caplog.at_level(logging.DEBUG, logger="dpdistill"):
        dp.distill(tmp_path / "scans", METHOD, dp.Budget(1.0), **how)
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("dpdistill")]
    assert any("epsilon 1 at delta 1e-05" in text for text in logged)
    dp.distill(tmp_path / "scans", METHOD, dp.Budget(1.0), listener=Told(), **how)
    assert any("notes.txt" in text or ".txt" in text or "left out" in text for text in told), told
    assert not set(told) & set(logged)


def test_a_name_is_a_method_or_a_recipe():
    assert chosen_recipe("dos-kip") == (dp.RecipeChoice(method="dos-kip"), None)
    assert chosen_recipe("dos-kip-cifar10-eps1") == (dp.RecipeChoice(recipe="dos-kip-cifar10-eps1"), None)
    assert chosen_recipe(METHOD) == (dp.RecipeChoice(), METHOD)
