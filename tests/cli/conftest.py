"""Results that tests of several commands look at, made once a process."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from run_command import succeeds
from small_sets import SMALL_DOS, Kernelled, small_nets

from dpdistill.recipe.methods import RECIPES
from dpdistill.sources.load import load


@pytest.fixture(scope="session")
def places(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("curious-working-folder")


@pytest.fixture(scope="session")
def digits(places) -> Path:
    """The digits in a file with a name to look for."""
    records = load("digits:train")
    X = np.concatenate([x[:valid] for x, _, valid in records.chunks(None, 512)])
    path = places / "curious-input.npz"
    np.savez(path, X=records.schema.from_unit(X), y=records.y, classes=np.arange(10).astype(str), bounds=[0.0, 16.0])
    return path


@pytest.fixture(scope="session")
def shared(places, digits) -> Path:
    """A result of ldpdc on the digits, and its run beside it."""
    folder = places / "shared"
    out = succeeds(
        "distill", digits, "--out", folder, "--method", "ldpdc", "--seed", 7, "--epsilon", 0.1, "--delta", 1e-6
    )
    assert out == (
        f"{folder}: epsilon = 0.1 at delta = 1e-06 (add-remove).\nshared may be shared; keep shared.run to yourself.\n"
    )
    return folder


@pytest.fixture(scope="session")
def dos(places) -> Path:
    folder = places / "dos"
    succeeds(
        "distill", "digits:train", "--out", folder, "--method", "dos", "--per-class", 2, *SMALL_DOS, "--epsilon", 0.5
    )
    return folder


@pytest.fixture(scope="session")
def whole(places) -> Path:
    """A set with a classifier, soft labels and a generator."""
    fields = ("rounds=2", "networks=2", "width=4", "steps=2", "generator_steps=2", "softness=0.5")
    small = [word for field in fields for word in ("--set", field)]
    succeeds("distill", "digits:train", "--out", places / "whole", *small)
    return places / "whole"


@pytest.fixture(scope="session")
def led_once(places):
    """A result of that method, with fields that the caller changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RECIPES, "kernel-led", Kernelled)
        settings = ("--set", "second=scatternet", "--set", "sampling_prob=1", "--per-class", 2)
        succeeds("distill", "digits:train", "--out", places / "led", "--method", "kernel-led", *settings)
    return places / "led"


@pytest.fixture
def led(led_once, monkeypatch, tmp_path):
    """A copy of it that may be changed."""
    monkeypatch.setitem(RECIPES, "kernel-led", Kernelled)
    small_nets(monkeypatch)
    for name in ("led", "led.run"):
        shutil.copytree(led_once.with_name(name), tmp_path / name)
    return tmp_path / "led"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated") / "shared"
    small = ("width=20", "steps=300", "samples=2100", "hidden=32", "batch=200")
    fields = [word for field in small for word in ("--set", field)]
    succeeds("distill", "digits:train", "--method", "dp-ntk", "--epsilon", 50, *fields, "--out", out)
    return out
