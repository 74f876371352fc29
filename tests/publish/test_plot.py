"""What is drawn is what the folder holds."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.certificate.build import SYSTEM_NOISE
from dpdistill.method import Distilled
from dpdistill.publish import plot
from dpdistill.query import Stage
from dpdistill.run import Result
from dpdistill.schema import Column, DataError, Schema, TableSchema

mpl.use("Agg")
RECIPE = {"method": "dos", "fields": {}, "seed": 0, "origin": "package default"}


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    X = np.linspace(-1, 1, 3 * 16, dtype=np.float32).reshape(3, 4, 4, 1)
    made = Distilled(X, np.array([0, 1, 1], np.int32), Schema((4, 4, 1), (0.0, 255.0), ("cat", "dog")))
    schedule = calibrate((Stage(1),), Budget(2.0, 1e-5))
    return Result(made, RECIPE, schedule, SYSTEM_NOISE).save(tmp_path_factory.mktemp("plot") / "set")


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    columns = (Column("age", "integer", (0.0, 3.0), missing=True), Column("ward", "categorical", categories=("A", "B")))
    schema = TableSchema(columns, "outcome", ("well", "ill"))
    raw = np.array([[0, 0], [3, 1], [3, 1], [np.nan, 1]])
    made = Distilled(schema.to_unit(raw), np.array([0, 1, 1, 1], np.int32), schema)
    return Result(made, RECIPE, None, None).save(tmp_path_factory.mktemp("plot") / "table")


def test_images_stand_in_the_row_of_their_class(pictures):
    ax = plot.images(pictures)
    drawn = np.asarray(ax.get_images()[0].get_array())
    assert drawn.shape == (10, 10)
    levels = np.rint(np.linspace(0, 255, 48)).reshape(3, 4, 4)
    np.testing.assert_array_equal(drawn[:4, :4], levels[0])
    np.testing.assert_array_equal(drawn[5:9, 5:9], levels[2])
    assert (drawn[:5, 4:] == 255).all()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["cat", "dog"]
    assert np.asarray(plot.images(pictures, per_class=1).get_images()[0].get_array()).shape == (10, 5)


def test_the_curve_is_that_of_the_certificate(pictures, table):
    ax = plot.epsilon(pictures, ax=pyplot.figure().add_subplot())
    curve, claim = ax.get_lines()
    assert curve.get_xdata().tolist() == [1e-8, 1e-7, 1e-6, 1e-5, 1e-4]
    assert curve.get_ydata()[3] == pytest.approx(2.0, rel=1e-6)
    assert (claim.get_xdata().tolist(), claim.get_ydata().tolist()) == ([1e-5], [2.0])
    assert claim.get_label() == "claim: ε = 2 at δ = 1e-5"
    with pytest.raises(DataError, match="states no epsilon"):
        plot.epsilon(table)


def test_accuracy_is_drawn_by_epsilon():
    ax = plot.accuracy({10: [80.0, 90.0], 1: 70.0}, real=95.0)
    line, real = ax.get_lines()[0], ax.get_lines()[-1]
    assert (line.get_xdata().tolist(), line.get_ydata().tolist()) == ([1, 10], [70.0, 85.0])
    assert list(real.get_ydata()) == [95.0, 95.0]
    (bars,) = ax.collections
    assert np.ptp(bars.get_segments()[1][:, 1]) == pytest.approx(2 * np.std([80, 90], ddof=1))
    for bad in ({}, {0: 1.0}, {np.inf: 1.0}):
        with pytest.raises(ValueError, match="positive and finite"):
            plot.accuracy(bad)


def test_marginals_are_shares_of_the_rows(table):
    age, ward = plot.marginals(table)
    np.testing.assert_allclose(age.patches[0].get_data().values, [0.25, 0, 0, 0.5], rtol=1e-12)
    assert age.get_title() == "age (25% missing)"
    assert [bar.get_width() for bar in ward.patches] == [0.25, 0.75]
    assert [text.get_text() for text in ward.get_yticklabels()] == ["A", "B"]
    assert len(plot.marginals(table, ["ward"])) == 1


def test_refusals(pictures, table, monkeypatch):
    with pytest.raises(DataError, match="holds a table, which `marginals` draws"):
        plot.images(table)
    with pytest.raises(DataError, match="holds images, which `images` draws"):
        plot.marginals(pictures)
    with pytest.raises(DataError, match="Expected columns among age, ward; got sex"):
        plot.marginals(table, ["sex"])
    with pytest.raises(DataError, match="got none"):
        plot.marginals(table, [])
    with pytest.raises(ValueError, match="per_class=0"):
        plot.images(pictures, per_class=0)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DataError, match=r"pip install 'dpdistill\[plot\]'"):
        plot.images(pictures)
