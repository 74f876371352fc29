"""What a run logs: public facts and rounds; nothing depends on a record, on how many there are, or on who is there."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from chosen_tests import few

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.methods import DOSKIP, LDPDC
from dpdistill.storage.records import Records


def records(n: int, seed: int, **changes) -> Records:
    rng = np.random.default_rng(seed)
    X, y = rng.uniform(0, 1, (n, 8, 8)), rng.integers(0, 2, n)
    return Records.from_arrays(X, y, classes=["cat", "dog"], bounds=(0, 1), **changes)


OTHERS = {
    "as many": records(40, 1),
    "fewer": records(23, 2),
    "none": records(0, 0),
    "one class": Records.from_arrays(np.ones((5, 8, 8)), np.zeros(5, int), classes=["cat", "dog"], bounds=(0, 1)),
}
METHODS = {
    "ldpdc": LDPDC(per_class=1, sampling_prob=0.5),
    "dos-kip": DOSKIP(per_class=1, networks=2, rounds=2, steps=2, width=4),
}


def logged(caplog, method, data: Records, folder) -> list[tuple[str, str]]:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="dpdistill"):
        run.distill(data, method, Budget(2.0), run_dir=folder / "run").save(folder / "shared")
    of_ours = [record for record in caplog.records if record.name.startswith("dpdistill")]
    return [(record.levelname, record.getMessage().replace(str(folder), "")) for record in of_ours]


@pytest.mark.parametrize("name", few(METHODS, "ldpdc"))
def test_the_log_is_the_same_whatever_the_records(name, caplog, tmp_path, capfd):
    found = {who: logged(caplog, METHODS[name], data, tmp_path / who) for who, data in OTHERS.items()}
    first = found["as many"]
    assert all(each == first for each in found.values())
    rounds = sum(stage.rounds for stage in METHODS[name].plan())
    assert first == [
        ("INFO", f"{name}: {rounds} releases, epsilon 2 at delta 1e-05"),
        ("INFO", f"0 of {rounds} rounds are released already"),
        *(("DEBUG", f"round {t} of {rounds} is released") for t in range(1, rounds + 1)),
        ("INFO", "/shared is written"),
    ]
    assert capfd.readouterr() == ("", "")


def test_without_anybody_asking_nothing_is_said(tmp_path, capfd):
    run.distill(OTHERS["fewer"], METHODS["ldpdc"], Budget(2.0)).save(tmp_path / "shared")
    assert capfd.readouterr() == ("", "")
