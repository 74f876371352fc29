"""The public folder appears whole; what a killed run left is cleared, and nothing of anybody else's."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest

from dpdistill.method import Distilled
from dpdistill.run import Result
from dpdistill.run.output_folder import output_folder
from dpdistill.schema import DataError, Schema


@pytest.fixture
def result() -> Result:
    schema = Schema((4, 4, 1), (0.0, 255.0), ("a", "b"))
    recipe = {"method": "dm", "fields": {}, "seed": 0, "origin": "package default"}
    distilled = Distilled(np.zeros((2, 4, 4, 1), np.float32), np.array([0, 1], np.int32), schema)
    return Result(distilled, recipe, None, None)


def test_somebody_elses_folder_is_not_removed(result, tmp_path):
    partial = tmp_path / "x.partial"
    partial.mkdir()
    (partial / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"x\.partial is no temporary folder of this program"):
        result.save(tmp_path / "x")
    assert (partial / "thesis.txt").read_text() == "mine"
    assert not (tmp_path / "x").exists()


def test_a_file_of_that_name_is_not_removed(result, tmp_path):
    (tmp_path / "x.partial").write_text("mine")
    with pytest.raises(DataError, match=r"x\.partial is no temporary folder of this program"):
        result.save(tmp_path / "x")


def test_what_a_killed_run_left_is_removed(result, tmp_path):
    partial = tmp_path / "x.partial"
    (partial / "images" / "a").mkdir(parents=True)
    (partial / "images" / "a" / "007.png").touch()
    (partial / ".certificate.json.part").touch()
    (partial / ".synthetic.npz.part").touch()
    result.save(tmp_path / "x")
    assert not partial.exists()
    assert sorted(path.name for path in (tmp_path / "x" / "images" / "a").iterdir()) == ["000.png"]


def test_what_was_left_in_an_earlier_result_is_removed(result, tmp_path):
    folder = result.save(tmp_path / "x")
    before = sorted(folder.rglob("*"))
    for name in (".synthetic.npz.part", "images/a/.009.png.part", ".report.html.part", ".certificate.json.part"):
        (folder / name).touch()
    result.save(folder, overwrite=True)
    assert sorted(folder.rglob("*")) == before


def test_a_result_is_in_the_way_unless_its_own_run_was_handing_it_over(result, tmp_path):
    folder = result.save(tmp_path / "x")
    (tmp_path / "x.run").mkdir()
    mark = tmp_path / "x.run" / "handing-over"
    for content in (None, b"", b"0" * 64):
        if content is not None:
            mark.write_bytes(content)
        with pytest.raises(DataError, match="not empty"):
            output_folder(folder)
    assert output_folder(folder, overwrite=True) == (folder, True)
    assert output_folder(tmp_path / "y") == (tmp_path / "y", False)


def test_every_certificate_of_a_run_is_noted(result, tmp_path):
    run = tmp_path / "x.run"
    run.mkdir()
    noted = []
    for name in ("x", "y"):
        folder = dataclasses.replace(result, run_dir=run).save(tmp_path / name)
        noted.append(hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest())
        assert (run / "finished").read_text().split() == noted
    assert not (run / "handing-over").exists()


def test_what_takes_the_place_of_a_runs_result_is_noted_beside_it(result, tmp_path):
    (tmp_path / "x.run").mkdir()
    folder = result.save(tmp_path / "x")
    assert list((tmp_path / "x.run").iterdir()) == []
    (tmp_path / "x.run" / "finished").write_text("0\n")
    result.save(folder, overwrite=True)
    digest = hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    assert (tmp_path / "x.run" / "finished").read_text() == f"0\n{digest}\n"
