"""Known defects of private distillation, written down as mutants: every one is found by the check that is named for it.

Each mutant replaces one function of the package by the defective one of somebody's code. Its check passes on the
package as it is, and on the mutant it fails for the reason that stands beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpdistill import run
from dpdistill.accounting import schedule as accounting
from dpdistill.certificate import arithmetic
from dpdistill.errors import Unanswered
from dpdistill.evaluation import score
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import dos, dp_kip
from dpdistill.methods.descent import Descent
from dpdistill.methods.generator_method import GeneratorMethod
from dpdistill.methods.kip_gradient import FCNTKGradient
from dpdistill.methods.table_counts import CountsQuery
from dpdistill.private import aggregator, checks, chunking, curator, linear, sampling
from dpdistill.private.grid import Grid
from dpdistill.private.noise import KeyedEntropy, SeededEntropy, SystemEntropy
from dpdistill.programs import checks as abstract
from dpdistill.programs import clipping, jaxprs
from dpdistill.query import Release
from dpdistill.run import driver
from dpdistill.schema import Schema
from dpdistill.storage.records import Records
from dpdistill.workers import remote_aggregator, worker


def folder_check(check: Callable[..., None]) -> Callable[[], None]:
    """A check that writes, in a folder of its own."""

    def in_a_folder() -> None:
        with tempfile.TemporaryDirectory() as name:
            check(Path(name).resolve())

    in_a_folder.__name__ = check.__name__
    return in_a_folder


only_releases_speak = folder_check(contract.check_only_releases_speak)
ledger_holds_no_plain_sum = folder_check(contract.check_ledger_holds_no_plain_sum)

swap = mock.patch.object


def both(*patches: Any) -> contextlib.ExitStack:
    """Several patches as one."""
    stack = contextlib.ExitStack()
    for patch in patches:
        stack.enter_context(patch)
    return stack


def records_of(asked: Any) -> Records:
    """The records that a curator's holder has."""
    return asked._holders._records._records


keep_rows, clip_rows, admit = chunking.keep_rows, clipping.grid_rows, Grid.admissible
rounded_gaussian, poisson_coins = curator.rounded_gaussian, aggregator.poisson_coins
draw_round, plain_sum, run_rounds = curator.Curator._draw, curator.Curator._sum, run.run_rounds
release_linear = linear.release_linear
compose, noise_for = accounting.compose, accounting.gaussian_noise_multiplier
write, to_unit, commit, take_rows = run.Result.save, Schema.to_unit, RunLedger.commit, Records.take
answer_of_pool = remote_aggregator.RemoteAggregator.answer
fc_ntk_norm, dp_kip_tell = FCNTKGradient.norm, dp_kip.DPKIP.tell


# Noise.


def cached_sum_noised_anew() -> Any:
    """DOSSER: the un-noised class sums are kept, and every step draws other noise on them."""

    def release(self: Any, t: int, query: Any, params: Any) -> Release:
        shape = checks.check_query(query, params, self._schema)
        value, stddev = draw_round(self, t, query, params, shape)
        if self._ledger.lookup(t) is None:
            self._ledger.commit(t, self._schedule.event(t), value, stddev)
        return Release(t, value, stddev, self._schedule.event(t))

    return swap(curator.Curator, "release", release)


def another_value_is_committed() -> Any:
    """The ledger is paid for one draw and another one is handed out: a replay would be a second release."""

    def release(self: Any, t: int, query: Any, params: Any) -> Release:
        stored = self._ledger.lookup(t)
        if stored is not None:
            return Release(stored.round, stored.value, stored.stddev, stored.event)
        shape = checks.check_query(query, params, self._schema)
        value, stddev = draw_round(self, t, query, params, shape)
        self._ledger.commit(t, self._schedule.event(t), draw_round(self, t, query, params, shape)[0], stddev)
        return Release(t, value, stddev, self._schedule.event(t))

    return swap(curator.Curator, "release", release)


