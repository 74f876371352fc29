"""One record changes no other: for every source of images, whatever kind of record comes or goes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_sources import Record, Source, sources

from dpdistill.api.options import Reading
from dpdistill.api.reading import read_records
from dpdistill.cli import terminal
from dpdistill.cli.listener import Terminal
from dpdistill.schema import Column, DataError, Schema, TableSchema
from dpdistill.schema.public_facts import CHANNELS, CLASSES, FACTS, IMAGE_SIZE, INFERRED
from dpdistill.sources.formats import image_formats
from dpdistill.sources.images import decode
from dpdistill.sources.load import load
from dpdistill.sources.tables.load import load_table
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.storage import growable_array
from dpdistill.storage.records import Records

SOURCES = sources()
FIRST, MIDDLE, LAST = "a", "m1x", "z"
CASES = [(name, kind) for name, source in SOURCES.items() for kind in source.hostile]


def rows_of(records: Records) -> list[tuple[bytes, bytes, int]]:
    """Of each record its encoding, its raw values and its label."""
    X, y = records.take(np.arange(len(records)))
    raw = np.asarray(records.X, np.float64)
    return [(x.tobytes(), values.tobytes(), int(k)) for x, values, k in zip(X, raw, y, strict=True)]


def persons_of(units: np.ndarray | None, left_out: int | None) -> list[int]:
    """Which of the others each record shares its person with, whatever the numbers of persons; -1 stays."""
    kept = [] if units is None else [k for i, k in enumerate(units.tolist()) if i != left_out]
    first = {k: i for i, k in reversed(list(enumerate(kept)))}
    return [-1 if k < 0 else first[k] for k in kept]


def assert_others_are_the_same(before: Records, after: Records) -> None:
    """All records of the first are in the second, in order, bit for bit, with one more at most."""
    assert after.schema == before.schema
    here, there = rows_of(before), rows_of(after)
    assert len(there) - len(here) in (0, 1)
    left_out = [None] if len(there) == len(here) else range(len(there))
    for i in left_out:
        if there[:i] + there[i + 1 :] == here if i is not None else there == here:
            assert persons_of(after.units, i) == persons_of(before.units, None)
            return
    raise AssertionError("Another record has changed.")


def test_every_format_is_in_the_table():
    forms = {source.form for source in SOURCES.values()} - {"arrays"}
    assert forms == {"object", *(each.name for each in image_formats())}
    assert {r.suffix for r in SOURCES["folders"].hostile.values()} >= {".png", ".jpg", ".tif", ".gif"}


@pytest.mark.parametrize("name", SOURCES)
def test_pieces_change_nothing(name, tmp_path, monkeypatch):
    source = SOURCES[name]
    whole = source.read(tmp_path / "whole", source.good, **source.stated)
    assert sorted(whole.y.tolist()) == [*source.labels]
    assert len(set(rows_of(whole))) == 4
    monkeypatch.setattr(decode, "_VALUES", 1)
    monkeypatch.setattr(growable_array, "_BYTES", 1)
    pieces = source.read(tmp_path / "pieces", source.good, **source.stated, memory=1)
    assert rows_of(pieces) == rows_of(whole)
    assert persons_of(pieces.units, None) == persons_of(whole.units, None)


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{name}: {kind}" for name, kind in CASES])
def test_one_record_changes_no_other(name, kind, tmp_path, monkeypatch):
    source = SOURCES[name]
    before = source.read(tmp_path / "before", source.good, **source.stated)
    hostile = source.hostile[kind]
    for at, place in ((0, FIRST), (4, LAST)):
        records = [*source.good]
        records.insert(at, hostile._replace(name=place))
        assert_others_are_the_same(before, source.read(tmp_path / f"at {at}", records, **source.stated))
    monkeypatch.setattr(decode, "_VALUES", 1)
    monkeypatch.setattr(growable_array, "_BYTES", 1)
    records = [*source.good[:2], hostile._replace(name=MIDDLE), *source.good[2:]]
    assert_others_are_the_same(before, source.read(tmp_path / "pieces", records, **source.stated, memory=1))


def facts_of(schema: Schema) -> dict[str, object]:
    """The public facts of a schema, by the names of `public_facts`."""
    h, w, c = schema.shape
    return {CLASSES: schema.classes, IMAGE_SIZE: (h, w), CHANNELS: c, "bounds": schema.bounds}


def others_of(source: Source) -> list[list[Record]]:
    """Data sets of the same source: one record fewer, and only records of one hostile kind."""
    fewer = [[r for r in source.good if r is not without] for without in source.good]
    kinds = [
        [hostile._replace(y=r.y, unit=r.unit, name=r.name) for r in source.good] for hostile in source.hostile.values()
    ]
    return [*fewer, *kinds]


@pytest.mark.parametrize("name", SOURCES)
def test_facts_that_records_change_are_said(name, tmp_path):
    source = SOURCES[name]
    assert source.read(tmp_path / "stated", source.good, **source.stated).schema.inferred == ()
    whole = source.read(tmp_path / "whole", source.good, **source.least)
    said, changed = set(whole.schema.inferred), set()
    for i, records in enumerate(others_of(source)):
        try:
            facts = facts_of(source.read(tmp_path / str(i), records, **source.least).schema)
        except DataError:
            continue  # a refusal is read by the owner alone, before anything is paid
        changed |= {fact for fact, value in facts_of(whole.schema).items() if facts[fact] != value}
    assert changed <= said
    assert said == {fact.name for fact in INFERRED.values() if source.form in fact.inferred_from} - {
        *source.stated_facts
    }
    for fact in said:
        option = INFERRED[fact].stated_by
        assert [f"public: {fact} " in note and f"Pass {option} to be" in note for note in whole.notes].count(True) == 1
    if {CLASSES, IMAGE_SIZE} & said and len(source.hostile) > 9:
        assert changed


def test_only_facts_that_are_known_can_be_inferred():
    assert Schema((2, 2, 1), (0.0, 1.0), ("a", "b"), inferred=("classes",)).to_json()["inferred"] == ("classes",)
    with pytest.raises(DataError, match="Expected inferred facts among classes, image size, channels; got 'mood'"):
        Schema((2, 2, 1), (0.0, 1.0), ("a", "b"), inferred=("mood",))


def test_a_schema_that_was_written_before_facts_were_said_is_read():
    schema = Schema((2, 2, 1), (0.0, 1.0), ("a", "b"))
    assert schema.to_json() == {"shape": (2, 2, 1), "bounds": (0.0, 1.0), "classes": ("a", "b")}
    read = Schema.from_json({"shape": [2, 2, 1], "bounds": [0.0, 1.0], "classes": ["a", "b"], "inferred": ["channels"]})
    assert (read, read.inferred) == (schema, ("channels",))


def test_the_documentation_has_all_facts():
    text = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text()
    rows = [line.split("|")[1:5] for line in text.splitlines() if line.startswith("| ") and line.count("|") == 5]
    stated = {name.strip(): (option.strip(" `"), taken.strip()) for name, option, _, taken in rows}
    assert {fact.name for fact in FACTS} <= stated.keys()
    for fact in FACTS:
        option, taken = stated[fact.name]
        assert (option, taken != "none") == (fact.stated_by, bool(fact.inferred_from))


def test_tables_take_no_public_fact_from_records():
    pd = pytest.importorskip("pandas")
    schema = TableSchema(
        (Column("age", "integer", (0.0, 90.0)), Column("h", "numeric", (0.0, 2.0))), "ill", ("no", "yes")
    )
    frame = pd.DataFrame({"age": [1, 90, 7], "h": [0.5, 1.0, 2.0], "ill": ["no", "yes", "no"]})
    table_file = TableFile(schema, reviewed=True)
    for rows in ([0, 1, 2], [0, 2], [1, 2], [0, 1], [1]):
        records = load_table(frame.iloc[rows], table_file)
        assert (records.schema, records.notes) == (schema, ())


def test_a_size_that_is_of_two_formats_is_refused(tmp_path):
    """3,074 records of CIFAR-10 have the size of 3,073 of CIFAR-100: with one record more they were read as others."""
    (tmp_path / "train.bin").write_bytes(bytes(3_073 * 3_074))
    with pytest.raises(DataError, match="may be CIFAR-10 or CIFAR-100, by its size: state --labels fine"):
        load(tmp_path / "train.bin")
    assert len(load(tmp_path / "train.bin", labels="fine")) == 3_073


def test_facts_taken_from_records_are_printed_also_when_quiet(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(terminal.mode, "quiet", True)
    source = SOURCES["folders"]
    read_records(source.build(tmp_path, source.good), Reading(), Terminal())
    said = " ".join(capsys.readouterr().err.split())
    assert "Taken from the records and treated as public: classes (ant, bee, cow)" in said
    assert "treated as public: image size 6x6, from the first image. Pass --resize" in said
    assert "Images are read in colour" not in said
