"""How the suite itself runs: which programs are compiled how, and which tests run on which day."""

import contextlib
import os
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import chosen_tests
import jax
import pytest
import quick_programs
from jax.experimental.compilation_cache import compilation_cache

from dpdistill.programs import clipping

TESTED = f"jax=={jax.__version__}\n" in (Path(__file__).parents[1] / "constraints.txt").read_text()
ON_TESTED_VERSIONS = pytest.mark.skipif(not TESTED, reason="names of JAX that are private may have moved")


@contextlib.contextmanager
def programs_kept_in(folder):
    """Keeps every program that is compiled in a folder."""
    options = {"jax_compilation_cache_dir": str(folder), "jax_persistent_cache_min_compile_time_secs": 0.0}
    before = {name: getattr(jax.config, name) for name in options}
    try:
        for name, value in options.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def compiled_as(name, quickly, monkeypatch):
    """Compiles a function of this name, another one at each call."""
    monkeypatch.setitem(quick_programs.NOW, "quickly", quickly)

    def function(x):
        return 3.0 * x + 1.0

    function.__name__ = name
    assert jax.jit(function)(2.0) == 7.0


@ON_TESTED_VERSIONS
def test_programs_are_compiled_quickly_except_those_that_touch_records(tmp_path, monkeypatch):
    assert quick_programs.QUICKLY == quick_programs.OPTIONS
    assert {"jit_grid_rows", "jit_encode_rows"} <= quick_programs.TOUCH_RECORDS
    assert hasattr(clipping.grid_rows, "lower")
    with programs_kept_in(tmp_path):
        for quickly in (True, False, True):
            compiled_as("a_test_of_the_suite", quickly, monkeypatch)
            compiled_as("grid_rows", quickly, monkeypatch)
    kept = [path.name.partition("-")[0] for path in tmp_path.glob("*-cache")]
    assert kept.count("jit_a_test_of_the_suite") == 2, "Quickly compiled programs are those of users."
    assert kept.count("jit_grid_rows") == 1, "What touches records is compiled in two ways."


@ON_TESTED_VERSIONS
def test_a_program_is_kept_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    moved, replace = [], os.replace

    def watched(part, whole):
        moved.append((Path(part).read_bytes(), Path(whole).exists()))
        replace(part, whole)

    monkeypatch.setattr(os, "replace", watched)
    with programs_kept_in(tmp_path):
        compiled_as("a_test_of_the_suite", True, monkeypatch)
    (program,) = tmp_path.glob("jit_a_test_of_the_suite-*")
    assert re.fullmatch(r"jit_a_test_of_the_suite-[0-9a-f]{64}-cache", program.name)
    assert (program.read_bytes(), False) in moved


@ON_TESTED_VERSIONS
def test_programs_of_a_thread_share_a_context_for_a_while():
    def lowered(k):
        return jax.jit(lambda x: 2.0 * x + k).lower(1.0)

    def contexts(count):
        return [lowered(k).compiler_ir().context for k in range(count)]

    assert quick_programs.SHARED_CONTEXTS
    count = quick_programs.PROGRAMS_OF_A_CONTEXT
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(contexts, count + 1).result()
    first = found[0]
    assert all(context is first for context in found[:-1])
    assert found[-1] is not first
    assert all(context is not first for context in contexts(2))
    with found[0] as outer:
        assert lowered(0).compiler_ir().context is not outer, "A program is lowered into one that is being lowered."
    texts = {lowered(7).as_text() for _ in range(3)}
    assert len(texts) == 1, "What was lowered before changes a program."


def test_workers_share_one_folder_of_each_processor_and_flags(monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw7")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX2")
    shared = quick_programs.cache_folder(True)
    assert shared.name == f"xla_cpu_max_isa-AVX2-{quick_programs.processor()}"
    assert quick_programs.cache_folder(False) == shared / "gw7"
    assert not TESTED or quick_programs.SHARED


def test_programs_of_last_month_are_removed(tmp_path):
    for name, days in (("old-cache", 31), ("new-cache", 29)):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - 86_400 * days,) * 2)
    quick_programs.forget_old_programs(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new-cache"]


def items():
    """Sixty tests, of which twenty are marked variants and twenty slow."""
    kinds = [None, "variants", "slow"] * 20
    return [
        SimpleNamespace(nodeid=f"test_{i}", get_closest_marker=lambda marker, kind=kind: marker == kind or None)
        for i, kind in enumerate(kinds)
    ]


def names_of(tests):
    return {test.nodeid for test in tests}


def test_variants_run_when_asked_for_and_each_within_five_days(monkeypatch):
    found = items()
    beyond = names_of(found[1::3] + found[2::3])
    assert names_of(chosen_tests.left_out(found, "none", ["tests"])) == beyond
    assert chosen_tests.left_out(found, "all", ["tests"]) == []
    assert chosen_tests.left_out(found, "none", ["tests/test_grid.py::test_1"]) == []
    run, parts = [], []
    for day in range(20_000, 20_005):
        monkeypatch.setattr(time, "time", lambda day=day: 86_400.0 * day + 7.0)
        parts.append(chosen_tests.share("today"))
        run += sorted(beyond - names_of(chosen_tests.left_out(found, parts[-1], ["tests"])))
    assert parts == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    assert sorted(run) == sorted(beyond), "A variant does not run once in five days."


@pytest.mark.parametrize("text", ["", "some", "0/5", "6/5", "1/4", "5"])
def test_another_choice_is_refused(text):
    with pytest.raises(ValueError, match=rf"Expected --variants none, all, today or K/5; got {text}\."):
        chosen_tests.share(text)


def test_parameters_that_are_not_default_are_variants():
    one, other = chosen_tests.few([(8, 8), (9, 9)], (8, 8))
    assert one == (8, 8)
    assert (other.values, [mark.name for mark in other.marks]) == (((9, 9),), ["variants"])
    _, several = chosen_tests.few([(8, 0.1), (9, 0.2)], (8, 0.1), of_several=True)
    assert several.values == (9, 0.2)
    for default in ((), (7,)):
        with pytest.raises(ValueError, match=r"Expected defaults among \[8, 9\]; got "):
            chosen_tests.few([8, 9], *default)


def test_no_two_files_of_tests_have_one_name():
    """Two of one name pass alone, and stop the run in which they meet."""
    names = Counter(
        path.name for path in Path(__file__).parent.rglob("*.py") if path.stem not in ("__init__", "conftest")
    )
    assert [name for name, count in names.items() if count > 1] == []
