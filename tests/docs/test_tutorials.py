"""What the tutorials show holds: the method written there works, notebooks are shipped without outputs, pages exist."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import dpdistill as dp

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def test_the_method_of_the_tutorial_releases_class_means(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tutorials")
    monkeypatch.delitem(sys.modules, "class_means", raising=False)
    from class_means import ClassMeans  # type: ignore[import-not-found]

    X = np.zeros((400, 2, 2), np.float32)
    X[200:, 0, 0] = 1.0
    records = dp.Records.from_arrays(X, np.arange(400) // 200, classes=["dark", "bright"], bounds=(0, 1))
    result = dp.distill(records, ClassMeans(per_class=2, rounds=2), dp.Budget(epsilon=100.0))
    assert result.y.tolist() == [0, 0, 1, 1]
    expected = np.zeros((4, 2, 2, 1))
    expected[2:, 0, 0] = 1.0
    np.testing.assert_allclose(result.X, expected, atol=0.02)
    assert result.epsilon == pytest.approx(100.0, rel=1e-3)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_shipped_without_outputs(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    for cell in code:
        compile("".join(cell["source"]), path.name, "exec")


class _Site(yaml.SafeLoader):
    """mkdocs.yml with its !ENV."""


_Site.add_constructor("!ENV", lambda loader, node: True)


def test_every_page_of_the_site_is_there_and_listed():
    nav = yaml.load((DOCS.parent / "mkdocs.yml").read_text(), _Site)["nav"]
    listed = re.findall(r"[\w/-]+\.(?:md|ipynb)", json.dumps(nav))
    pages = {path.relative_to(DOCS).as_posix() for ending in ("md", "ipynb") for path in DOCS.rglob(f"*.{ending}")}
    assert sorted(listed) == sorted(pages)
    assert len(NOTEBOOKS) == 3


def test_the_numbers_for_officers_are_those_of_the_formula():
    text = (DOCS / "tutorials" / "officers.md").read_text()
    head, said = (re.search(rf"^\| {start}(.*)\|$", text, re.M).group(1).split("|")[1:] for start in ("ε", "at most"))
    assert len(head) == 7
    for epsilon, percent in zip(head, said, strict=True):
        bound = (np.exp(float(epsilon)) + 1e-5) / (1 + np.exp(float(epsilon)))
        stated = float(percent.strip().removesuffix(" %"))
        assert 0 <= stated - 100 * bound < 0.1
