"""Time, memory and disk that a run takes, for every method of the table: counted, and about what it does take."""

import json
import threading
import time
from dataclasses import dataclass, replace

import contract
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few
from contract import SCATTER, make_records, table_records, tiny

from dpdistill import run
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.method import finish_field, release_field
from dpdistill.methods import METHODS
from dpdistill.methods.baselines.ldpdc import LDPDC
from dpdistill.private.curator import Curator
from dpdistill.query import Stage
from dpdistill.recipe.kernels import KERNELS
from dpdistill.run import forecast, speed
from dpdistill.run.count import chunks
from dpdistill.run.dry_run import Work, dry_run, work_of
from dpdistill.run.forecast import capacity
from dpdistill.run.speed import seconds_each
from dpdistill.schema import Schema
from dpdistill.sources.load import load

SLOW = 0.02
EACH = Work(1e-10, 1e-10, 1e-10, 1e-3, 1.0)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Speeds of a machine that is always the same."""
    monkeypatch.setattr(forecast, "seconds_each", lambda: EACH)


def busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@dataclass(frozen=True, kw_only=True)
class Slow(LDPDC):
    """Rounds that take 20 ms each, after them steps of 2 ms, and what is done once, of half a second."""

    rounds: int = release_field(100, "rounds", ge=1)
    steps: int = finish_field(1000, "steps", ge=1)

    name = "slow"

    def plan(self):
        return (Stage(self.rounds),)

    def tell(self, state, release):
        busy(SLOW)
        return state

    def finish(self, state, schema, progress=None):
        busy(0.5)
        for step in range(self.steps):
            busy(SLOW / 10)
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
            busy((1e-3 + 50e-6 * min(self.taught, self.networks)) * self.pictures)
        return state


def scheduled(method, **budget):
    return calibrate(method.plan(), Budget(5.0, **budget))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_an_estimate(name):
    method, images = tiny(name), Schema in METHODS[name].schemas
    records = load("digits:train") if images else table_records(400, schema=contract.fitting(name, contract.TABLE))
    schedule = scheduled(method) if method.private else None
    found = capacity(method, records.schema, len(records), schedule)
    parts = (found.compiling, found.encoding, found.releasing, found.finishing)
    assert min(parts) >= 0
    assert found.seconds == sum(parts)
    assert 0 < found.releasing < found.seconds < 600
    assert 1 << 26 < found.memory < 1 << 36
    query, _ = method.ask(method.init(jax.random.key(0), records.schema))
    assert (found.features > 0) == (found.encoding > 0) == (query.encoder is not None)
    assert 4 * records.schema.dimension * getattr(method, "per_class", 1) < found.disk < 1 << 30


def test_rounds_and_steps_take_what_they_take():
    method, schema = Slow(per_class=1), make_records(1).schema
    found = capacity(method, schema, 20, scheduled(method))
    assert 80 * SLOW < found.releasing < 300 * SLOW
    # A loop that is busy by the process's clock ends early where other threads compute.
    assert 0.8 < found.finishing / (0.5 + 1000 * SLOW / 10) < 3
    shorter = capacity(Slow(per_class=1, rounds=10, steps=50), schema, 20, scheduled(Slow(rounds=10)))
    assert 8 * SLOW < shorter.releasing < 30 * SLOW
    assert 0.8 < shorter.finishing / (0.5 + 50 * SLOW / 10) < 3


def test_what_is_learned_between_rounds_takes_what_it_takes():
    method, schema = Learning(per_class=1), make_records(1).schema
    found = capacity(method, schema, 20, scheduled(method))
    lesson = (1e-3 + 50e-6 * 50) * 800
    assert 0.9 * lesson < found.releasing < 1.6 * lesson
    assert capacity(Learning(per_class=1, taught=0), schema, 20, scheduled(method)).releasing < 0.5
    all_ten = capacity(Learning(per_class=1, taught=1000, networks=10), schema, 20, scheduled(method)).releasing
    assert all_ten < 1.6 * (1e-3 + 50e-6 * 10) * 800, "no more learn than there are"


def test_more_records_take_longer_and_ask_for_more_features():
    method = METHODS["decoupled-kip"](rounds=2, steps=1, kernel=SCATTER)
    schema = Schema((16, 16, 1), (0.0, 1.0), ("a", "b"))
    few, many = (capacity(method, schema, n, scheduled(method)) for n in (1_000, 100_000))
    assert 50 < many.encoding / few.encoding < 150
    assert 60 < many.features / few.features <= 100
    assert many.releasing > 10 * few.releasing
    assert many.finishing == pytest.approx(few.finishing, rel=0.5)
    d = method.init(jax.random.key(0), schema)["W"].shape[0]
    assert 1.0 < many.features / (d * 100_000) < 1.1  # a byte a number, and placeholders


def test_programs_are_compiled_and_tested_once():
    schema = make_records(1).schema
    short, long = (replace(tiny("decoupled-kip"), rounds=rounds) for rounds in (20, 200))
    once, often = (capacity(method, schema, 60_000, scheduled(method)) for method in (short, long))
    assert often.compiling == pytest.approx(once.compiling, rel=0.5)
    assert often.releasing == pytest.approx(10 * once.releasing, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("shape", few([(64, 64, 3), (224, 224, 3), (224, 100, 1)], (64, 64, 3)))
def test_large_images_take_more_by_their_pixels(shape):
    method = METHODS["decoupled-kip"](rounds=3, steps=10, kernel=SCATTER)
    at_32, larger = (
        capacity(method, Schema(size, (0.0, 1.0), ("a", "b")), 300, scheduled(method))
        for size in ((32, 32 * shape[1] // shape[0], shape[2]), shape)
    )
    pixels = shape[0] * shape[1] / (32 * (32 * shape[1] // shape[0]))
    assert pixels * at_32.encoding < larger.encoding < pixels**1.5 * at_32.encoding  # a matrix product along each side
    # Smaller chunks have fewer placeholders.
    assert 0.4 * pixels * at_32.features < larger.features < 1.3 * pixels * at_32.features
    assert larger.compiling < pixels * at_32.compiling


def test_chunks_are_those_of_the_fullest_place():
    rng = np.random.default_rng(1)
    for n, size in ((5, 16), (1_000, 16), (60_000, 64)):
        fullest = np.mean([np.bincount(rng.integers(0, size, n)).max() for _ in range(200)])
        assert chunks(n, size) == pytest.approx(fullest, rel=0.1)
    assert chunks(0, 16) == 0


def test_no_curator_is_made(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("A forecast reads no record.")

    monkeypatch.setattr(Curator, "__init__", refuse)
    method, schema = tiny("dp-kip"), make_records(1).schema
    assert capacity(method, schema, 100, scheduled(method)).releasing > 0


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


# Counting


def counted(function, *arguments) -> Work:
    return work_of(jax.make_jaxpr(function)(*arguments).jaxpr, {})


def test_products_convolutions_and_loops_are_counted_by_hand():
    a, b, x, w = (np.zeros(s, np.float32) for s in ((3, 4), (4, 5), (2, 8, 8, 3), (3, 3, 3, 7)))
    assert counted(jnp.matmul, a, b).products == 2 * 3 * 4 * 5
    axes = ("NHWC", "HWIO", "NHWC")
    convolved = counted(lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=axes), x, w)
    assert convolved.convolutions == 2 * (2 * 8 * 8 * 7) * (3 * 3 * 3)
    looped = counted(
        lambda a, c: jax.lax.scan(lambda c, _: (c @ c, None), c, None, 9)[0], a, np.zeros((4, 4), np.float32)
    )
    assert looped.products == 9 * 2 * 4**3
    assert looped.equations == 1
    assert counted(lambda a: a + 1.0, a).numbers == 12
    with jax.enable_x64(True):
        assert counted(jnp.matmul, a.astype(np.float64), b.astype(np.float64)).products == 2 * 2 * 3 * 4 * 5


def test_a_dry_run_runs_nothing_and_counts_every_call():
    ran = []

    @jax.jit
    def program(x):
        jax.debug.callback(lambda: ran.append(1))
        return x @ x

    x = np.eye(6, dtype=np.float32)
    with dry_run() as dry:
        results, work = dry.of(lambda: [program(x) for _ in range(3)])
        assert dry.of(lambda: program(x))[1].equations == 0, "it is compiled already"
    assert (work.products, [r.shape for r in results]) == (3 * 2 * 6**3, [(6, 6)] * 3)
    jax.effects_barrier()
    assert ran == []
    np.testing.assert_array_equal(program(x), x)


def test_what_a_dry_run_computed_is_never_used():
    method, schema = METHODS["dos-kip"](kernel=KERNELS["scatternet-white"], steps=1, networks=2), make_records(1).schema
    X, encoder = make_records(5).X.astype(np.float32), method.kernel.encoder
    before = np.asarray(jax.jit(encoder.__call__)(X))
    jax.clear_caches()
    capacity(method, schema, 20, scheduled(method))
    np.testing.assert_array_equal(jax.jit(encoder.__call__)(X), before)
    other = []
    with dry_run():
        thread = threading.Thread(target=lambda: other.append(np.asarray(jax.jit(encoder.__call__)(X))))
        jax.jit(encoder.__call__)(X)
        thread.start()
        thread.join()
    np.testing.assert_array_equal(other[0], before)


# This machine


def test_speeds_are_measured_once_and_kept_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured = []
    monkeypatch.setattr(speed, "_measured", lambda: measured.append(1) or EACH)
    assert (seconds_each(), seconds_each(), len(measured)) == (EACH, EACH, 1)
    (path,) = tmp_path.rglob("*.json")
    ((machine, kept),) = json.loads(path.read_text()).items()
    assert (jax.__version__ in machine, kept) == (True, list(EACH))
    for damaged in ("{", "[]", json.dumps({machine: [1]}), json.dumps({machine: [-1, 1e-9, 1e-9, 1e-3, 1]})):
        path.write_text(damaged)
        measured.clear()
        assert (seconds_each(), len(measured)) == (EACH, 1)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert seconds_each() == EACH


def test_speeds_of_this_machine_are_those_of_a_machine():
    found = speed._measured()
    assert all(1e-13 < value < 1e-6 for value in found[:3])
    assert 1e-5 < found.equations < 1.0