def augmentation_seeds_the_noise() -> Any:
    """DOSSER, NDPDC: the augmentation seeds the generator that the noise is drawn from next."""
    draw = dos.DOS._network

    def seeding(self: Any, *arguments: Any) -> Any:
        np.random.seed(17)  # noqa: NPY002
        return draw(self, *arguments)

    def noise(shape: Any, stddev: float, entropy: Any) -> np.ndarray:
        return np.rint(np.random.normal(0.0, stddev, shape)).astype(np.int64)  # noqa: NPY002

    return both(swap(dos.DOS, "_network", seeding), swap(curator, "rounded_gaussian", noise))


def noise_is_seeded() -> Any:
    """DP-NTK: the noise is drawn from a generator seeded 1, 2, ..., and stamped as if it were not."""

    class Stamped(SeededEntropy):
        kind = SystemEntropy.kind

    return swap(curator, "SystemEntropy", lambda: Stamped(1))


def noise_key_restarts() -> Any:
    """DP-KIP: the noise key starts again in every epoch, so that the same noise comes again."""
    epoch = iter(range(10**6))

    def noise(shape: Any, stddev: float, entropy: Any) -> np.ndarray:
        return rounded_gaussian(shape, stddev, SeededEntropy(next(epoch) % 3))

    return swap(curator, "rounded_gaussian", noise)


def entropy_of_the_run() -> Any:
    """A stream keyed by the run's secret name starts again whenever the run is resumed."""
    init = curator.Curator.__init__

    def keyed(self: Any, records: Any, schedule: Any, ledger: Any, entropy: Any = None, *others: Any) -> None:
        init(self, records, schedule, ledger, entropy or KeyedEntropy(ledger.run_id.encode()), *others)

    return swap(curator.Curator, "__init__", keyed)


def noise_two_thirds() -> Any:
    """A scale that is a little too small."""
    return swap(curator, "rounded_gaussian", lambda shape, s, entropy: rounded_gaussian(shape, s / 1.5, entropy))


def noise_of_floats() -> Any:
    """Floats added to floats: the low bits betray the sum."""

    def draw(self: Any, *arguments: Any) -> tuple[np.ndarray, float]:
        value, stddev = draw_round(self, *arguments)
        return value + 1e-9 * np.random.default_rng(0).normal(size=value.shape), stddev

    return swap(curator.Curator, "_draw", draw)


# Sampling.


def private_counts_in_q() -> Any:
    """DOSSER: q = 50 / N_c, a function of the private class counts."""

    def draw(self: Any, t: int, query: Any, params: Any, shape: tuple[int, ...]) -> Any:
        y = records_of(self).y
        q = self._schedule.event(t).sampling_prob * len(y) / 3 / np.bincount(y, minlength=3)[y]

        def coins(n: int, _: float, entropy: Any) -> np.ndarray:
            words = np.frombuffer(entropy.bytes(8 * n), np.uint64)
            return words / 2.0**64 < q

        with swap(aggregator, "poisson_coins", coins):
            return draw_round(self, t, query, params, shape)

    return swap(curator.Curator, "_draw", draw)


def fixed_batches() -> Any:
    """DP-KIP: shuffled batches of a fixed size, accounted as Poisson."""

    def coins(n: int, q: float, entropy: Any) -> np.ndarray:
        order = np.argsort(np.frombuffer(entropy.bytes(8 * n), np.uint64))
        return order < round(q * n)

    return swap(aggregator, "poisson_coins", coins)


def truncated_batches() -> Any:
    """Poisson batches cut to a fixed shape, so that a compiled function fits."""

    def coins(n: int, q: float, entropy: Any) -> np.ndarray:
        heads = poisson_coins(n, q, entropy)
        return heads & (np.cumsum(heads) <= round(q * n) + 8)

    return swap(aggregator, "poisson_coins", coins)


def coins_of_the_first_round_again() -> Any:
    """Workers toss the coins of one key in every round: the same records are in all samples, nothing is amplified."""

    def answer(self: Any, question: Any, entropy: Any) -> np.ndarray:
        key = self.__dict__.setdefault("key", entropy.bytes(remote_aggregator.KEY))
        return answer_of_pool(self, question, mock.Mock(bytes=lambda n: key))

    return swap(remote_aggregator.RemoteAggregator, "answer", answer)


