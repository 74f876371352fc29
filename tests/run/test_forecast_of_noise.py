"""What is told of a run before it is paid, for every private method."""

import math

import pytest

from dpdistill.accounting.schedule import Budget
from dpdistill.methods import METHODS
from dpdistill.run.forecast import Outlook, check_size, outlook
from dpdistill.schema import DataError, Schema
from dpdistill.storage import memory
from dpdistill.storage.memory import machine_memory

SCHEMA = Schema((8, 8, 1), (0.0, 1.0), tuple("abc"))
LDPDC, DOS_KIP = METHODS["ldpdc"], METHODS["dos-kip"]


def found(**how) -> Outlook:
    return outlook(LDPDC(per_class=1, sampling_prob=1.0), Budget(1.0), SCHEMA, **how)


def test_of_one_noised_sum_a_class():
    told = found(class_size=100)
    (sigma,) = told.schedule.noise_multipliers
    assert (told.coordinates, told.by_class, told.classes) == (65, True, 3)
    assert told.records == pytest.approx(sigma * math.sqrt(65))
    assert told.ratio == pytest.approx(100 / told.records)
    assert not told.hopeless
    assert found().ratio is None


def test_what_is_hopeless_depends_on_the_number_that_is_stated():
    assert found(class_size=4).hopeless is False
    told = found(class_size=3)
    assert told.hopeless
    assert told.least_epsilon == 1.1
    with pytest.raises(ValueError, match="Expected class_size=0 >= 1"):
        found(class_size=0)


def test_one_sum_over_all_records_hears_those_of_all_classes():
    told = Outlook(found().schedule, 100, False, 60.0, 10, 3, None)
    assert told.ratio == pytest.approx(0.5)


def test_sizes_are_refused_by_what_memory_holds():
    bytes_each = 4 * 6 * 64
    check_size(LDPDC(per_class=9), SCHEMA, 3 * 9 * bytes_each)
    with pytest.raises(DataError, match=r"Expected per_class=10 <= 9: more records of 64 numbers do not fit into"):
        check_size(LDPDC(per_class=10), SCHEMA, 3 * 9 * bytes_each)
    with_kernel = 12 * 30**2 + 30 * bytes_each
    check_size(DOS_KIP(per_class=10), SCHEMA, with_kernel)
    with pytest.raises(DataError, match=r"Expected per_class=11 <= 10"):
        check_size(DOS_KIP(per_class=11), SCHEMA, with_kernel)
    check_size(METHODS["dp-merf"](), SCHEMA, 1)


def test_directions_of_networks_are_refused_where_they_do_not_fit_into_memory():
    method = METHODS["dos"](networks=100, width=8, subspace=5)
    assert method.finish_bytes(SCHEMA) == 4 * 100 * (1 + 5) * 128
    check_size(method, SCHEMA, 307_200)
    with pytest.raises(DataError, match=r"dos would hold 0\.000286 GiB: take fewer networks or a smaller subspace"):
        check_size(method, SCHEMA, 307_199)
    assert METHODS["dos"](networks=100, width=8).finish_bytes(SCHEMA) == 0


def test_memory_is_what_the_machine_or_its_container_has(tmp_path, monkeypatch):
    assert machine_memory() > 1 << 28
    (tmp_path / "limit").write_text("1000000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "limit")
    assert machine_memory() == 1_000_000
    (tmp_path / "limit").write_text("max\n")
    assert machine_memory() > 1 << 28
