"""A run takes as many records at once as fit into memory, and is refused before anything is paid if none does."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from contract import PixelKernel, make_records, tiny

from dpdistill import begin_ledger, run
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.methods import METHODS
from dpdistill.query import Compute
from dpdistill.recipe.kernels import KERNELS
from dpdistill.recipe.parts import implement
from dpdistill.recipe.published import published
from dpdistill.run import fit
from dpdistill.run.dry_run import dry_run
from dpdistill.run.fit import fitting, program_memory, round_bytes
from dpdistill.run.forecast import capacity
from dpdistill.run.start import queries_of
from dpdistill.schema import DataError, Schema

DIGITS = Schema((28, 28, 1), (0.0, 255.0), tuple("0123456789"))
PHOTOGRAPHS = Schema((32, 32, 3), (0.0, 255.0), tuple("0123456789"))


def scheduled(method, **budget):
    return calibrate(method.plan(), Budget(5.0, **budget)) if method.private else None


def needed(asked, schema, size, **how):
    return max(round_bytes(query, params, schema, size, 1, True, **how) for query, params in asked)


@pytest.mark.parametrize("name", ["dos", "dp-kip", "dp-merf", "psg"])
def test_chunks_are_halved_until_they_fit(name):
    method, schema = tiny(name), make_records(1).schema
    asked, schedule = queries_of(method, schema), scheduled(method)
    usual = fitting(method, schema, asked, schedule, Compute(), 1 << 30)
    assert usual == Compute()
    half, whole = (needed(asked, schema, size) for size in (2, 64))
    assert half < whole
    found = fitting(method, schema, asked, schedule, Compute(chunk=64, block=64), half)
    assert (found.chunk, found.block) == (2, 2)


def test_the_rows_of_a_person_fit_together():
    method, schema = tiny("dos"), make_records(1).schema
    asked, schedule = queries_of(method, schema), scheduled(method, unit="patient", rows_per_unit=3)
    room = max(round_bytes(query, params, schema, 2, 3, True) for query, params in asked)
    assert fitting(method, schema, asked, schedule, Compute(chunk=48), room).chunk == 6
    one = max(round_bytes(query, params, schema, 1, 3, True) for query, params in asked)
    with pytest.raises(DataError, match="needs"):
        fitting(method, schema, asked, schedule, Compute(chunk=48), one // 2)


@pytest.mark.parametrize("name", ["dos", "dp-kip", "dp-ntk"])
def test_what_is_counted_covers_what_xla_states(name):
    method = replace(tiny(name), width=64) if name == "dp-ntk" else tiny(name)
    asked = queries_of(method, make_records(1).schema)
    counted, stated = (needed(asked, make_records(1).schema, 16, by_xla=by_xla) for by_xla in (False, True))
    assert 0.9 * stated < counted < 4 * stated


def test_a_run_that_does_not_fit_is_refused_before_a_ledger_is_touched(tmp_path, monkeypatch):
    records, method = make_records(20), tiny("dp-kip", kernel=PixelKernel(), per_class=40)
    room = needed(queries_of(method, records.schema), records.schema, 1, by_xla=True) - 1
    monkeypatch.setattr(fit, "program_memory", lambda: room)
    ledger = begin_ledger(tmp_path / "all.ledger", 2.0)
    before = ledger.read_bytes()
    with pytest.raises(DataError) as caught:
        run.distill(records, method, Budget(1.0), run_dir=tmp_path / "x.run", ledger=ledger)
    assert str(caught.value).startswith(f"Expected a recipe whose rounds fit into {room / 2**30:.3g} GiB of memory")
    assert str(caught.value).endswith(": lower per_class (now 40), or choose a smaller kernel.")
    assert not (tmp_path / "x.run").exists()
    assert ledger.read_bytes() == before
    with pytest.raises(DataError, match="needs"):
        capacity(method, records.schema, 20, scheduled(method))


def test_a_smaller_chunk_answers_the_same(monkeypatch):
    records, method = make_records(40), tiny("dos")
    asked = queries_of(method, records.schema)
    whole = run.distill_without_privacy(records, method)
    room = needed(asked, records.schema, 2)
    monkeypatch.setattr(fit, "program_memory", lambda: room)
    np.testing.assert_allclose(run.distill_without_privacy(records, method).X, whole.X, rtol=0, atol=1e-3)


def test_the_machine_states_its_memory(monkeypatch):
    assert program_memory() > 1 << 28
    monkeypatch.setattr(fit, "machine_memory", lambda: 1000)
    if jax.default_backend() == "cpu":
        assert program_memory() == 500
    monkeypatch.setattr(fit, "machine_memory", lambda: None)
    method = tiny("dos")
    if jax.default_backend() == "cpu":
        asked = queries_of(method, make_records(1).schema)
        assert fitting(method, make_records(1).schema, asked, scheduled(method)) == Compute()


@pytest.mark.slow
@pytest.mark.parametrize("schema", [DIGITS, PHOTOGRAPHS], ids=["28x28x1", "32x32x3"])
@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_every_method_with_every_kernel_runs_within_memory(schema, kernel, capsys):
    """The table of forecasts on a machine of 24 GB: chunk and gigabytes, or the refusal."""
    room, lines = 12 << 30, []
    for name, kind in METHODS.items():
        if type(schema) in kind.schemas and ("kernel" in kind.__dataclass_fields__) is (kernel is not None):
            part = None if kernel is None else KERNELS[kernel]
            lines.append(f"{name:14} {kernel or '':24} {forecast(name, part, schema, room)}")
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert lines
    assert not [line for line in lines if "GiB" in line and "refused" in line]


def forecast(name, kernel, schema, room):
    """The chunk and the gigabytes of a round, or why the run is refused."""
    try:
        method = METHODS[name](**({} if kernel is None else {"kernel": implement(kernel)}))
        with dry_run():
            asked = queries_of(method, schema)
        found = fitting(method, schema, asked, scheduled(method), room=room)
    except (ValueError, TypeError) as error:
        return f"refused: {error}"
    sizes = [found.units_of(q, schema, s.sampling_prob) for s, (q, _) in zip(method.plan(), asked, strict=True)]
    most = max(round_bytes(q, p, schema, n, 1, method.private) for n, (q, p) in zip(sizes, asked, strict=True))
    return f"run: {max(sizes)} at once, {most / 2**30:.2f} GiB"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dp-ntk-cifar10-eps1", "dp-ntk-cifar10-eps10", "dosser-pea-cifar10-eps1-ipc50"])
def test_published_recipes_fit_into_twenty_gigabytes(name):
    method = published(name).build()
    with dry_run():
        asked = queries_of(method, PHOTOGRAPHS)
    found = fitting(method, PHOTOGRAPHS, asked, scheduled(method), room=20 << 30)
    assert found.chunk >= 16