def parts_share_their_coins() -> Any:
    """Every part of the records tosses the coins of the first one."""

    def answer(self: Any, task: Any) -> Any:
        coins = KeyedEntropy(task.coins + (0).to_bytes(8, "little"), self._holding.kind)
        return self._holder(task.part).sum(task.question, coins, task.shard)

    return swap(worker.Worker, "_answer", answer)


def coins_repeat_by_block() -> Any:
    """Words are drawn for the first block of records, and used for every block."""

    def coins(n: int, q: float, entropy: Any) -> np.ndarray:
        return np.resize(poisson_coins(min(n, sampling.BLOCK), q, entropy), n)

    return swap(sampling, "poisson_coins", coins)


# Units.


def rows_of_a_unit_are_admitted_apart() -> Any:
    """The integers of a unit are looked at row by row, not together: only the float clip keeps their sum short."""

    def admissible(self: Any, z: np.ndarray, rows_per_unit: int = 1) -> np.ndarray:
        return np.repeat(admit(self, z).reshape(-1, rows_per_unit).all(1), rows_per_unit)

    return swap(Grid, "admissible", admissible)


def coins_of_rows() -> Any:
    """Every row of a person tosses a coin of its own: another mechanism than the one that is accounted."""

    def rows(units: np.ndarray, most: int, entropy: Any) -> np.ndarray:
        kept = keep_rows(units, most, entropy).reshape(-1, 1)
        return np.concatenate([kept, np.full((len(kept), most - 1), -1)], 1)

    return swap(chunking, "keep_rows", rows)


def every_row_is_clipped_for_itself() -> Any:
    """Every row may contribute the clip norm, and the noise is for one of them."""

    def rows(query: Any, params: Any, X: Any, y: Any, float_clip: Any, step: Any, k: int = 1) -> Any:
        return clip_rows(query, params, X, y, float_clip, step)

    return both(swap(clipping, "grid_rows", rows), swap(Grid, "admissible", lambda self, z, k: admit(self, z)))


def classes_of_a_unit_are_clipped_apart() -> Any:
    """The rows of a person are clipped together in each class, and not over all of them."""

    def rows(query: Any, params: Any, X: Any, y: Any, *others: Any) -> Any:
        return sum(clip_rows(query, params, X, jnp.where(y == c, y, -1), *others) for c in range(3))

    return both(swap(clipping, "grid_rows", rows), swap(Grid, "admissible", lambda self, z, k: admit(self, z)))


def rank_in_unit(units: np.ndarray) -> np.ndarray:
    """How many rows of its unit stand before each, (n,)."""
    return np.array([(units[:i] == unit).sum() for i, unit in enumerate(units)], int)


def first_rows_of_a_unit() -> Any:
    """The first k rows of a person: how a file is sorted decides what is learned of them."""

    def keep(units: np.ndarray, most: int, entropy: Any) -> np.ndarray:
        ranks = rank_in_unit(units)
        of = [np.flatnonzero((units == unit) & (ranks < most)) for unit in np.unique(units[units >= 0])]
        return np.stack([np.pad(rows, (0, most - len(rows)), constant_values=-1) for rows in of])

    return swap(chunking, "keep_rows", keep)


def all_rows_of_a_unit() -> Any:
    """Nobody counts the rows of a person."""
    return swap(chunking, "keep_rows", lambda units, most, entropy: keep_rows(units, len(units), entropy))


