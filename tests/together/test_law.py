"""The noise of a sum over several owners has the law that was accounted, with and without owners that drop out."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from contract import full_batches, known, memory_ledger
from scipy import stats

from dpdistill.accounting.noise_shares import noise_shares
from dpdistill.private.grid import make_grid
from dpdistill.private.noise import SystemEntropy
from dpdistill.private.share import ShareCurator
from dpdistill.query import Compute, Query

NUMBERS, SIGMA = 100_000, 0.8


class Scalars(Query):
    """A hundred thousand numbers of a record at once: as many rounds of one number."""

    clip_norm, by_class, encoder = 1.0, False, None

    def contribution(self, params, x, y):
        return jnp.zeros(NUMBERS) + params

    def __eq__(self, other):
        return isinstance(other, Scalars)

    def __hash__(self):
        return 0


def shares_of(owners, shares):
    plan = full_batches(1, SIGMA)
    values = []
    for _ in range(owners):
        asked = ShareCurator(known(0), plan, memory_ledger(plan), SystemEntropy(), Compute(2, 2), shares=shares)
        values.append(asked.release(0, Scalars(), np.float32(0.0)).value)
    return np.stack(values)


def pvalues(z):
    s = SIGMA * make_grid(1.0, SIGMA, NUMBERS, 0).K
    return {scale: stats.kstest(z, stats.norm(scale=math.sqrt(scale) * s).cdf).pvalue for scale in (1.0, 2 / 3, 3 / 2)}


@pytest.mark.parametrize(("n", "d", "c"), [(3, 0, 1), (4, 1, 1), (5, 1, 1)])
def test_honest_shares_of_the_shortest_list_have_the_accounted_law(n, d, c):
    """n - d owners answer, and c of them tell their noise: what is left has the accounted variance."""
    shares = noise_shares(n, d, c)
    z = shares_of(n - d - c, shares)
    found = pvalues(z.sum(0))
    assert found[1.0] > 1e-4
    assert max(found[2 / 3], found[3 / 2]) < 1e-12
    assert z.dtype == np.int64


def test_all_owners_of_a_list_add_more():
    z = shares_of(3, noise_shares(3, 0, 1)).sum(0)
    found = pvalues(z)
    assert found[3 / 2] > 1e-4  # three halves of the accounted variance, as stated
    assert max(found[1.0], found[2 / 3]) < 1e-12


def test_the_noise_of_one_owner_missing_is_found():
    z = shares_of(2, noise_shares(5, 1, 1)).sum(0)  # two of three shares: 2/3 of the variance
    found = pvalues(z)
    assert found[1.0] < 1e-12
    assert found[2 / 3] > 1e-4
