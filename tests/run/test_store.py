"""Checkpoints: whose they are, and what a damaged one says."""

import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill.run.store import Store

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
    store = Store(None)
    store.save(3, STATE, last=True)
    assert store.load(STATE) == (0, STATE)


def test_a_checkpoint_is_not_written_at_every_round(tmp_path):
    store = Store(tmp_path, "one")
    store.save(1, STATE)
    assert not list(tmp_path.iterdir())
