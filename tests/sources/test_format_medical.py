"""Folders of Camelyon17 and CheXpert: made-up files of their layouts, read with persons as units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_sources import GOOD, NUMBERS, PHOTOS, PICTURES, Record, Source
from PIL import Image

from dpdistill.benchmark.sources import open_source
from dpdistill.benchmark.suite import Source as Cohort
from dpdistill.benchmark.suite import read_suite
from dpdistill.schema import DataError
from dpdistill.sources.load import load

HEADER = ",patient,node,x_coord,y_coord,tumor,slide,center,split\n"
PATCHES = [  # patient, node, x, y, tumor, slide, center, split; the shade is 10 times the row's number
    ("004", 4, 32, 64, 1, 0, 0, 0),
    ("004", 4, 64, 64, 0, 0, 0, 0),
    ("010", 2, 32, 96, 0, 1, 4, 0),
    ("010", 2, 32, 128, 1, 1, 4, 1),
    ("021", 0, 0, 0, 1, 2, 1, 0),
    ("040", 1, 0, 32, 0, 3, 2, 0),
]
FINDINGS = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Pleural Effusion\n"
FILMS = {
    "train": [
        ("patient00001", 1, "1.0"),
        ("patient00001", 2, ""),
        ("patient00002", 1, "-1.0"),
        ("patient00003", 1, "0.0"),
    ],
    "valid": [("patient64541", 1, "1.0")],
}


def camelyon(folder: Path) -> Path:
    lines = [HEADER]
    for i, (patient, node, x, y, *rest) in enumerate(PATCHES):
        where = f"patient_{patient}_node_{node}"
        (folder / "patches" / where).mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(np.full((6, 6, 3), 10 * i, np.uint8))
        image.save(folder / "patches" / where / f"patch_{where}_x_{x}_y_{y}.png")
        lines.append(",".join(map(str, (i, patient, node, x, y, *rest))) + "\n")
    (folder / "metadata.csv").write_text("".join(lines))
    return folder


def chexpert(folder: Path) -> Path:
    for part, films in FILMS.items():
        lines = [FINDINGS]
        for i, (patient, study, effusion) in enumerate(films):
            name = f"{part}/{patient}/study{study}/view1_frontal.jpg"
            (folder / name).parent.mkdir(parents=True)
            Image.fromarray(np.full((8, 6), 40 * (i + 1), np.uint8)).save(folder / name, quality=100)
            lines.append(f"CheXpert-v1.0-small/{name},Male,60,Frontal,AP,,{effusion}\n")
        (folder / f"{part}.csv").write_text("".join(lines))
    return folder


def _patches(folder: Path, records: list[Record]) -> Path:
    lines = [HEADER]
    for i, record in enumerate(records):
        # The unit is written as a number, by which WILDS names patients.
        patient = str(int.from_bytes(record.unit.encode(), "big")).zfill(3) if record.unit else ""
        where = f"patient_{patient.zfill(3)}_node_1"
        (folder / "patches" / where).mkdir(parents=True, exist_ok=True)
        (folder / "patches" / where / f"patch_{where}_x_{i}_y_0.png").write_bytes(record.X)
        lines.append(f"{i},{patient},1,{i},0,{NUMBERS[record.y]},s,0,0\n")
    (folder / "metadata.csv").write_text("".join(lines))
    return folder


def _films(folder: Path, records: list[Record]) -> Path:
    cells, lines = {"ant": "0.0", "bee": "1.0", "cow": ""}, [FINDINGS]
    for i, record in enumerate(records):
        patient = int.from_bytes(record.unit.encode(), "big")
        name = f"train/patient{patient:05d}/study{i}/view1{record.suffix}"
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(record.X)
        lines.append(f"CheXpert-v1.0-small/{name},,,,,,{cells.get(record.y, '-1.0')}\n")
    (folder / "train").mkdir(exist_ok=True)
    for part in ("train", "valid"):
        (folder / f"{part}.csv").write_text("".join(lines))
    return folder


EFFUSION = {"labels": "Pleural Effusion"}
PATCHED = {kind: record for kind, record in PICTURES.items() if record.suffix == ".png"}
SOURCES = {
    "Camelyon17": Source("camelyon", _patches, {**PHOTOS, "unit": "patient"}, {"classes": 3}, GOOD, PATCHED),
    "CheXpert": Source(
        "chexpert", _films, {**PHOTOS, **EFFUSION, "unit": "patient"}, EFFUSION, GOOD, PICTURES, (0, 0, 0, 1)
    ),
}


def shades(records) -> list[int]:
    return [round(float(x.mean())) for x in np.asarray(records.X)]


def test_patches_by_hospital(tmp_path):
    folder = camelyon(tmp_path / "camelyon17_v1.0")
    train = load(folder, "train", unit="patient")
    assert (train.schema.classes, train.schema.shape) == (("normal", "tumor"), (6, 6, 3))
    assert shades(train) == [0, 10, 20]
    assert np.asarray(train.y).tolist() == [1, 0, 0]
    assert train.units is not None
    assert np.unique(train.units, return_inverse=True)[1].tolist() in ([0, 0, 1], [1, 1, 0])
    assert shades(load(folder, "val")) == [40]
    test = load(folder, "test", resize=3, channels=1)
    assert (shades(test), test.schema.shape) == ([50], (3, 3, 1))
    assert len(np.unique(load(folder, "train", unit="slide").units)) == 2  # type: ignore[arg-type]


def test_films_by_finding(tmp_path):
    folder = chexpert(tmp_path / "CheXpert-v1.0-small")
    options: dict[str, Any] = {"labels": "Pleural Effusion", "channels": 1, "resize": 4}
    train = load(folder, "train", unit="patient", **options)
    assert train.schema.classes == ("absent", "present")
    assert np.asarray(train.y).tolist() == [1, 0, 0]  # the third film is uncertain
    assert [abs(a - b) <= 1 for a, b in zip(shades(train), [40, 80, 160], strict=True)] == [True] * 3
    assert train.units is not None
    units = np.asarray(train.units)
    assert (units[0] == units[1], units[0] != units[2]) == (True, True)
    for part in ("val", "test"):
        assert np.asarray(load(folder, part, **options).y).tolist() == [1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "Expected --labels with one finding of CheXpert, such as 'Pleural Effusion'"),
        ({"labels": "Edema"}, "train.csv lacks the column 'Edema'"),
        ({"labels": "Pleural Effusion", "unit": "study"}, "Expected the unit patient of CheXpert; got 'study'"),
    ],
)
def test_refusals(options, match, tmp_path):
    with pytest.raises(DataError, match=match):
        load(chexpert(tmp_path / "chexpert"), **options)


def test_a_path_out_of_the_folder_and_other_units_are_refused(tmp_path):
    folder = chexpert(tmp_path / "chexpert")
    (folder / "train.csv").write_text(f"{FINDINGS}x/train/patient00001/../../../secret.jpg,,,,,,1.0\n")
    with pytest.raises(DataError, match="lists a file outside of the folder"):
        load(folder, labels="Pleural Effusion")
    with pytest.raises(DataError, match="Expected the unit patient or slide of Camelyon17; got 'center'"):
        load(camelyon(tmp_path / "camelyon"), unit="center")


def test_the_medical_suite_reads_these_layouts_with_persons_as_units(tmp_path):
    camelyon(tmp_path / "camelyon17_v1.0")
    chexpert(tmp_path / "CheXpert-v1.0-small")
    parts = {f"{part}_images": np.zeros((4, 28, 28), np.uint8) + i for i, part in enumerate(("train", "val", "test"))}
    labels = {f"{part}_labels": np.array([[0], [1], [0], [1]]) for part in ("train", "val", "test")}
    arrays: dict[str, Any] = {**parts, **labels}
    np.savez(tmp_path / "pneumoniamnist.npz", **arrays)
    path, medical = read_suite("medical")
    sources = {source.name: source for source in medical.data}
    found = {}
    for name in ("pneumoniamnist", "camelyon17-patches", "camelyon17", "chexpert-effusion"):
        records, test = open_source(sources[name], tmp_path, path, paper=False, repeat=0)
        found[name] = len(records), len(test), records.units is not None, records.schema.shape
    assert found == {
        "pneumoniamnist": (4, 4, False, (28, 28, 1)),
        "camelyon17-patches": (3, 1, False, (32, 32, 3)),
        "camelyon17": (3, 1, True, (32, 32, 3)),
        "chexpert-effusion": (3, 1, True, (32, 32, 1)),
    }
    budgets: dict[str, Any] = {run.source.name: run.budget for run in medical.all_runs() if run.epsilon == 1}
    assert (budgets["camelyon17"].unit, budgets["camelyon17"].rows_per_unit) == ("patient", 500)
    assert (budgets["camelyon17-patches"].unit, budgets["pneumoniamnist"].unit) == (None, None)


def test_a_unit_of_a_suite_needs_its_rows_and_other_units_to_test_on():
    with pytest.raises(DataError, match="with both a unit and rows_per_unit >= 1, or with neither"):
        Cohort(name="a", train="b", test="c", unit="patient")
    with pytest.raises(DataError, match="which has a unit, with test records of other units"):
        Cohort(name="a", train="b", test_share=0.5, unit="patient", rows_per_unit=2)
