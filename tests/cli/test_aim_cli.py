"""A table with released counts on the command line: plan, distill, count, audit, verify."""

import json
import re

import numpy as np
import pytest
from run_command import refused, succeeds

import dpdistill as dp
from dpdistill.errors import DataError
from dpdistill.folder.layout import CERTIFICATE, MARGINALS
from dpdistill.folder.save import read_counts_of_cells, read_distilled

SCHEMA = """dpdistill: table schema
reviewed: true
label: outcome
classes: [well, ill]
columns:
  - {name: age, kind: integer, bounds: [0, 80]}
  - {name: ward, kind: categorical, categories: [A, B, C, D]}
  - {name: cost, kind: numeric, bounds: [0, 10]}
"""
QUICK = ("--method", "aim", "--set", "samples=800", "--set", "iterations=50", "--set", "rounds=1", "--epsilon", 3)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("aim"), np.random.default_rng(0)
    age, cost = rng.integers(0, 81, 900), rng.uniform(0, 10, 900)
    lines = (f"{a},{'ABCD'[a // 21]},{c:.2f},{'ill' if a > 40 else 'well'}\n" for a, c in zip(age, cost, strict=True))
    (place / "rows.csv").write_text("age,ward,cost,outcome\n" + "".join(lines))
    (place / "schema.yaml").write_text(SCHEMA)
    return place


@pytest.fixture(scope="module")
def made(table):
    read = ("--schema", table / "schema.yaml")
    plan = json.loads(succeeds("distill", table / "rows.csv", *read, *QUICK, "--out", table / "shared", "--json"))[
        "plan"
    ]
    assert plan["error_of_a_count"] == pytest.approx(1.959964 * 12**0.5 * plan["noise_multipliers"][2])
    return table / "shared"


def test_the_folder_is_verified_with_its_counts(made):
    assert MARGINALS in json.loads((made / CERTIFICATE).read_text())["files"]
    assert dp.verify(made).passed
    content = (made / MARGINALS).read_bytes()
    try:
        (made / MARGINALS).write_bytes(content[:-9] + b"\0" + content[-8:])
        checks = {check.name: check for check in dp.verify(made).checks}
        assert f"{MARGINALS} was changed" in checks["files"].detail
        assert not checks["files"].passed
    finally:
        (made / MARGINALS).write_bytes(content)


def test_counts_of_other_bins_do_not_belong(made):
    from dpdistill.folder.contents import _counts_of_cells
    from dpdistill.sources.images import npz

    content, arrays = (made / MARGINALS).read_bytes(), dict(np.load(made / MARGINALS))
    try:
        npz.write_file(made / MARGINALS, {**arrays, "stddev": -arrays["stddev"]})
        assert "cannot be used: Expected released counts" in _counts_of_cells(made, read_distilled(made)).fault
        npz.write_file(made / MARGINALS, {**arrays, "intervals": np.array(33)})
        assert _counts_of_cells(made, read_distilled(made)).fault is not None
    finally:
        (made / MARGINALS).write_bytes(content)
    assert _counts_of_cells(made, read_distilled(made)).fault is None


def test_a_count_has_an_interval_of_the_released_noise(made):
    found = json.loads(succeeds("count", made, "ward=B", "--json"))
    assert (found["source"], found["reason"]) == ("released counts", "")
    assert found["low"] < found["rows"] < found["high"]
    released = read_counts_of_cells(made, read_distilled(made).schema)
    estimate = released.estimate({1: np.array([False, True, False, False])})
    assert found["rows"] == pytest.approx(estimate.rows)
    assert found["high"] - found["low"] == pytest.approx(2 * 1.959964 * estimate.stddev, rel=1e-5)
    assert abs(found["rows"] - 233) < 6 * estimate.stddev  # ages 21 to 41
    same = dp.count(made, "ward=B")
    assert (same.rows, same.low, same.high) == (found["rows"], found["low"], found["high"])
    assert re.fullmatch(
        r"\d+ rows, 95 % interval \d+ to \d+: from released counts\.", succeeds("count", made, "ward=B").strip()
    )


def test_a_question_that_splits_bins_has_a_wider_interval(made):
    said = succeeds("count", made, "cost<5.1 and ward=B")
    assert re.match(r"\d+ rows, 95 % interval \d+ to \d+: from released counts\.\nThe question splits groups", said)
    found, inner, outer = (dp.count(made, f"cost<{c} and ward=B") for c in (5.1, 5.0, 5.3125))
    assert (found.exact, inner.tables > 0, outer.tables > 0) == (False, True, True)
    assert found.low <= found.rows <= found.high
    assert found.high - found.low > 2 * 1.96 * read_counts_of_cells(made, read_distilled(made).schema).tables[-1].stddev


def test_columns_without_a_table_are_answered_by_synthetic_rows(made):
    question = "cost<5 and ward=B and age<30 and outcome=ill"
    found, back = dp.count(made, question), read_distilled(made)
    X = back.schema.from_unit(back.X)
    share = ((X[:, 2] < 5) & (X[:, 1] == 1) & (X[:, 0] < 30) & (back.y == 1)).mean()
    assert found.rows == pytest.approx(share * read_counts_of_cells(made, back.schema).total)
    assert (found.low, found.high, found.tables, found.source) == (None, None, 0, "synthetic rows")
    said = succeeds("count", made, question)
    assert re.match(r"\d+ rows, no interval: from synthetic rows\.\nWhy no interval: no released table has", said)


def test_refusals(made, table):
    message = "Expected a column of the table in the condition (age, ward, cost); got 'size'."
    assert message in refused("count", made, "size>3")
    assert "in the condition; got its end" in refused("count", made, "age")
    read = ("--schema", table / "schema.yaml", "--set", "steps=2")
    succeeds("distill", table / "rows.csv", *read, "--out", table / "merf")
    assert "has no released counts: make it with --method aim" in refused("count", table / "merf", "age>3")


def test_persons_have_no_interval(table):
    text = (table / "schema.yaml").read_text() + "unit_column: person\n"
    (table / "persons.yaml").write_text(text)
    head, *lines = (table / "rows.csv").read_text().splitlines()
    rows = [f"{head},person", *(f"{line},{i // 3}" for i, line in enumerate(lines))]
    (table / "persons.csv").write_text("\n".join(rows) + "\n")
    succeeds("distill", table / "persons.csv", "--schema", table / "persons.yaml", *QUICK, "--out", table / "persons")
    found = dp.count(table / "persons", "ward=B")
    assert (found.low, found.source) == (None, "released counts")
    assert "rows of a person" in found.reason


def test_the_audit_prints_errors_of_counts(made, table):
    said = succeeds("audit", made, "--members", table / "rows.csv", "--schema", table / "schema.yaml")
    for k, tables in ((1, 4), (2, 6), (3, 4)):
        assert re.search(rf"Counts of {k} columns?: mean total variation 0\.\d+, largest .* of {tables} tables\.", said)
    found = json.loads((table / "shared.audit" / "audit.json").read_text())
    assert 0 < found["k_marginal_score"] < 1000
    assert [one["k"] for one in found["workload"]] == [1, 2, 3]


def test_the_package_is_asked_for_before_a_run(monkeypatch):
    import sys

    from dpdistill.methods.aim import AIM
    from dpdistill.methods.graphical_model import require_mbi

    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(DataError, match=r"needs the package mbi: install it with pip install 'dpdistill\[marginals\]'"):
        require_mbi()
    with pytest.raises(DataError, match="needs the package mbi"):
        AIM().init(None, None)
