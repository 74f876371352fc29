"""The tolerance of float32 comparisons: wide enough for any order of a sum, too narrow for a defect."""

import ast
from pathlib import Path

import numpy as np
import pytest
from contract.float32 import assert_close_float32, float32_tolerance

TERMS = np.random.default_rng(0).normal(size=(20, 4096)).astype(np.float32)
SCALE = np.abs(TERMS).sum(1, dtype=np.float64)


def in_lanes(width):
    """Sums as a vector unit of so many lanes makes them: lanes one after another, then across lanes."""
    return np.add.accumulate(TERMS.reshape(20, -1, width), 1, dtype=np.float32)[:, -1].sum(1, dtype=np.float32)


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_sums_in_any_order_are_close(width):
    exact = TERMS.sum(1, dtype=np.float64)
    assert_close_float32(in_lanes(width), exact, terms=4096, scale=SCALE)
    assert_close_float32(in_lanes(width), in_lanes(1), terms=4096, scale=SCALE)
    assert_close_float32(TERMS[:, ::-1].sum(1), exact, terms=4096, scale=SCALE)
    if width == 1:
        assert np.abs(in_lanes(1) - exact).max() > 1e-6  # they are not the same


def test_a_missing_term_is_not_close():
    found = in_lanes(8) - TERMS[:, 7] / 2
    with pytest.raises(AssertionError, match=r"Expected -?[\d.]+ \+- [\d.]+; got -?[\d.]+ at \(\d+,\)"):
        assert_close_float32(found, in_lanes(8), terms=4096, scale=SCALE)


@pytest.mark.parametrize("found", [[1.0, np.nan], [1.0, 2.0 + 1e-4], [0.0, 0.0]])
def test_other_numbers_are_not_close(found):
    assert_close_float32([1.0, 2.0 + 1e-6], [1.0, 2.0], terms=4)
    with pytest.raises(AssertionError, match="beyond the tolerance of float32"):
        assert_close_float32(found, [1.0, 2.0], terms=4)


def test_another_shape_is_not_close():
    with pytest.raises(AssertionError, match=r"Expected shape \(2,\); got \(1,\)"):
        assert_close_float32([1.0], [1.0, 1.0], terms=4)


def test_it_grows_with_the_root_of_the_terms_and_with_their_size():
    assert float32_tolerance(100) == 80 * 2.0**-23
    np.testing.assert_array_equal(float32_tolerance(25, np.array([1.0, 3.0])), [40 * 2.0**-23, 120 * 2.0**-23])


def test_every_comparison_states_its_tolerance():
    """The one that `assert_allclose` has by default, 1e-7 of a number, is less than the distance of two float32."""
    found = [
        f"{path.name}:{call.lineno}"
        for path in Path(__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "assert_allclose"
        if not {keyword.arg for keyword in call.keywords} & {"rtol", "atol"}
    ]
    assert found == []
