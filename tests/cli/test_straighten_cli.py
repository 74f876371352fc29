"""Handwriting that is straightened when it is read, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from run_command import refused, succeeds

from dpdistill import load, straighten_images
from dpdistill.evaluation import Teacher, score_classifier
from dpdistill.folder.save import read_distilled
from dpdistill.kernels import KERNELS

FEW = ("--method", "decoupled-kip", "--set", "rounds=3", "--set", "steps=1", "--per-class", 1)


@pytest.mark.slow
def test_a_set_and_its_tests_are_straightened(tmp_path):
    folder = tmp_path / "shared"
    succeeds("distill", "digits:train", "--straighten", "--out", folder, *FEW)
    found = read_distilled(folder)
    assert found.schema.straightened
    scores = json.loads(succeeds("evaluate", folder, "--test", "digits:test", "--nets", 1, "--json"))["scores"]

    plain = load("digits:test")
    test = load("digits:test", like=found.schema)
    np.testing.assert_array_equal(test.X, straighten_images(plain.X))
    teacher = Teacher(found.classifier, KERNELS["scatternet-white"], found.schema)
    assert scores["released classifier accuracy, %"] == round(score_classifier(teacher, test).mean, 2)


def test_it_is_said_how_tables_and_releases_are_read():
    straightened = ("distill", "--straighten", "--out", "never")
    assert "--straighten and --labels: the schema" in refused(*straightened, "rows.csv", "--schema", "schema.yaml")
    assert "leave out the reading options" in refused(*straightened, "--from", "shared.run")
