"""Published guarantees that do not hold: what the page says of them is what the script measures."""

import csv
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.cli.benchmarks.figures import PUBLISHED, boards, objections
from dpdistill.cli.benchmarks.page import render_markdown, render_page
from tests.cli.test_benchmark import line

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("guarantees", ROOT / "benchmarks" / "guarantees.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_objection_is_to_published_numbers_under_privacy():
    with PUBLISHED.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for each in objections():
        assert any(
            row["source"].startswith(each.source)
            and row["method"].startswith(tuple(each.methods))
            and row["data"] in each.data
            and row["epsilon"]
            for row in rows
        ), each


def test_rows_carry_the_numbers_of_what_is_objected_to_them():
    found = [line(value=95.0, score=score, epsilon=epsilon) for score in ("KRR", "ConvNet") for epsilon in (1.0, None)]
    (board,) = boards(found)
    against = {(row.label, row.origin): row.objections for table in board.tables for row in table.rows}
    named = {each.number: each for each in objections()}
    kip = against["DP-KIP-ScatterNet", "Vinaroz & Park 2024, table 2"]
    assert {named[number].source for number in kip} == {"Vinaroz & Park"}
    assert len(kip) == 2
    assert len(against["NDPDC", "Zheng et al. 2025, table 1"]) == 1
    assert len(against["DOSSER (public images)", "Zheng et al. 2025, table 1"]) == 2
    for clean in (("KIP ScatterNet", "Vinaroz & Park 2024, table 1"), ("PSG", "Zheng et al. 2025, table 1")):
        assert against[clean] == ()
    assert not any(numbers for (label, _), numbers in against.items() if label == "ours")


def test_pages_say_what_their_tables_refer_to_and_no_more():
    page, text = (render([line(value=95.0)], "T") for render in (render_page, render_markdown))
    shown = [each for each in objections() if each.source == "Vinaroz & Park"]
    for each in objections():
        assert (each.measured in text) == (each in shown)
        assert (each.measured in page) == (each in shown)
    assert "<h2>Published numbers that do not stand under their own guarantee</h2>" in page
    assert "\n## Published numbers that do not stand under their own guarantee\n" in text
    marks = ", ".join(str(each.number) for each in shown)
    assert f"| Vinaroz & Park 2024, table 2 [{marks}] |" in text
    for render in (render_page, render_markdown):
        assert "do not stand" not in render([line(value=95.0, epsilon=7.0)], "T")


def test_what_is_computed_is_what_is_stated(script):
    stated = {each.measured for each in objections()}
    assert script.redrawn()["measured"] in stated
    noise = script.poisson_noise(500, 10)
    assert any(f"noise multiplier {noise:.3f};" in measured for measured in stated)


def test_privacy_losses_of_shuffled_batches(script):
    # E e^-loss = 1 under the first of two neighbours, whatever they are
    for absent in (0.0, 1.0):
        found = script.losses(2.0, 20, 3, absent, 40_000, np.random.default_rng(3))
        assert np.exp(-found).mean() == pytest.approx(1.0, abs=6 * np.exp(-found).std() / 200)
    # one batch an epoch hides nothing: a Gaussian of sensitivity 2 - absent, as often as there are epochs
    found = script.losses(6.0, 1, 4, 1.0, 40_000, np.random.default_rng(4))
    mu = math.sqrt(4) / 6.0
    assert found.mean() == pytest.approx(mu**2 / 2, abs=6 * mu / 200)
    assert found.std() == pytest.approx(mu, rel=0.05)


def test_a_lower_bound_of_epsilon_is_one(script):
    for mu in (0.5, 1.0):
        rng = np.random.default_rng(5)
        found = script.least_epsilon(mu**2 / 2 + mu * rng.standard_normal(200_000))
        assert 0.55 < found / gaussian_epsilon(1 / mu, 1e-5) < 1.0
    assert script.least_epsilon(np.zeros(200_000)) == 0.0


def test_a_seed_of_few_bits_is_found(script, monkeypatch):
    monkeypatch.setattr(script, "SEEDS", 300)
    assert "in 4 of 4 releases" in script.seeded(trials=4, coordinates=64)["measured"]
