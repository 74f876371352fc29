"""More records than memory: every format gives the same records from files, which have no name and leave nothing."""

from __future__ import annotations

import errno
import gc
import gzip
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.io import savemat
from test_formats import cifar_bytes, idx_bytes, png, save_npz, write
from test_sources import ANIMALS, parquet_bytes, tarred, zipped

import dpdistill.sources.tables
from dpdistill import distill
from dpdistill.cli import main
from dpdistill.methods import LDPDC
from dpdistill.run import driver
from dpdistill.run.serialize import digest_records
from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.sources.load import load
from dpdistill.sources.tables.database import DatabaseQuery
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile, with_units, write_schema
from dpdistill.sources.tables.source import CsvFormat
from dpdistill.storage.growable_array import GrowableArrays, forget, slices
from dpdistill.storage.memory import Memory, machine_memory, parse_memory
from dpdistill.storage.prepare import ranked
from dpdistill.storage.records import Records

N = 23
RNG = np.random.default_rng(30)
COLOUR = RNG.integers(0, 256, (N, 32, 32, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (N, 6, 5), dtype=np.uint8)
Y = RNG.integers(0, 3, N).astype(np.uint8)
NAMES = ("ant", "bee", "cow")
LIMIT = 100
MAPPED = Path("/proc/self/maps")


def spool_of(folder, size=1000):
    return GrowableArrays(Memory(size, folder))


def is_mapped(array) -> bool:
    """Whether an array lies in a file."""
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None and array._mmap is not None


class TestSpool:
    @pytest.mark.parametrize("size", [1, 99, 500, 1 << 30])
    def test_rows_in_order(self, tmp_path, size):
        X, y = RNG.normal(size=(57, 3)).astype(np.float32), np.arange(57)
        spool = spool_of(tmp_path, size)
        for start in (0, 1, 8, 30):
            stop = {0: 1, 1: 8, 8: 30, 30: 57}[start]
            spool.append(X[start:stop], y[start:stop])
        found = spool.arrays()
        for array, expected in zip(found, (X, y), strict=True):
            np.testing.assert_array_equal(array, expected)
            assert array.dtype == expected.dtype
            assert is_mapped(array) == (size < 57 * 20)

    @pytest.mark.parametrize("size", [1, 99, 1 << 30])
    def test_rows_at_places_of_their_own_and_larger_types(self, tmp_path, size):
        order, spool = RNG.permutation(40), spool_of(tmp_path, size)
        values = (np.arange(40)[:, None] * np.array([1.0, 3.0])).astype(np.float32)
        for i, kind in enumerate((np.uint8, np.uint16, np.uint8, np.float32)):
            rows = order[10 * i : 10 * (i + 1)]
            spool.append(values[rows].astype(kind), at=rows)
        (found,) = spool.arrays()
        np.testing.assert_array_equal(found, values)
        assert found.dtype == np.float32

    @pytest.mark.parametrize("size", [1, 1 << 30])
    def test_no_rows(self, tmp_path, size):
        spool = spool_of(tmp_path, size)
        spool.append(np.zeros((0, 4), np.uint8))
        assert spool.arrays()[0].shape == (0, 4)
        assert spool.rows == 0
        spool.append(np.zeros((0, 4), np.uint8))
        spool.append(np.full((3, 4), 0.5, np.float32))
        assert spool.arrays()[0].tolist() == [[0.5] * 4] * 3

    def test_a_file_is_the_owners_and_has_no_name(self, tmp_path):
        spool = spool_of(tmp_path / "yet" / "to be made")
        spool.append(np.arange(1000))
        (column,) = spool._columns
        status = os.fstat(column._file.fileno())
        assert (status.st_mode & 0o777, status.st_nlink, status.st_dev) == (0o600, 0, tmp_path.stat().st_dev)
        assert list(tmp_path.iterdir()) == []
        (found,) = spool.arrays()
        assert not found.flags.writeable
        if MAPPED.exists():
            assert f"{tmp_path}/" in MAPPED.read_text()
            del spool, column, found
            gc.collect()
            assert f"{tmp_path}/" not in MAPPED.read_text()

    def test_the_systems_folder_where_none_is_stated(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        spool = GrowableArrays(Memory(1))
        spool.append(np.arange(5))
        (found,) = spool.arrays()
        assert found.tolist() == [0, 1, 2, 3, 4]
        assert not MAPPED.exists() or f"{tmp_path}/" in MAPPED.read_text()
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk_is_said_in_one_sentence(self, tmp_path, monkeypatch):
        def full(**_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(tempfile, "TemporaryFile", full)
        with pytest.raises(DataError) as refusal:
            load_table(TABLE, STATED, strict=False, memory=1, scratch=tmp_path)
        assert str(refusal.value) == f"{tmp_path} cannot be written: No space left on device."

    def test_what_is_forgotten_is_read_again(self, tmp_path):
        spool = spool_of(tmp_path)
        spool.append(np.arange(100_000))
        (found,) = spool.arrays()
        assert found.sum() == 4999950000
        forget(found, None, np.arange(3))
        assert found[99_999] == 99_999
        np.save(tmp_path / "a.npy", np.zeros(5))
        own = np.load(tmp_path / "a.npy", mmap_mode="c")  # whose changes would be lost
        own[2] = 7
        forget(own)
        assert own.tolist() == [0, 0, 7, 0, 0]

    def test_slices(self):
        array = np.zeros((100_000, 100), np.uint8)
        parts = list(slices(array))
        assert sum(len(array[part]) for part in parts) == 100_000
        assert max(array[part].nbytes for part in parts) <= 1 << 22
        assert list(slices(array[:0])) == [slice(0, 0)]

    def test_units_by_the_order_of_their_names(self, tmp_path):
        index = {"b": 0, "a": 1, "": 2, "c": 3}
        for size in (1, 1 << 20):
            found = ranked(np.array([0, 1, -1, 3, 0]), index, Memory(size, tmp_path))
            assert found.tolist() == [2, 1, -1, 3, 2]


def folder_contents():
    return {f"{NAMES[k]}/{i:02d}.png": png(x) for i, (x, k) in enumerate(zip(COLOUR, Y, strict=True))}


def listed(folder: Path) -> Path:
    write(folder, folder_contents())
    lines = [f"{NAMES[k]}/{i:02d}.png,{NAMES[k]},p{i % 4}" for i, k in enumerate(Y)]
    (folder / "list.csv").write_text("file,label,who\n" + "\n".join(lines) + "\n")
    return folder / "list.csv"


def of_idx(form):
    contents = {"train-images-idx3-ubyte": GREY, "train-labels-idx1-ubyte": Y}
    return lambda folder: write(folder, {name: form(idx_bytes(array)) for name, array in contents.items()})


def of_cifar(form):
    halves = {"data_batch_1.bin": slice(0, 9), "data_batch_2.bin": slice(9, N)}
    return lambda folder: write(folder, {k: form(cifar_bytes(COLOUR[r], Y[r])) for k, r in halves.items()})


def numbered(folder: Path):
    return [(x, int(k)) for x, k in zip(COLOUR, Y, strict=True)]


def of_parquet(folder: Path) -> Path:
    write(folder, {"a.parquet": parquet_bytes(COLOUR, {"label": Y}, ANIMALS)})
    return folder / "a.parquet"


def of_svhn(folder: Path) -> Path:
    savemat(folder / "train_32x32.mat", {"X": np.moveaxis(COLOUR, 0, 3), "y": Y[:, None]})
    return folder


BY_CLASS = np.argsort(Y, kind="stable")
FORMATS = {
    # name: (builder, options, images, labels, whether images are mapped from their own file)
    "idx": (of_idx(bytes), {}, GREY[..., None], Y, True),
    "idx gzip": (of_idx(gzip.compress), {}, GREY[..., None], Y, False),
    "cifar file": (
        lambda folder: write(folder, {"data_batch_1.bin": cifar_bytes(COLOUR, Y)}) + "/data_batch_1.bin",
        {}, COLOUR, Y, True,
    ),
    "cifar folder": (of_cifar(bytes), {}, COLOUR, Y, False),
    "cifar gzip": (of_cifar(gzip.compress), {}, COLOUR, Y, False),
    "svhn": (of_svhn, {}, COLOUR, Y, None),
    "npz": (lambda f: save_npz(f / "a.npz", False, X=COLOUR, y=Y), {"classes": NAMES}, COLOUR, Y, True),
    "npz compressed": (lambda f: save_npz(f / "a.npz", True, X=COLOUR, y=Y), {"classes": NAMES}, COLOUR, Y, False),
    "npz in Fortran's order": (
        lambda f: save_npz(f / "a.npz", True, X=np.asfortranarray(GREY / 256.0), y=Y),
        {"classes": NAMES, "bounds": (0, 1)}, GREY[..., None] / 256.0, Y, False,
    ),
    "npz with names": (
        lambda f: save_npz(f / "a.npz", True, X=COLOUR, y=np.array(NAMES)[Y]), {"classes": NAMES}, COLOUR, Y, False,
    ),
    "class folders": (lambda f: write(f, folder_contents()), {}, COLOUR[BY_CLASS], Y[BY_CLASS], False),
    "list": (listed, {"classes": NAMES, "unit": "who"}, COLOUR, Y, False),
    "zip": (lambda f: zipped(f / "a.zip", folder_contents()), {}, COLOUR[BY_CLASS], Y[BY_CLASS], False),
    "tar.gz": (
        lambda f: tarred(f / "a.tar.gz", folder_contents(), "w:gz"), {}, COLOUR[BY_CLASS], Y[BY_CLASS], False,
    ),
    "parquet": (of_parquet, {}, COLOUR, Y, False),
    "items": (numbered, {"classes": NAMES}, COLOUR, Y, False),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_images_are_the_same_from_a_file(tmp_path, name, monkeypatch):
    monkeypatch.setattr("dpdistill.storage.growable_array._BYTES", 5000)  # parts of two images
    monkeypatch.setattr("dpdistill.sources.images.decode._VALUES", 5000)
    build, options, X, y, own = FORMATS[name]
    scratch, place = tmp_path / "scratch", tmp_path / "data"
    scratch.mkdir()
    place.mkdir()
    source = build(place)
    kept, mapped = load(source, **options), load(source, **options, memory=LIMIT, scratch=scratch)
    for records in (kept, mapped):
        np.testing.assert_array_equal(records.X, X)
        assert records.X.dtype == X.dtype
        assert records.y.tolist() == y.tolist()
    assert (kept.schema, kept.notes) == (mapped.schema, mapped.notes)
    assert digest_records(kept, b"k" * 32) == digest_records(mapped, b"k" * 32)
    if own is not None:  # a file of SVHN is unpacked in memory as a whole
        assert (is_mapped(kept.X), is_mapped(mapped.X)) == (own, True)
    if name == "list":
        assert kept.units.tolist() == mapped.units.tolist() == [i % 4 for i in range(N)]
        assert is_mapped(mapped.units)
    side = [load(source, **options, resize=4, memory=memory) for memory in (None, LIMIT)]
    np.testing.assert_array_equal(*(records.X for records in side))
    assert [is_mapped(records.X) for records in side] == [False, True]
    assert list(scratch.iterdir()) == []


def test_what_has_its_size_already_stays_where_it_is(tmp_path):
    source = save_npz(tmp_path / "a.npz", False, X=COLOUR, y=Y)
    assert is_mapped(load(source, classes=3, resize=32).X)
    unmasked = np.ma.masked_array(GREY, mask=np.zeros_like(GREY))
    assert type(Records.from_arrays(unmasked, Y, 3).X) is np.ndarray


@pytest.mark.parametrize("memory", [1 << 30, LIMIT])
def test_pictures_of_several_types_and_bad_ones(tmp_path, memory, monkeypatch):
    monkeypatch.setattr("dpdistill.sources.images.decode._VALUES", 30)
    deep = RNG.random((6, 5), np.float32)
    contents = {f"a/{i:02d}.png": png(x) for i, x in enumerate(GREY)} | {
        "a/07.png": b"bad",
        "b/a.tif": png(deep, "TIFF"),
    }
    r = load(
        write(tmp_path, contents), bounds="0,255", channels=1, resize=5, strict=False, memory=memory, scratch=tmp_path
    )
    contents["a/07.png"] = png(GREY[7])
    expected = load(write(tmp_path / "good", contents), bounds="0,255", channels=1, resize=5)
    assert r.X.dtype == expected.X.dtype == np.float32
    good = np.arange(N + 1) != 7
    np.testing.assert_array_equal(r.X[good], expected.X[good])
    assert not r.X[7].any()
    assert r.y.tolist() == [-1 if i == 7 else int(i == N) for i in range(N + 1)]


SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 100.0), missing=True),
        Column("gain", "numeric", (-10.0, 10.0), missing=True),
        Column("work", "categorical", categories=("1", "2", "-8"), other="2", missing=True),
    ),
    "ill",
    ("no", "yes"),
)
STATED = with_units(TableFile(SCHEMA, True, CsvFormat(missing=("", "-9", "7.50", "x")), ("who",)), "who")
MIXED = [1, "1", 1.0, True, None, "x", 2.5, -9, "-9.0", 7.5, "7.50", 0, -0.0, "abc", float("nan"), 1e-3, 2**60, "", -8]
TABLE = pd.DataFrame(
    {
        "age": [v if v != "abc" else 5 for v in MIXED[:6]] * 4,
        "gain": pd.Series((MIXED + MIXED)[3:27], dtype=object),
        "work": pd.Series((MIXED + MIXED)[:24], dtype=object),
        "ill": ["no", "yes", "yes"] * 8,
        "who": [7, "7", "a", " a", 12.0, "12"] * 4,
    }
).iloc[:23]
NAN = float("nan")
STATED_X = np.array(
    [
        ([1, 1, 1, 1, NAN, NAN] * 4)[:23],
        [1, NAN, NAN, 2.5, NAN, NAN, NAN, NAN, 0, 0, NAN, NAN, 1e-3, 2**60, NAN, -8, 1, 1, 1, 1, NAN, NAN, 2.5],
        [0, 0, 0, 0, NAN, NAN, 1, NAN, NAN, NAN, NAN, 1, 1, 1, NAN, 1, 1, NAN, 2, 0, 0, 0, 0],
    ],
    np.float64,
).T
STATED_Y = [-1 if i == 10 else min(i % 3, 1) for i in range(23)]  # of which "abc" is no number
TEXTS = TABLE.map(lambda value: "" if value is None or value != value else str(value))


