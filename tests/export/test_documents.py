"""What the documents of a shared folder say of it, and what verify accepts of their publisher's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from export_fakes import STATED, copied, images, rows, said_of, save

from dpdistill.data.folder import CARD, CROISSANT, DEPLOYMENT, SCORES
from dpdistill.export import DOCUMENTS, export, renew_documents


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("table") / "set", rows())


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    return save(tmp_path_factory.mktemp("pictures") / "set", images())


# Scores


SCORED = "scores.json holds scores that were computed on real records without noise: epsilon does not cover them."


def test_documents_of_a_folder_with_scores_say_so(table, tmp_path):
    folder = copied(table, tmp_path)
    (folder / SCORES).write_text('{"accuracy": 0.5}')
    assert said_of(folder) == {CROISSANT: False, CARD: None, DEPLOYMENT: False}
    assert renew_documents(folder) == []
    assert said_of(folder) == dict.fromkeys(DOCUMENTS, True)
    croissant = json.loads((folder / CROISSANT).read_text())
    assert SCORED in croissant["rai:dataLimitations"]
    assert croissant["rai:personalSensitiveInformation"].endswith(f" {SCORED}")
    assert f"* {SCORED}\n" in (folder / CARD).read_text()
    variant = yaml.safe_load((folder / DEPLOYMENT).read_text())["deployment"]["dp_variant"]
    assert variant["unprotected_quantities"].startswith(f"{SCORED} Public by")
    written = {name: (folder / name).read_bytes() for name in DOCUMENTS}
    assert renew_documents(folder) == []
    assert {name: (folder / name).read_bytes() for name in DOCUMENTS} == written
    # What is exported has no scores.json beside it.
    assert SCORES not in (export(folder, "hf", tmp_path / "hub") / CARD).read_text()


def test_scores_leave_a_completed_document_as_it_is(table, tmp_path):
    folder = copied(table, tmp_path)
    (folder / CARD).unlink()
    export(table, "card", folder / CARD, STATED)
    (folder / DEPLOYMENT).unlink()
    completed = (folder / CARD).read_bytes()
    (folder / SCORES).write_text("{}")
    assert renew_documents(folder) == [CARD]
    assert (folder / CARD).read_bytes() == completed
    assert SCORED in (folder / CROISSANT).read_text()
    assert not (folder / DEPLOYMENT).exists()
