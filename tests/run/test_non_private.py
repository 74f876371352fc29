"""Plain sums for the methods that run without a guarantee."""

import contract
import numpy as np
import pytest
from contract import FlatQuery, make_records
from contract.float32 import assert_close_float32

from dpdistill.query import Compute
from dpdistill.run.non_private import NonPrivateCurator
from dpdistill.storage.records import Records


class TestNonPrivate:
    def test_plain_sums(self):
        X = np.array(make_records(20).X)
        X[3, 0, 0, 0] = np.nan
        X[7] *= 100.0  # clamped by the bounds
        records = Records(X, np.arange(20) % 4 - 1, contract.SCHEMA)
        release = NonPrivateCurator(records, [1.0], 0, Compute(6)).release(0, FlatQuery(clip_norm=1e-9), 3.0)
        rows = 3.0 * np.clip(X, -1, 1).reshape(20, -1)
        kept = np.isfinite(rows).all(1)
        plain = np.stack([rows[kept & (records.y == c)].sum(0, dtype=np.float64) for c in range(3)])
        assert_close_float32(release.value, plain, terms=20 + 2, scale=np.abs(rows[kept]).sum(0).max())
        assert (release.stddev, release.event, release.round) == (0.0, None, 0)

    def test_a_lone_record_through_an_encoder(self):
        records = contract.known(3)
        value = NonPrivateCurator(records, [1.0], 0).release(0, FlatQuery(encoder=contract.Halve()), 2.0).value
        assert_close_float32(value, records.X.reshape(3, -1), terms=3)

    def test_coins_follow_the_seed_and_the_round(self):
        records = contract.known(60)

        def counts(seed, t):
            asked = NonPrivateCurator(records, [0.5, 0.5], seed)
            return asked.release(t, contract.CountQuery(), None).value.ravel().tolist()

        assert counts(1, 0) == counts(1, 0)
        assert len({tuple(counts(seed, t)) for seed in (1, 2, 3) for t in (0, 1)}) > 3
        sizes = [sum(counts(seed, 0)) for seed in range(40)]
        assert np.mean(sizes) == pytest.approx(30.0, abs=3.0)

    def test_it_says_that_there_is_no_noise(self):
        assert NonPrivateCurator(contract.known(3), [1.0], 0).noise_kind == "none"
        assert (
            repr(NonPrivateCurator(contract.known(3), [1.0], 0))
            == "<NonPrivateCurator: nothing about its records is shown>"
        )