def as_csv(folder: Path) -> Path:
    TEXTS.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def as_table_parquet(folder: Path) -> Path:
    parquet.write_table(pa.Table.from_pandas(TEXTS, preserve_index=False), folder / "t.parquet", row_group_size=5)
    return folder / "t.parquet"


def as_arrow(folder: Path) -> Path:
    table = pa.Table.from_pandas(TEXTS, preserve_index=False)
    with pa.OSFile(str(folder / "t.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)
    return folder / "t.arrow"


def as_query(folder: Path) -> DatabaseQuery:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t (age, gain, work, ill, who)")
        rows = [[None if v != v else v for v in row] for row in TABLE.itertuples(index=False)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    return DatabaseQuery(str(folder / "t.db"), "SELECT * FROM t")


TABLES = {
    "frame": lambda folder: TABLE,
    "csv": as_csv,
    "parquet": as_table_parquet,
    "arrow": as_arrow,
    "database": as_query,
}


def read_in_batches(monkeypatch, rows: int) -> None:
    """Sets the most rows of a batch in every module of the table formats that has such a number."""
    folder = dpdistill.sources.tables
    modules = [import_module(f"{folder.__name__}.{found.name}") for found in iter_modules(folder.__path__)]
    sizes = [(module, name) for module in modules for name in ("ROWS", "_ROWS") if hasattr(module, name)]
    assert {"arrow_file", "database", "excel_file", "frame", "parquet_file"} <= {
        module.__name__.rpartition(".")[2] for module, _ in sizes
    }
    for module, name in sizes:
        monkeypatch.setattr(module, name, rows)


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_the_same_whatever_the_batches_and_the_memory(tmp_path, name, batch, monkeypatch):
    def read(**how):
        return load_table(TABLES[name](tmp_path), STATED, strict=False, **how)

    expected = read()
    read_in_batches(monkeypatch, batch)
    monkeypatch.setattr(
        "dpdistill.sources.tables.csv_file._BLOCK", 30 * batch
    )  # of bytes: a row of the CSV has less than 40
    (tmp_path / "t.db").unlink(missing_ok=True)
    kept = read()
    (tmp_path / "t.db").unlink(missing_ok=True)
    mapped = read(memory=100, scratch=tmp_path / "scratch")
    assert (is_mapped(kept.X), is_mapped(mapped.X), is_mapped(mapped.units)) == (False, True, True)
    for records in (kept, mapped):
        np.testing.assert_array_equal(records.X, expected.X)
        np.testing.assert_array_equal(records.y, expected.y)
        np.testing.assert_array_equal(records.units, expected.units)
        assert digest_records(records, b"k" * 32) == digest_records(expected, b"k" * 32)
    stated = np.column_stack([STATED_X, STATED_Y])
    found = np.column_stack([expected.X, expected.y])
    if name == "database":  # whose rows come in an order of their own
        assert sorted(map(repr, found.tolist())) == sorted(map(repr, (stated + 0.0).tolist()))
    else:
        np.testing.assert_array_equal(found, stated)
        assert expected.units.tolist() == ([0, 0, 1, 1, 2, 2] * 4)[:23]


@pytest.mark.parametrize("name", sorted(TABLES.keys() - {"frame"}))
def test_a_fault_is_named_by_its_row_in_the_table(tmp_path, name, monkeypatch):
    read_in_batches(monkeypatch, 4)
    with pytest.raises(DataError, match="column 'gain', row 11: 'abc' is not a number"):
        load_table(TABLES[name](tmp_path), STATED, memory=100, scratch=tmp_path)


def test_a_record_is_named_by_its_number_in_the_set(tmp_path, monkeypatch):
    monkeypatch.setattr("dpdistill.storage.growable_array._BYTES", 100)
    X = np.zeros((9, 5, 5), np.float32)
    X[7, 0, 0] = np.nan
    source = save_npz(tmp_path / "a.npz", False, X=X, y=np.zeros(9, int), who=np.arange(9) - 4 * (np.arange(9) == 3))
    with pytest.raises(DataError, match="Record 7 has a value that is not finite"):
        load(source, classes=2, bounds=(0, 1))
    with pytest.raises(DataError, match="Record 3 has no unit"):
        load(source, classes=2, bounds=(0, 1), unit="who")
    source = save_npz(tmp_path / "b.npz", False, X=X, y=np.arange(9) // 5 * 2)
    with pytest.raises(DataError, match="Record 5 has the label '2', which is not one of the 2 classes"):
        load(source, classes=2, bounds=(0, 1))


CHILD = """
import sys
import numpy as np
from dpdistill.sources import load
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import read_schema
from dpdistill.run.serialize import digest_records

source, schema, scratch = sys.argv[1:4]
if schema:
    records = load_table(source, read_schema(schema), memory="1M", scratch=scratch)
else:
    records = load(source, classes=2, memory="1M", scratch=scratch)
digest_records(records, bytes(32))
total = sum(float(X[:valid].sum()) for X, _, valid in records.chunks(None, 1000))
with open("/proc/self/status") as status:  # what resource says is at least what the parent had
    (peak,) = (line.split()[1] for line in status if line.startswith("VmHWM"))
print(len(records), total, int(peak) // 1024)
"""


def of_numbers(folder: Path, n: int, form: str) -> tuple[Path, Path | str]:
    """A large source of n records whose values, scaled, are 1, and its schema, if it needs one."""
    if form == "parquet":
        path = folder / "t.parquet"
        batch = pa.table({**{f"x{i}": np.ones(20_000) for i in range(10)}, "y": ["a"] * 20_000})
        with parquet.ParquetWriter(path, batch.schema) as writer:
            for _ in range(n // 20_000):
                writer.write_table(batch)
        columns = tuple(Column(f"x{i}", "numeric", (-1.0, 1.0)) for i in range(10))
        write_schema(folder / "s.yaml", TableFile(TableSchema(columns, "y", ("a", "b")), True))
        return path, folder / "s.yaml"
    X = np.full((n // 10, 20, 20, 1), 255, np.uint8)
    return Path(save_npz(folder / "a.npz", form == "compressed", X=X, y=np.zeros(n // 10, int))), ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
@pytest.mark.parametrize("form", ["parquet", "stored", "compressed"])
def test_peak_memory_is_flat_in_the_number_of_records(tmp_path, form):
    peaks = []
    for n in (400_000, 1_600_000):  # 20 and 80 MB, or 16 and 64
        place = tmp_path / str(n)
        place.mkdir()
        source, schema = of_numbers(place, n, form)
        how = [sys.executable, "-c", CHILD, str(source), str(schema), str(place)]
        said = subprocess.run(how, capture_output=True, text=True, check=True, timeout=120).stdout.split()
        count, values = (n, 10) if form == "parquet" else (n // 10, 400)
        assert [int(said[0]), float(said[1])] == [count, count * values]
        peaks.append(int(said[2]))
        assert sorted(path.name for path in place.iterdir()) in (["a.npz"], ["s.yaml", "t.parquet"])
    assert peaks[1] - peaks[0] < 20, peaks


def test_a_killed_process_leaves_nothing(tmp_path):
    source = save_npz(tmp_path / "a.npz", True, X=COLOUR, y=Y)
    code = f"""
import os, signal
from dpdistill.sources import load
records = load({source!r}, classes=3, memory=1, scratch={str(tmp_path / "run")!r})
assert records.X._mmap is not None
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


class TestCommand:
    def run(self, monkeypatch, *words) -> int:
        monkeypatch.setattr(sys, "argv", ["dpdistill", "distill", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    def test_a_run_leaves_no_records(self, tmp_path, monkeypatch):
        source = save_npz(tmp_path / "a.npz", True, X=COLOUR[:, ::4, ::4], y=Y)
        seen, made = [], driver.distill

        def noted(records, *args, **kwargs):
            seen.append(is_mapped(records.X))
            return made(records, *args, **kwargs)

        monkeypatch.setattr(driver, "distill", noted)
        words = (source, "--classes", 3, "--method", "ldpdc", "--per-class", 1, "--memory", 1000, "--quiet")
        words = (*words, "--set", "sampling_prob=1")
        assert self.run(monkeypatch, *words, "--out", tmp_path / "shared") == 0
        assert seen == [True]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "shared", "shared.run"]
        assert (tmp_path / "shared.run").stat().st_mode & 0o777 == 0o700
        names = {path.name for path in (tmp_path / "shared.run").iterdir()}
        assert names <= {"ledger.sqlite", "key", "lock", "finished"} | {
            name for name in names if name.startswith("state-")
        }

    def test_a_run_that_fails_leaves_no_records(self, tmp_path, monkeypatch):
        def failing(*_, **__):
            raise DataError("No.")

        monkeypatch.setattr(driver, "distill", failing)
        source = save_npz(tmp_path / "a.npz", True, X=COLOUR, y=Y)
        words = (source, "--classes", 3, "--method", "ldpdc", "--memory", 1000, "--quiet")
        assert self.run(monkeypatch, *words, "--out", tmp_path / "shared") == 2
        assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]

    @pytest.mark.parametrize("stated", ["0", "4X", "much", "-1", "1e9", "", "0.0000001K"])
    def test_what_is_no_size_is_refused_before_a_record_is_read(self, tmp_path, monkeypatch, capsys, stated):
        assert self.run(monkeypatch, tmp_path / "none", "--out", tmp_path / "shared", "--memory", stated) == 2
        expected = f"Error: Expected memory={stated!r} as a size such as 512M or 4G.\n"
        assert capsys.readouterr().err == expected

    def test_releases_that_are_used_again_read_no_record(self, tmp_path, monkeypatch, capsys):
        words = ("--from", tmp_path / "run", "--out", tmp_path / "shared", "--memory", "1G")
        assert self.run(monkeypatch, *words) == 2
        assert "With --from no record is read" in capsys.readouterr().err


def test_the_same_release_from_a_file(tmp_path):
    X, y = COLOUR[:, ::4, ::4], Y
    source = save_npz(tmp_path / "a.npz", True, X=X, y=y)
    sets = [load(source, classes=3, memory=memory) for memory in (None, 100)]
    assert [is_mapped(records.X) for records in sets] == [False, True]
    chunks = [[(x.copy(), k.copy(), v) for x, k, v in records.chunks(np.array([5, 0, 22, 5]), 3)] for records in sets]
    for (a, b, v), (c, d, w) in zip(*chunks, strict=True):
        np.testing.assert_array_equal(a, c)
        assert (b.tolist(), v) == (d.tolist(), w)
    assert distill(sets[1], LDPDC(per_class=1, sampling_prob=1.0)).X.shape == (3, 8, 8, 3)


@pytest.mark.parametrize(
    ("stated", "size"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("512M", 512 << 20),
        ("4G", 4 << 30),
        ("1.5 GiB", 3 << 29),
        ("2kb", 2048),
        ("1T", 1 << 40),
    ],
)
def test_sizes(stated, size):
    assert parse_memory(stated) == size
    assert Memory.of(stated).size == size


@pytest.mark.parametrize("stated", [0, -5, True, 1.5, None, "G", "4 4G", "9" * 16])
def test_no_sizes(stated):
    with pytest.raises(DataError, match=r"^Expected memory='.*' as a size such as 512M or 4G\.$"):
        parse_memory(stated)


def test_half_of_the_machine_where_nothing_is_stated(monkeypatch):
    assert Memory.of().size == machine_memory() // 2
    monkeypatch.setattr("dpdistill.storage.memory.machine_memory", lambda: None)
    assert Memory.of().size == 1 << 30