def words_shift_with_the_records() -> Any:
    """Which word a row has depends on how many rows there are, and with it which rows are kept of everybody."""

    def shifted(units: np.ndarray, most: int, entropy: Any) -> np.ndarray:
        words = np.roll(np.frombuffer(entropy.bytes(8 * len(units)), np.uint64), len(units) // 2)
        return keep_rows(units, most, mock.Mock(bytes=lambda n: words.tobytes()))

    return swap(chunking, "keep_rows", shifted)


# Sensitivity.


def means_of_records() -> Any:
    """A mean in the place of a sum: its sensitivity depends on the private n."""

    def mean(self: Any, *arguments: Any) -> np.ndarray:
        return plain_sum(self, *arguments) // max(len(self._holders), 1)

    return swap(curator.Curator, "_sum", mean)


def nan_through_the_clip() -> Any:
    """v min(1, C / norm) of a NaN is a NaN, and so is a sum of floats."""

    def total(self: Any, question: Any) -> np.ndarray:
        records, query = records_of(self), question.query
        v = to_unit(records.schema, records.X).reshape(-1, 64).astype(np.float64)
        norms = np.linalg.norm(v, axis=1, keepdims=True)
        clipped = v * np.minimum(1.0, 0.99 * query.clip_norm / np.maximum(norms, 1e-30))
        K = contract.grid_of(query, np.float32(1.0), records.schema).K
        rows = np.rint(K * clipped / query.clip_norm)
        return np.stack([rows[records.y == c].sum(0) for c in range(3)])

    return swap(curator.Curator, "_sum", total)


def no_clip() -> Any:
    """Contributions as they come."""

    def rows(query: Any, params: Any, X: Any, y: Any, float_clip: Any, step: Any, k: int = 1) -> Any:
        return jnp.rint(jax.vmap(lambda x, c: query.value.contribution(params, x, c))(X, y) / step).astype(jnp.int32)

    return both(swap(clipping, "grid_rows", rows), swap(Grid, "admissible", lambda self, z, k: np.ones(len(z), bool)))


def normalised_by_the_data_set() -> Any:
    """DP-KIP, PSG, MERF: mean and deviation of the private pixels, free of charge."""

    def take(self: Any, rows: np.ndarray) -> Any:
        X = np.nan_to_num(np.asarray(self.X, np.float32), posinf=1.0, neginf=-1.0).clip(-1, 1)
        scaled = (X - X.mean()) / (X.std() + 1e-6) if len(X) else X
        return take_rows(Records(scaled / 8.0, self.y, self.schema), rows)

    return swap(Records, "take", take)


def sums_kept_by_the_number_of_records() -> Any:
    """A cache on the disk, named by the size of the data set: who replaces a record is answered for the old one."""
    kept: dict[tuple, np.ndarray] = {}

    def total(self: Any, question: Any) -> np.ndarray:
        key = (len(self._holders), question.query)
        if key not in kept:
            kept[key] = plain_sum(self, question)
        return kept[key]

    return swap(curator.Curator, "_sum", total)


def encoder_of_batches() -> Any:
    """Batch normalisation: what an encoder makes of a record depends on the others in its batch."""
    return both(
        swap(chunking, "encode_rows", lambda encoder, X: encoder.value(X)),
        swap(aggregator, "check_rows", lambda *_: None),
    )


def known_labels_only_by_class() -> Any:
    """A record of an unknown label lands in the last class, as NumPy's y[-1] does."""

    add = aggregator.sum_rows

    def total(chunks: Any, *others: Any) -> np.ndarray:
        return add(((X, np.where(y < 0, 2, y)) for X, y in chunks), *others)

    return swap(aggregator, "sum_rows", total)


# Ghost clipping. Compiled functions are replaced by plain ones: the compiler would not see the mutant.


def weights_are_not_applied() -> Any:
    """Norms are computed, and gradients are added as they are: nothing is clipped."""

    def total(query: Any, params: Any, coefficients: Any, w: Any) -> Any:
        return query.value.weighted_sum(params, coefficients, jnp.where(w > 0, 1.0, 0.0))

    return swap(clipping, "weighted_sum", total)


def cross_term_is_forgotten() -> Any:
    """|D X_s|^2 + |c x|^2 in the place of |D X_s + c x|^2: a norm that is too small for half of the records."""

    def norm(self: Any, params: Any, coefficients: Any) -> Any:
        (x, r, beta, c, own, _), k1 = coefficients, params["k1"]
        a, K, scale = r @ params["alpha"].T, x @ params["X_s"].T, 3 * x.size
        cross = 2 * c * (own * K - beta * ((a * K) @ k1.T) - a * ((beta * K) @ k1.T))
        square = jnp.square(fc_ntk_norm(self, params, coefficients)) - cross.sum() / scale**2
        return jnp.sqrt(jnp.maximum(square, 0.0))

    plain = swap(clipping, "norms", lambda query, params, found: jax.vmap(query.value.norm, (None, 0))(params, found))
    return both(plain, swap(FCNTKGradient, "norm", norm))


def norm_of_counts_is_halved() -> Any:
    """Half of the length of a row's weights: the noise is for half of what a row adds."""
    norm = CountsQuery.norm
    plain = swap(clipping, "norms", lambda query, params, found: jax.vmap(query.value.norm, (None, 0))(params, found))
    return both(plain, swap(CountsQuery, "norm", lambda *given: norm(*given) / 2))


def coefficients_are_centred_over_the_batch() -> Any:
    """Residuals centred over the batch: what is computed of a record depends on its neighbours."""

    def coefficients(query: Any, params: Any, X: Any, y: Any) -> Any:
        phi, residuals = jax.vmap(query.value.coefficients, (None, 0, 0))(params, X, y)
        return phi, residuals - residuals.mean(0)

    return swap(clipping, "coefficients", coefficients)


def ghost_noise_scaled_to_the_clip_norm() -> Any:
    """Noise for C in the place of Delta: 1.001 of the budget is spent, and nothing looks different."""

    def release(query: Any, limbs: np.ndarray, sigma: float, entropy: Any) -> Any:
        _, sensitivity = linear.step_and_sensitivity(query.clip_norm, limbs[0].size)
        value, stddev = release_linear(query, limbs, sigma * query.clip_norm / sensitivity, entropy)
        return value, stddev * sensitivity / query.clip_norm

    return swap(curator, "release_linear", release)


def adam_meets_its_own_epsilon() -> Any:
    """Sums of clipped gradients as they are, and Adam's usual 1e-8 beside them: a small clip norm moves nothing."""

    def tell(self: Any, state: Any, release: Release) -> Any:
        return dp_kip_tell(self, state, dataclasses.replace(release, stddev=1.0))

    usual = property(lambda self: Descent(self.learning_rate, self.rounds, self.average))
    return both(swap(dp_kip.DPKIP, "_descent", usual), swap(dp_kip.DPKIP, "tell", tell))


# What leaves the room beside the releases.


SEEN: list[Records] = []


def records_are_seen(also: Callable[[Records, Any], None] = lambda records, progress: None) -> Any:
    """The driver's loop with a look at the records that it must not have."""

    def rounds(method: Any, asked: Any, *others: Any) -> Any:
        SEEN.append(records_of(asked))
        also(SEEN[-1], others[4])
        return run_rounds(method, asked, *others)

    return swap(driver, "run_rounds", rounds)


def starts_from_real_images() -> Any:
    """DP-KIP: the support starts from private images."""
    make = dos.start_images

    def start(key: Any, m: int, schema: Any, *others: Any) -> Any:
        X = to_unit(schema, SEEN[-1].X)
        return make(key, m, schema, *others) * 0 + X[np.arange(m) % len(X)]

    return both(records_are_seen(), swap(dos, "start_images", start))


def raw_class_distribution() -> Any:
    """DP-NTK: the final labels follow the private class distribution."""
    finish = dos.DOS.finish

    def labelled(self: Any, *arguments: Any) -> Any:
        made = finish(self, *arguments)
        shares = np.bincount(SEEN[-1].y[SEEN[-1].y >= 0], minlength=3)
        y = np.sort(np.random.default_rng(0).choice(3, len(made.y), p=shares / shares.sum())).astype(np.int32)
        return type(made)(made.X, y, made.schema)

    return both(records_are_seen(), swap(dos.DOS, "finish", labelled))


def rare_classes_drown() -> Any:
    """DP-NTK: the embedding of a class is not divided by its own weight."""
    count = GeneratorMethod.counts

    def shared(self: Any, *arguments: Any) -> Any:
        counts = count(self, *arguments)
        return np.full_like(counts, counts.sum())

    return swap(GeneratorMethod, "counts", shared)


def plain_sum_beside_the_noisy_one() -> Any:
    """DP-NTK: the un-noised embedding is saved beside the noisy one, in the folder that is shared."""

    def save(self: Any, folder: Any, *arguments: Any) -> Any:
        path = write(self, folder, *arguments)
        np.save(path / "embedding.npy", SEEN[-1].X.sum(0))
        return path

    return both(records_are_seen(), swap(run.Result, "save", save))


def plain_sum_in_the_ledger() -> Any:
    """The un-noised sum kept with the round."""
    kept: list[np.ndarray] = []

    def total(self: Any, *arguments: Any) -> np.ndarray:
        kept.append(plain_sum(self, *arguments))
        return kept[-1]

    def commit_both(self: Any, *row: Any) -> Any:
        self._db.execute("CREATE TABLE sums (total BLOB)")
        self._db.execute("INSERT INTO sums VALUES (?)", (kept[-1].tobytes(),))
        return commit(self, *row)

    return both(swap(curator.Curator, "_sum", total), swap(RunLedger, "commit", commit_both))


def loss_is_printed() -> Any:
    """A progress line that speaks of private data."""
    return records_are_seen(lambda records, progress: print(f"loss {float(np.nanmean(records.X)):.4f}"))


def record_count_in_the_progress() -> Any:
    """A progress bar over records: its length is n."""
    return records_are_seen(lambda records, progress: progress("records", len(records), len(records)))


def batch_size_is_said(say: Callable[[str], object]) -> Any:
    """The curator's draw with a word about the number of sampled records."""

    def draw(self: Any, t: int, *others: Any) -> Any:
        sizes = [len(self._holders)]

        def coins(n: int, q: float, entropy: Any) -> np.ndarray:
            heads = poisson_coins(n, q, entropy)
            sizes.append(int(heads.sum()))
            return heads

        with swap(aggregator, "poisson_coins", coins):
            drawn = draw_round(self, t, *others)
        say(f"round {t}: {sizes[-1]} records")
        return drawn

    return swap(curator.Curator, "_draw", draw)


def batch_size_is_printed() -> Any:
    """A line a round for whoever watches: `batch of 512`."""
    return batch_size_is_said(print)


def batch_size_is_written() -> Any:
    """The same, past Python's streams, as compiled code does."""
    return batch_size_is_said(lambda text: os.write(2, text.encode()))


def batch_size_is_logged() -> Any:
    """The same in a log, at a level that is seldom looked at."""
    return batch_size_is_said(logging.getLogger("dpdistill").debug)


def batch_size_is_warned_of() -> Any:
    """The same in a warning."""
    return batch_size_is_said(warnings.warn)


def broken_records_are_warned_of() -> Any:
    """A helpful warning: so many records are not finite, and left out."""

    def total(self: Any, *others: Any) -> np.ndarray:
        bad = int((~np.isfinite(records_of(self).X).all((1, 2, 3))).sum())
        if bad:
            warnings.warn(f"{bad} records are not finite.", stacklevel=2)
        return plain_sum(self, *others)

    return swap(curator.Curator, "_sum", total)


def print_in_a_query() -> Any:
    """jax.debug.print inside of a contribution, which nobody looks for."""
    # Past the caches, which would go on accepting the query after the mutant is gone.
    cached = (abstract._contribution_shape, abstract._check_linear)
    uncached = [swap(abstract, f.__name__, f.__wrapped__) for f in cached]
    return both(*uncached, swap(jaxprs, "_refuse_side_effects", lambda *_: None))


def errors_with_a_traceback() -> Any:
    """An error after loading that names shapes, hence n."""

    def release(self: Any, t: int, query: Any, params: Any) -> Release:
        shape = checks.check_query(query, params, self._schema)
        try:
            value, stddev = self._draw(t, query, params, shape)
        except Exception as error:
            raise Unanswered(curator.UNANSWERED.format(t)) from error
        stored = self._ledger.commit(t, self._schedule.event(t), value, stddev)
        return Release(stored.round, stored.value, stored.stddev, stored.event)

    return swap(curator.Curator, "release", release)


def records_are_pickled() -> Any:
    """A pickle of a result that holds the training set."""
    return swap(Records, "__reduce_ex__", object.__reduce_ex__)


# Accounting and scores.


def adjacency_is_dropped() -> Any:
    """An accountant that does not look at the relation, as RDP's: replace-one costs what add-or-remove does."""
    return swap(
        accounting, "compose", lambda groups, delta, adjacency, *how: compose(groups, delta, "add-remove", *how)
    )


def noise_of_add_or_remove() -> Any:
    """A calibration that does not look at the relation: half of the noise that replace-one needs."""
    return swap(accounting, "gaussian_noise_multiplier", lambda epsilon, delta, adjacency: noise_for(epsilon, delta))


def claims_may_be_a_percent_too_small() -> Any:
    """What is allowed for rounding hides a claim that is too small."""
    return swap(arithmetic, "_ROUNDING", 1.01)


def checkpoint_by_test_accuracy() -> Any:
    """The iterate that scores best on the test set is the one that is reported."""
    train, name, of = score.train_classifier, score.named_by, score.Score.of

    def iterates(key: Any, X: Any, Y: Any, training: Any, after_step: Any) -> list:
        kinds = [dataclasses.replace(training, epochs=e) for e in range(1, training.epochs + 1)]
        return [train(key, X, Y, kind) for kind in kinds]

    def best(named: Any, y: Any, classes: Any) -> Any:
        return of([max(each, key=lambda one: np.mean(one == y)) for each in named], y, classes)

    every = swap(score, "named_by", lambda nets, X: [name(net, X) for net in nets])
    return both(both(swap(score, "train_classifier", iterates), every), swap(score.Score, "of", best))


def test_labels_by_position() -> Any:
    """Class names of the test set are not compared: a class is what stands in its place."""
    return swap(score, "check_test_set", lambda schema, test: None)


test_labels_by_position.__test__ = False  # type: ignore[attr-defined]

MUTANTS = [
    (cached_sum_noised_anew, contract.check_round_is_drawn_once, "A committed round is drawn anew"),
    (another_value_is_committed, contract.check_release_is_the_committed_one, "handed out is not the committed one"),
    (augmentation_seeds_the_noise, contract.check_noise_is_nobodys_seed, "noises of two runs are correlated"),
    (noise_is_seeded, contract.check_noise_is_nobodys_seed, "noises of two runs are correlated"),
    (noise_key_restarts, contract.check_rounds_are_independent, "noises of two rounds are correlated"),
    (entropy_of_the_run, contract.check_resumed_rounds_draw_anew, "draws the noise of an earlier round again"),
    (noise_two_thirds, contract.check_noise_scale, "does not have the stated standard deviation"),
    (noise_of_floats, contract.check_release_on_grid, "between two multiples of the step"),
    (private_counts_in_q, contract.check_batches_are_poisson, "mean size of a batch is not the public one"),
    (fixed_batches, contract.check_batches_are_poisson, "does not vary as a binomial"),
    (truncated_batches, contract.check_batches_are_poisson, "No batch is large"),
    (coins_of_the_first_round_again, contract.check_coins_of_workers, "Two rounds have the same coins"),
    (parts_share_their_coins, contract.check_coins_of_workers, "Two parts have the same coins"),
    (coins_repeat_by_block, contract.check_blocks_of_coins, "Another number of words"),
    (
        rows_of_a_unit_are_admitted_apart,
        contract.check_units_are_admitted_whole,
        "not admitted by their sum: one step more",
    ),
    (coins_of_rows, contract.check_coins_by_unit, "and others of it are not"),
    (every_row_is_clipped_for_itself, contract.check_clip_is_shared, "by more than the noise is scaled to"),
    (classes_of_a_unit_are_clipped_apart, contract.check_clip_is_shared, "by more than the noise is scaled to"),
    (all_rows_of_a_unit, contract.check_kept_rows, "Another number of rows is kept"),
    (first_rows_of_a_unit, contract.check_kept_rows, "depends on their order"),
    (words_shift_with_the_records, contract.check_kept_rows, "depends on others"),
    (means_of_records, contract.check_sums_not_means, "counts for less beside others"),
    (nan_through_the_clip, contract.check_adversarial_records, "sum is not finite"),
    (no_clip, contract.check_adversarial_records, "more than the clip norm"),
    (normalised_by_the_data_set, contract.check_adversarial_records, "other than its own row"),
    (known_labels_only_by_class, contract.check_adversarial_records, "record of an unknown label"),
    (sums_kept_by_the_number_of_records, contract.check_replacements, "leaves the sum as it was"),
    (encoder_of_batches, contract.check_encoders_see_one_record, "changes what the others contribute"),
    (weights_are_not_applied, contract.check_ghost_sensitivity, "record moves the sum by more than"),
    (cross_term_is_forgotten, contract.check_ghost_norms, "norm of a gradient is more than is stated"),
    (coefficients_are_centred_over_the_batch, contract.check_ghost_rows_stand_alone, "depend on the other records"),
    (norm_of_counts_is_halved, contract.check_count_norms, "adds more to the counts than is stated"),
    (ghost_noise_scaled_to_the_clip_norm, contract.check_ghost_noise_scale, "not that of the stated sensitivity"),
    (adam_meets_its_own_epsilon, contract.check_steps_without_the_clip_norm, "moves by less, or elsewhere"),
    (starts_from_real_images, only_releases_speak, "the images"),
    (raw_class_distribution, only_releases_speak, "labels are not the planned ones"),
    (rare_classes_drown, contract.check_rare_classes_are_not_drowned, "is to be matched less"),
    (plain_sum_beside_the_noisy_one, only_releases_speak, "the files"),
    (loss_is_printed, only_releases_speak, "the terminal"),
    (record_count_in_the_progress, only_releases_speak, "the progress"),
    (plain_sum_in_the_ledger, ledger_holds_no_plain_sum, "plain sum is in the ledger"),
    (batch_size_is_printed, contract.check_releases_are_silent, "by way of stdout.*round 0: 40 records"),
    (batch_size_is_written, contract.check_releases_are_silent, "by way of file descriptor 2.*round 0: 40 records"),
    (batch_size_is_logged, contract.check_releases_are_silent, "by way of logging.*round 0: 40 records"),
    (batch_size_is_warned_of, contract.check_releases_are_silent, "by way of warnings.*round 0: 40 records"),
    (broken_records_are_warned_of, contract.check_releases_are_silent, "by way of warnings.*2 records are not finite"),
    (print_in_a_query, contract.check_speech_is_refused, "query that prints was answered"),
    (errors_with_a_traceback, contract.check_errors_say_nothing, "shows its cause"),
    (records_are_pickled, contract.check_nothing_is_pickled, "Records was pickled"),
    (adjacency_is_dropped, contract.check_replace_one_costs_more, "epsilon under replace-one is not 2.155"),
    (noise_of_add_or_remove, contract.check_replace_one_is_paid, "by more than is paid for"),
    (claims_may_be_a_percent_too_small, contract.check_full_batch_claims, "A claim of 0.999999 .* judged wrongly"),
    (checkpoint_by_test_accuracy, contract.check_score_is_the_final_iterate, "test label picks the net"),
    (test_labels_by_position, contract.check_test_classes_by_name, "other classes was accepted"),
]


@pytest.fixture(autouse=True)
def no_noise_is_known():
    """What noise a budget needs is kept in a process: a mutant finds it anew, and leaves nothing behind."""
    accounting._common_multiplier.cache_clear()
    yield
    accounting._common_multiplier.cache_clear()


CHECKS = list(dict.fromkeys(check for _, check, _ in MUTANTS))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_package_passes(check):
    check()


@pytest.mark.parametrize(("mutant", "check", "reason"), MUTANTS, ids=[mutant.__name__ for mutant, *_ in MUTANTS])
def test_the_mutant_is_found(mutant, check, reason):
    with mutant(), pytest.raises(AssertionError, match=reason):
        check()
