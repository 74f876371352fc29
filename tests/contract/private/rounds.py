"""What the curator's noise, rounds and batches keep to."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
from contract.data import SCHEMA, make_records
from contract.private.curators import NOISE, OnlyCoins, full_batches, grid_of, make_curator, memory_ledger
from contract.private.queries import CountQuery, FlatQuery, ZeroQuery
from scipy import stats

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.private import sampling
from dpdistill.private.grid import make_grid
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import Event, Stage
from dpdistill.storage.records import Records


def check_noise_scale() -> None:
    """The noise has the stated standard deviation: accepted, and 2/3 and 3/2 of it rejected."""
    query = ZeroQuery(0.3, dimension=4000)
    release = make_curator(make_records(5), full_batches(), SeededEntropy(11)).release(0, query, 0.0)
    assert math.isclose(release.stddev, NOISE * 0.3), "The stated standard deviation is not the schedule's."
    p = {
        r: stats.kstest(release.value.ravel(), stats.norm(scale=r * release.stddev).cdf).pvalue for r in (1, 2 / 3, 1.5)
    }
    assert p[1] > 1e-3, "The noise does not have the stated standard deviation."
    assert max(p[2 / 3], p[1.5]) < 1e-9, "The noise fits a wrong standard deviation."


def check_release_on_grid() -> None:
    """Values are whole multiples of the step: no low bit speaks of the sum."""
    query, records = FlatQuery(), make_records(9)
    step = grid_of(query, 1.0, records.schema).step
    steps = make_curator(records, entropy=SeededEntropy(1)).release(0, query, 1.0).value / step
    np.testing.assert_array_equal(steps, np.rint(steps), "A value lies between two multiples of the step.")


def check_rounds_are_independent() -> None:
    """Every round has its own noise: no repeat, no shift, no correlation between any two of six."""
    schedule = full_batches(6)
    asked = make_curator(make_records(5), schedule, SeededEntropy(12))
    noise = np.stack([asked.release(t, ZeroQuery(dimension=2000), 0.0).value.ravel() for t in range(6)])
    correlation = np.corrcoef(noise) - np.eye(6)
    assert np.abs(correlation).max() < 0.08, "The noises of two rounds are correlated."
    p = stats.kstest(noise.sum(0), stats.norm(scale=math.sqrt(6) * NOISE).cdf).pvalue
    assert p > 1e-3, "The noises of six rounds do not add up as independent ones."


def check_resumed_rounds_draw_anew() -> None:
    """A run that is resumed before every round draws other noise and places each time: no stream starts again."""
    rounds = 4
    schedule = Schedule((Stage(rounds, 0.5),), (NOISE,), Budget(1.0))
    ledger, records, noises, places = memory_ledger(schedule), make_records(200), [], []
    for t in range(rounds):
        asked = make_curator(records, schedule, ledger=ledger)
        noises.append(asked.release(t, ZeroQuery(dimension=1000), 0.0).value.ravel())
        places.append(asked._holders._records._places)  # pyright: ignore[reportAttributeAccessIssue]
    correlation = np.corrcoef(noises) - np.eye(rounds)
    assert np.abs(correlation).max() < 0.1, "A resumed run draws the noise of an earlier round again."
    same = [(places[s] == places[t]).mean() for t in range(rounds) for s in range(t)]
    assert max(same) < 0.05, "A resumed run draws the places of an earlier start again."


def check_round_is_drawn_once() -> None:
    """A round that is committed is handed out again as it was, for whatever is asked: its sum is never noised anew."""
    schedule = full_batches(2)
    ledger = memory_ledger(schedule)
    records = make_records(9)
    asked = make_curator(records, schedule, ledger=ledger)
    first = asked.release(0, FlatQuery(), 1.0)
    for again in (asked, asked, make_curator(records, schedule, ledger=ledger)):
        release = again.release(0, FlatQuery(), 1.0)
        np.testing.assert_array_equal(release.value, first.value, "A committed round is drawn anew.")
        same = (release.round, release.stddev, release.event) == (0, first.stddev, first.event)
        assert same, "A committed round is described anew."
    assert ledger.events() == (Event(NOISE),), "A round that is handed out again is paid again."
    assert not np.array_equal(asked.release(1, FlatQuery(), 1.0).value, first.value), "The next round is the last one."


def check_release_is_the_committed_one() -> None:
    """What is handed out when a round is drawn is, bit by bit, what the ledger has been paid for."""
    schedule = full_batches()
    ledger = memory_ledger(schedule)
    release = make_curator(make_records(9), schedule, ledger=ledger).release(0, FlatQuery(), 1.0)
    stored = ledger.lookup(0)
    assert stored is not None, "A release is handed out and not committed."
    same = release.value.dtype == stored.value.dtype and release.value.tobytes() == stored.value.tobytes()
    assert same, "The value handed out is not the committed one."
    described = (release.round, release.stddev, release.event) == (stored.round, stored.stddev, stored.event)
    assert described, "The release is not described as the committed one."


def check_batches_are_poisson() -> None:
    """Independent coins of the public probability: the size of a batch varies as a binomial, class by class."""
    rounds, n, q = 300, 200, 0.25
    y = (np.arange(n) % 10 == 0).astype(np.int64)  # 180 and 20 records
    records = Records(np.zeros((n, 8, 8, 1), np.float32), y, SCHEMA)
    schedule = Schedule((Stage(rounds, q),), (NOISE,), Budget(1.0))
    asked = make_curator(records, schedule, OnlyCoins(n, 4), chunk=200)
    step = grid_of(CountQuery(), None, SCHEMA, n).step
    one = np.rint(make_grid(1.0, NOISE, 1, n).float_clip / step) * step
    counts = np.stack([asked.release(t, CountQuery(), None).value[:, 0] for t in range(rounds)]) / one
    for sizes, m in ((counts[:, 0], 180), (counts[:, 1], 20), (counts.sum(1), n)):
        variance = m * q * (1 - q)
        off = abs(sizes.mean() - m * q)
        assert off < 4 * math.sqrt(variance / rounds), "The mean size of a batch is not the public one."
        p = stats.chi2(rounds - 1).cdf(sizes.var(ddof=1) * (rounds - 1) / variance)
        assert 1e-4 < p < 1 - 1e-4, "The size of a batch does not vary as a binomial."
    assert counts.sum(1).max() > n * q + 8, "No batch is large."


def check_blocks_of_coins() -> None:
    """Coins of a long list are those of one stream of words: the block in which they are drawn repeats nothing."""
    words = np.random.default_rng(2).integers(0, 2**64, 40, np.uint64)

    class Stream:
        kind = "insecure: stated words"
        drawn = 0

        def bytes(self, n: int) -> bytes:
            start, self.drawn = self.drawn, self.drawn + n // 8
            return words[start : self.drawn].tobytes()

    expected = words < np.uint64(2**63)
    assert 10 < expected.sum() < 30
    with mock.patch.object(sampling, "BLOCK", 7):
        stream = Stream()
        coins = sampling.poisson_coins(len(words), 0.5, stream)
    assert stream.drawn == len(words), "Another number of words is drawn than one a record."
    np.testing.assert_array_equal(coins, expected, "Coins repeat block by block.")
