"""Checkpoints: whose they are, and what a damaged one says."""

from types import SimpleNamespace
from unittest.mock import Mock

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill import run
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import LDPDC
from dpdistill.run import checkpoint
from dpdistill.run.checkpoint import Store

STATE = {"images": jnp.arange(6.0).reshape(2, 3), "round": np.zeros((), np.int64)}


def test_a_state_comes_back(tmp_path):
    Store(tmp_path, "one").save(7, STATE, last=True)
    t, state = Store(tmp_path, "one").load(STATE)
    assert t == 7
    assert np.array_equal(state["images"], [[0, 1, 2], [3, 4, 5]])


def test_another_runs_checkpoint_is_left_alone(tmp_path):
    Store(tmp_path, "one").save(7, STATE, last=True)
    other = {"images": jnp.zeros(4)}
    assert Store(tmp_path, "two").load(other) == (0, other)
    assert Store(tmp_path, "one").load(STATE)[0] == 7


@pytest.mark.parametrize("keep", [0, 1, 100, 400])
def test_a_damaged_one_is_one_sentence(tmp_path, keep):
    Store(tmp_path, "one").save(7, STATE, last=True)
    (path,) = tmp_path.glob("state-*.npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match="is damaged"):
        Store(tmp_path, "one").load(STATE)


def test_one_of_other_shapes_is_one_sentence(tmp_path):
    Store(tmp_path, "one").save(7, STATE, last=True)
    with pytest.raises(ValueError, match="is damaged"):
        Store(tmp_path, "one").load({"images": jnp.zeros((3, 3)), "round": np.zeros((), np.int64)})


def test_without_a_folder_nothing_is_kept():
    nothing = Store(None)
    nothing.save(3, STATE, last=True)
    assert nothing.load(STATE) == (0, STATE)


def test_a_checkpoint_is_not_written_at_every_round(tmp_path):
    Store(tmp_path, "one").save(1, STATE)
    assert not list(tmp_path.iterdir())


def test_values_are_dropped_only_once_the_checkpoint_is_there(tmp_path, monkeypatch):
    """A disk that fills at the checkpoint must leave the values that the run is resumed from."""
    dropped = []
    one = Store(tmp_path, "one", SimpleNamespace(drop_values=dropped.append))
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_synced", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            one.save(7, STATE, last=True)
    assert dropped == []
    one.save(7, STATE, last=True)
    assert dropped == [7]


def test_a_run_is_resumed_at_the_round_after_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)
    records, method = contract.known(30), LDPDC(per_class=4, sampling_prob=1.0)
    with pytest.raises(contract.Stop):
        run.distill(records, method, run_dir=tmp_path, progress=contract.stop_after(2))
    found = RunLedger.read(tmp_path)
    t, _ = Store(tmp_path, found.run_id).load(method.init(jax.random.key(0), records.schema))
    assert t == len(found.events) == 2
    released = []
    run.distill(records, method, run_dir=tmp_path, watch=lambda query, params, release: released.append(release.round))
    assert released == [2, 3]
