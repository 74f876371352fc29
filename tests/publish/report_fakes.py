"""Shared folders as a finished run leaves them, without a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

# Closed form of one Gaussian mechanism with noise multiplier 3.7306 = 37.306 / sqrt(100).
EPSILONS = {"0.0001": 0.83712, "1e-05": 1.0, "1e-06": 1.14362, "1e-07": 1.27301, "1e-08": 1.39164}


def certificate(**changes: Any) -> dict[str, Any]:
    """The certificate of a full-batch run at (1, 1e-5)."""
    event = {"kind": "gaussian", "part": "all", "rounds": 100, "noise_multiplier": 37.3063}
    data = {
        "format": 3,
        "claim": {"epsilon": 1.0, "delta": 1e-5},
        "relation": "add-remove",
        "unit": "one row (adding or removing one row); a person with k rows has k times mu: see groups",
        "groups": {"2": 2.15473, "5": 6.16651},
        "epsilons": EPSILONS,
        "schedule": {"stages": [], "noise_multipliers": [37.3063], "budget": {}},
        "events": {"kind": "composition", "part": "all", "events": [event]},
        "noise": "operating-system entropy",
        "slack": None,
        "backend": "cpu",
        "self_test": "every program that reads records was tested before",
        "recipe": recipe(),
        "schema": {},
        "versions": {"python": "3.11.2", "dpdistill": "0.1.0", "jax": "0.7.0", "numpy": "2.3.1"},
        "files": {
            "images/0-zero/000.png": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
            "synthetic.npz": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        },
        "date": "2026-11-20",
        "scope": "epsilon covers the releases that certificate.json lists.",
    }
    return {**data, **changes}


def non_private(**changes: Any) -> dict[str, Any]:
    """The certificate of a run without noise."""
    nothing = {"relation": None, "unit": None, "groups": {}, "epsilons": {}, "schedule": None, "events": None}
    claim = {"epsilon": "infinite: no privacy guarantee", "delta": None}
    return certificate(**{"claim": claim, "noise": "none", **nothing, **changes})


def recipe(**changes: Any) -> dict[str, Any]:
    """The recipe of a distribution-matching run."""
    data = {
        "method": "dos",
        "title": "Ten digits, distilled",
        "fields": {"per_class": 10, "networks": 100, "clip_norm": 1.0, "learning_rate": 1e-05, "augment": True},
        "seed": 0,
        "origin": "package default",
        "references": [
            "Zheng, Li: Differentially Private Dataset Condensation, 2023.",
            "Zhao, Bilen: Dataset Condensation with Distribution Matching, WACV 2023, https://arxiv.org/abs/2110.04181.",
        ],
    }
    return {**data, **changes}


def write(
    folder: Path,
    X: np.ndarray,
    y: np.ndarray,
    classes: list[str],
    bounds: tuple[float, float] = (0.0, 255.0),
    scores: Any = None,
    certificate: dict[str, Any] | None = None,
    recipe: dict[str, Any] | None = None,
    **more: np.ndarray,
) -> Path:
    """Writes a folder that write_report can read."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "synthetic.npz", X=X, y=y, classes=np.array(classes), bounds=np.array(bounds), **more)
    contents = {"certificate": certificate or globals()["certificate"](), "recipe": recipe or globals()["recipe"]()}
    for name, data in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    if scores is not None:
        (folder / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    return folder
