"""What is written as other people's programs read it: SDMetrics by its own code, DPImageBench by what its code asks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from dpdistill.folder.labelled import write_dpimagebench
from dpdistill.method import Distilled
from dpdistill.run import Result
from dpdistill.schema import Column, TableSchema

HOWTO = Path(__file__).parents[2] / "docs" / "howto.md"
SCHEMA = TableSchema(
    (
        Column("age", "integer", (0.0, 110.0)),
        Column("cost", "numeric", (0.0, 100.0)),
        Column("ward", "categorical", categories=("A", "B", "C")),
    ),
    "outcome",
    ("well", "ill"),
)


def frame(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": rng.integers(0, 90, n),
            "cost": np.round(rng.gamma(2, 10, n).clip(0, 100), 3),
            "ward": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
            "outcome": rng.choice(["well", "ill"], n),
        }
    )


def shared(folder: Path, rows: pd.DataFrame) -> Path:
    raw = np.column_stack([rows["age"], rows["cost"], [SCHEMA.columns[2].categories.index(w) for w in rows["ward"]]])
    y = (rows["outcome"] == "ill").to_numpy().astype(np.int32)
    recipe = {"method": "kip", "fields": {}, "seed": 0, "origin": "package default", "references": []}
    return Result(Distilled(SCHEMA.to_unit(raw), y, SCHEMA), recipe, None, None).save(folder)


def test_sdmetrics_takes_what_is_written_as_the_howto_says(tmp_path, monkeypatch):
    pytest.importorskip(
        "sdmetrics",
        minversion="0.32",
        reason="SDMetrics is not installed: it asks for an older pandas than is tested here",
    )
    rng = np.random.default_rng(0)
    real, rows = frame(rng, 300), frame(rng, 200).assign(age=lambda f: f["age"] // 2)
    real.to_csv(tmp_path / "real.csv", index=False)
    shared(tmp_path / "shared", rows)
    monkeypatch.chdir(tmp_path)
    text = re.search(r"## Score a table with SDMetrics.*?```python\n(.*?)```", HOWTO.read_text(), re.DOTALL)
    assert text
    names: dict = {}
    exec(text[1], names)
    found = names["quality"].get_details("Column Shapes").set_index("Column")["Score"]
    for name in ("age", "cost"):
        assert found[name] == pytest.approx(1 - ks_2samp(real[name], rows[name]).statistic, abs=1e-3)
    for name in ("ward", "outcome"):
        shares = [each[name].value_counts(normalize=True) for each in (real, rows)]
        assert found[name] == pytest.approx(1 - abs(shares[0] - shares[1]).sum() / 2, abs=1e-9)
    assert names["quality"].get_score() == pytest.approx(names["quality"].get_properties()["Score"].mean())


def test_dpimagebench_finds_what_it_asks_for(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (500, 4, 4, 3)).astype(np.float32), np.arange(500) % 3
    X[0], X[1] = -1, 1
    write_dpimagebench(tmp_path / "exp", X, y)
    with np.load(tmp_path / "exp" / "gen" / "gen.npz") as file:  # its default: no pickles
        images, labels = file["x"], file["y"]
    # Images first by number, then by channel, in [0, 1], which it brings to [-1, 1] by itself; classes 0, 1, ... in y.
    assert (images.shape, images.min(), images.max()) == ((500, 3, 4, 4), 0, 1)
    np.testing.assert_allclose(images * 2.0 - 1.0, np.moveaxis(X, 3, 1), atol=1e-6)
    np.testing.assert_array_equal((images[1] * 255.0).astype("uint8"), 255)
    assert set(labels) == set(range(3))


def test_dpimagebench_makes_tensors_of_it(tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it is no dependency of this package")
    rng = np.random.default_rng(2)
    X, y = rng.uniform(-1, 1, (300, 4, 4, 1)).astype(np.float32), np.arange(300) % 3
    write_dpimagebench(tmp_path / "exp", X, y)
    with np.load(tmp_path / "exp" / "gen" / "gen.npz") as file:
        images, labels = file["x"], file["y"]
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(images).float(), torch.from_numpy(labels).long())
    (inputs, targets), *_ = torch.utils.data.DataLoader(tensors, batch_size=126)
    np.testing.assert_allclose(inputs.numpy() * 2.0 - 1.0, np.moveaxis(X, 3, 1)[:126], atol=1e-6)
    assert targets.tolist() == y[:126].tolist()
