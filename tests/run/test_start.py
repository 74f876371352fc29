"""How a run starts: what is refused before a ledger is opened."""

import os
import re

import contract
import numpy as np
import pytest
from contract import SCATTER, make_records

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.methods.support import encode
from dpdistill.run.start import check_memory
from dpdistill.schema import DataError

RECORDS = make_records(100)
KEPT = 100 * encode(SCATTER.encoder, np.zeros((1, 8, 8, 1), np.float32)).size * 4
"""Bytes of the features of all records, in float32."""


@pytest.fixture
def memory(monkeypatch):
    """A machine of a certain number of bytes."""

    def state(size):
        monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": size}.__getitem__)

    return state


def test_features_that_do_not_fit_into_memory(memory, tmp_path):
    memory(int(KEPT / 0.69))
    check_memory(SCATTER.encoder, RECORDS)
    memory(int(KEPT / 0.71))
    with pytest.raises(DataError, match=re.escape("The features of 100 records of shape (8, 8, 1) would take 0.00 of")):
        run.distill(RECORDS, contract.tiny("dp-kip", kernel=SCATTER), Budget(1.0), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    check_memory(None, RECORDS)
