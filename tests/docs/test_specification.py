"""The specification names checks that exist, and stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "specification.md").read_text("utf-8")
NAMED = sorted({*re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", TEXT)})


def test_it_has_ten_pages_at_most():
    assert len(TEXT.split()) <= 10 * 500
    assert len(NAMED) > 30


@pytest.mark.parametrize("name", NAMED)
def test_every_named_check_exists(name):
    file, _, test = name.partition("::")
    assert (ROOT / file).is_file()
    assert not test or re.search(rf"^ *def {test}\(", (ROOT / file).read_text("utf-8"), re.M)


def test_every_theorem_has_a_proof():
    parts = re.split(r"^\*\*Theorem \d+", TEXT, flags=re.M)[1:]
    assert len(parts) == 11
    assert all("*Proof.*" in part and "∎" in part for part in parts)
