"""What a run takes, for every method of the table: found on random records, and about what it does take."""

import time
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from contract import SCATTER, make_records, table_records, tiny

from dpdistill import run
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.method import finish_field, release_field
from dpdistill.methods import METHODS
from dpdistill.methods.baselines.ldpdc import LDPDC
from dpdistill.private import aggregator
from dpdistill.private.curator import Curator
from dpdistill.query import Stage
from dpdistill.run import capacity as module
from dpdistill.run.capacity import capacity, chunks
from dpdistill.schema import Schema
from dpdistill.sources.load import load

SLOW = 0.02


@dataclass(frozen=True, kw_only=True)
class Slow(LDPDC):
    """Rounds that take 20 ms each, after them steps of 2 ms, and what is done once, of half a second."""

    rounds: int = release_field(100, "rounds", ge=1)
    steps: int = finish_field(1000, "steps", ge=1)

    name = "slow"

    def plan(self):
        return (Stage(self.rounds),)

    def tell(self, state, release):
        time.sleep(SLOW)
        return state

    def finish(self, state, schema, progress=None):
        time.sleep(0.5)
        for step in range(self.steps):
            time.sleep(SLOW / 10)
            if step % 10 == 9 and progress is not None:
                progress("matching", step + 1, self.steps)
        return super().finish(state, schema)


@dataclass(frozen=True, kw_only=True)
class Learning(LDPDC):
    """After the first of two sums 1 ms to make a picture, and 50 us for every network that learns from it."""

    taught: int = release_field(50, "networks", ge=0)
    pictures: int = release_field(800, "pictures", ge=1)
    networks: int = release_field(1000, "networks that there are", ge=1)

    name = "learning"

    def plan(self):
        return (Stage(2),)

    def tell(self, state, release):
        if release.round == 0:
            time.sleep((1e-3 + 50e-6 * min(self.taught, self.networks)) * self.pictures)
        return state


def scheduled(method, **budget):
    return calibrate(method.plan(), Budget(5.0, **budget))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_estimate(name):
    method, records = tiny(name), load("digits:train")
    schedule = scheduled(method) if method.private else None
    found = capacity(method, records.schema, len(records), schedule)
    parts = (found.compiling, found.encoding, found.releasing, found.finishing)
    assert min(parts) >= 0
    assert found.seconds == sum(parts)
    assert 0 < found.releasing < found.seconds < 600
    assert 1 << 26 < found.memory < 1 << 36
    query, _ = method.ask(method.init(module.jax.random.key(0), records.schema))
    assert (found.features > 0) == (found.encoding > 0) == (query.encoder is not None)
    assert 4 * records.schema.dimension * getattr(method, "per_class", 1) < found.disk < 1 << 30


def test_rounds_and_steps_take_what_they_take():
    method, schema = Slow(per_class=1), make_records(1).schema
    found = capacity(method, schema, 20, scheduled(method))
    assert 100 * SLOW < found.releasing < 300 * SLOW
    assert 0.5 + 1000 * SLOW / 10 < found.finishing < 3 * (0.5 + 1000 * SLOW / 10)
    shorter = capacity(Slow(per_class=1, rounds=10, steps=50), schema, 20, scheduled(Slow(rounds=10)))
    assert 10 * SLOW < shorter.releasing < 30 * SLOW
    assert 0.5 + 50 * SLOW / 10 < shorter.finishing < 3 * (0.5 + 50 * SLOW / 10)


def test_what_is_learned_between_rounds_takes_what_it_takes():
    method, schema = Learning(per_class=1), make_records(1).schema
    began = time.perf_counter()
    found = capacity(method, schema, 20, scheduled(method))
    assert time.perf_counter() - began < 3.0  # with five networks and 64 pictures
    lesson = (1e-3 + 50e-6 * 50) * 800
    assert 0.9 * lesson < found.releasing < 1.6 * lesson
    assert capacity(Learning(per_class=1, taught=0), schema, 20, scheduled(method)).releasing < 0.5
    all_ten = capacity(Learning(per_class=1, taught=1000, networks=10), schema, 20, scheduled(method)).releasing
    assert all_ten < 1.6 * (1e-3 + 50e-6 * 10) * 800, "no more learn than there are"


def test_more_records_take_longer_and_ask_for_more_features(monkeypatch):
    monkeypatch.setattr(module, "_encoder_seconds", cache(module._encoder_seconds))  # what a chunk takes, told once
    method = METHODS["decoupled-kip"](rounds=2, steps=1, kernel=SCATTER)
    schema = Schema((16, 16, 1), (0.0, 1.0), ("a", "b"))
    few, many = (capacity(method, schema, n, scheduled(method)) for n in (1_000, 100_000))
    assert 50 < many.encoding / few.encoding < 150
    assert 60 < many.features / few.features <= 100
    assert many.releasing > 10 * few.releasing
    d = method.init(module.jax.random.key(0), schema)["W"].shape[0]
    assert 1.0 < many.features / (d * 100_000) < 1.1  # a byte a number, and placeholders


def test_tests_of_programs_are_made_once(monkeypatch):
    """Also those that follow once the classifier is no longer zeros, whose slowness is no round's."""
    records, how = make_records(64), replace(tiny("decoupled-kip"), rounds=20)
    schedule = calibrate(how.plan(), Budget(1.0, 1e-5))
    check = aggregator.check_rows

    def slowly(*arguments):
        time.sleep(1.0)
        return check(*arguments)

    quick = capacity(how, records.schema, 60_000, schedule).releasing
    monkeypatch.setattr(aggregator, "check_rows", slowly)
    assert capacity(how, records.schema, 60_000, schedule).releasing < 3 * quick + 1.0


def test_chunks_are_those_of_the_fullest_place():
    rng = np.random.default_rng(1)
    for n, size in ((5, 16), (1_000, 16), (60_000, 64)):
        fullest = np.mean([np.bincount(rng.integers(0, size, n)).max() for _ in range(200)])
        assert chunks(n, size) == pytest.approx(fullest, rel=0.1)
    assert chunks(0, 16) == 0


def test_only_random_records_are_read(monkeypatch):
    asked = []

    def watched(self, records, *rest):
        asked.append(np.array(records.X))
        curator(self, records, *rest)

    curator = Curator.__init__
    monkeypatch.setattr(Curator, "__init__", watched)
    method, schema = tiny("dp-kip"), make_records(1).schema
    capacity(method, schema, 100, scheduled(method))
    assert len(asked) >= 1
    for X in asked:
        assert np.abs(X).max() <= 1
        assert abs(X.mean()) < 0.1
        assert abs(X.std() - 3**-0.5) < 0.1


def test_of_persons_and_of_tables_too():
    method, schema = tiny("dp-merf", marginal_share=0.1), table_records(1).schema
    found = capacity(method, schema, 50, scheduled(method, unit="patient", rows_per_unit=3))
    assert min(found.releasing, found.finishing, found.disk) > 0


def test_a_number_of_records_that_cannot_be():
    with pytest.raises(ValueError, match="Expected records=0 >= 1"):
        capacity(tiny("ldpdc"), make_records(1).schema, 0)


def test_disk_is_about_what_a_run_leaves(tmp_path):
    method, records = METHODS["decoupled-kip"](steps=1, kernel=SCATTER), make_records(40)
    run.distill(records, method, Budget(5.0), run_dir=tmp_path / "x.run")
    left = sum(path.stat().st_size for path in (tmp_path / "x.run").iterdir())
    assert 0.5 < capacity(method, records.schema, 40, scheduled(method)).disk / left < 2
