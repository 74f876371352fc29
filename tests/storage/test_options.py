"""What the caller states: classes, bounds, size."""

from __future__ import annotations

import numpy as np
import pytest

from dpdistill.schema import DataError
from dpdistill.storage.options import parse_bounds, parse_classes, parse_resize


@pytest.mark.parametrize(
    ("stated", "names"),
    [
        (3, ("0", "1", "2")),
        ("3", ("0", "1", "2")),
        (" 2 ", ("0", "1")),
        ("cat,dog", ("cat", "dog")),
        ("cat, big dog", ("cat", "big dog")),
        ("7,8", ("7", "8")),
        (range(5, 7), ("5", "6")),
        (np.array(["b", "a"]), ("b", "a")),
        (["Katze", "Hündin"], ("Katze", "Hündin")),
    ],
)
def test_classes(stated, names):
    assert parse_classes(stated) == names


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        (1, "Expected 2 <= classes=1 <= 65536."),
        (65_537, "Expected 2 <= classes=65537 <= 65536."),
        ("1234567890", "Expected 2 to 65536 classes; got a number of 10 digits."),
        (("a",), "Expected 2 to 65536 classes; got 1."),
        ("a,", "Expected class names of printable characters; got ''."),
        ("a,b\x07", "Expected class names of printable characters; got 'b\\x07'."),
        ("a,a", "Expected distinct class names; at least one is named twice."),
        (2.0, "Expected classes as a number or as names (cat,dog); got 2.0."),
    ],
)
def test_classes_refused(stated, sentence):
    with pytest.raises(DataError) as refusal:
        parse_classes(stated)
    assert str(refusal.value) == sentence


def test_bounds():
    assert parse_bounds("0,255") == (0.0, 255.0)
    assert parse_bounds("-1.5, 2e3") == (-1.5, 2000.0)
    assert parse_bounds((0, 16)) == (0.0, 16.0)


@pytest.mark.parametrize("stated", ["1", "a,b", "2,1", "0,nan", "0,1e31", (1,), None, 3])
def test_bounds_refused(stated):
    with pytest.raises(DataError, match=r"two numbers low,high; got zero and 110\.$"):
        parse_bounds(["zero", "110"])
    with pytest.raises(DataError, match="Expected bounds"):
        parse_bounds(stated)


def test_resize():
    assert parse_resize(32) == 32
    assert parse_resize("4096") == 4096


@pytest.mark.parametrize("stated", [0, 4097, "x", None, 2.5, True, float("inf")])
def test_resize_refused(stated):
    with pytest.raises(DataError, match="Expected resize"):
        parse_resize(stated)
