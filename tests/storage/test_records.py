"""Records: what they hold, what they refuse to show, and their chunks."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

X = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
Y = np.array([0, 1, 1, 0, 1])


def records(**options):
    return Records.from_arrays(X, Y, **{"classes": 2, **options})


def test_public_facts_come_from_the_caller():
    r = records(classes="cat,dog")
    assert r.schema == Schema((2, 3, 1), (0.0, 255.0), ("cat", "dog"))
    assert r.X.shape == (5, 2, 3, 1)
    assert r.X.dtype == np.uint8
    assert r.y.dtype == np.int64
    assert r.y.tolist() == [0, 1, 1, 0, 1]
    assert len(r) == 5
    assert r.classes == 2


def test_shown_without_anything_private():
    expected = "<Records of 2x3x1 values in [0, 255], 2 classes; nothing else is shown>"
    r = records()
    assert repr(r) == str(r) == f"{r}" == expected
    one = Records.from_arrays(X[:1] + 200, Y[:1], 2)
    assert repr(one) == expected


def test_never_pickled_or_copied():
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError) as refusal:
            attempt(records())
        assert str(refusal.value) == "Records are private: they cannot be pickled or copied."


def test_cannot_be_changed():
    r = records()
    with pytest.raises(ValueError, match="read-only"):
        r.X[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        r.y[0] = 1
    with pytest.raises(AttributeError):
        r.y = Y


def test_chunks_in_order_are_padded():
    r = records(bounds="0,29")
    chunks = list(r.chunks(None, 2))
    assert [valid for _, _, valid in chunks] == [2, 2, 1]
    for values, labels, _ in chunks:
        assert values.shape == (2, 2, 3, 1)
        assert values.dtype == np.float32
        assert labels.dtype == np.int64
    np.testing.assert_allclose(chunks[0][0].ravel(), np.arange(12) * 2 / 29 - 1, atol=1e-6)
    np.testing.assert_allclose(chunks[2][0][0].ravel(), np.arange(24, 30) * 2 / 29 - 1, atol=1e-6)
    assert (chunks[2][0][1] == 0).all()
    assert [labels.tolist() for _, labels, _ in chunks] == [[0, 1], [1, 0], [1, -1]]


def test_chunks_of_chosen_records():
    r = records()
    chunks = list(r.chunks(np.array([4, 0, 4]), 2))
    assert [c[2] for c in chunks] == [2, 1]
    assert chunks[0][1].tolist() == [1, 0]
    assert chunks[1][1].tolist() == [1, -1]
    np.testing.assert_allclose(chunks[0][0][0].ravel(), np.arange(24, 30) / 127.5 - 1, atol=1e-6)
    np.testing.assert_allclose(chunks[0][0][1].ravel(), np.arange(6) / 127.5 - 1, atol=1e-6)
    np.testing.assert_array_equal(chunks[1][0][0], chunks[0][0][0])
    assert list(r.chunks(np.array([], int), 2)) == []


def test_chunks_of_nothing():
    empty = Records.from_arrays(X[:0], Y[:0], 2)
    assert len(empty) == 0
    assert list(empty.chunks(None, 3)) == []


@pytest.mark.parametrize("indices", [[5], [-1], [0, 99], [[0]]])
def test_chunks_of_no_such_record(indices):
    with pytest.raises(ValueError, match="each at least 0 and below the number of records"):
        records().chunks(indices, 2)


def test_chunks_of_no_size():
    with pytest.raises(ValueError, match="Expected size=0 >= 1"):
        records().chunks(None, 0)


def test_values_outside_are_clamped_and_huge_ones_do_not_warn():
    values = np.array([-1e300, 0.5, 1e300, 2.0]).reshape(1, 2, 2)
    r = Records.from_arrays(values, [0], 2, (0, 1))
    chunk = next(r.chunks(None, 1))[0]
    assert chunk.ravel().tolist() == [-1.0, 0.0, 1.0, 1.0]


def test_labels_by_name_and_by_number():
    assert Records.from_arrays(X, list("abbab"), "b,a").y.tolist() == [1, 0, 0, 1, 0]
    assert Records.from_arrays(X, np.array(list("abbab"), "S1"), "b,a").y.tolist() == [1, 0, 0, 1, 0]
    assert Records.from_arrays(X, Y, "b,a").y.tolist() == [0, 1, 1, 0, 1]
    assert Records.from_arrays(X, Y, "2,1").y.tolist() == [0, 1, 1, 0, 1]
    assert Records.from_arrays(X, Y.astype(np.uint8), 2).y.tolist() == [0, 1, 1, 0, 1]


def test_lenient_keeps_bad_records_without_a_class():
    values = X.astype(np.float64)
    values[1, 0, 0], values[3, 1, 2] = np.nan, np.inf
    r = Records.from_arrays(values, [0, 1, 7, 0, 1], 2, "0,255", strict=False)
    assert len(r) == 5
    assert r.y.tolist() == [0, -1, -1, -1, 1]
    named = Records.from_arrays(X, ["a", "x", "b", "", "a"], "a,b", strict=False)
    assert named.y.tolist() == [0, -1, 1, -1, 0]


def test_lenient_does_not_move_other_records():
    values = X.astype(np.float64)
    clean = next(Records.from_arrays(values, Y, 2, "0,255", strict=False).chunks(None, 5))
    values[2] = np.nan
    dirty = next(Records.from_arrays(values, Y, 2, "0,255", strict=False).chunks(None, 5))
    kept = [0, 1, 3, 4]
    np.testing.assert_array_equal(clean[0][kept], dirty[0][kept])
    np.testing.assert_array_equal(clean[1][kept], dirty[1][kept])
    assert dirty[1][2] == -1
    assert np.isnan(dirty[0][2]).all()


def test_resize_is_bilinear_for_each_channel():
    colour = np.zeros((1, 2, 2, 3), np.uint8)
    colour[0, :, 1, 0], colour[0, 1, :, 1], colour[..., 2] = 200, 100, 50
    r = Records.from_arrays(colour, [0], 2, resize=4)
    assert r.schema.shape == (4, 4, 3)
    assert r.X.dtype == np.uint8
    assert r.X[0, 0, :, 0].tolist() == [0, 50, 150, 200]
    assert r.X[0, :, 0, 1].tolist() == [0, 25, 75, 100]
    assert (r.X[..., 2] == 50).all()
    floats = Records.from_arrays(colour / 200, [0], 2, (0, 1), resize="4")
    assert floats.X.dtype == np.float32
    assert floats.X[0, 0, :, 0].tolist() == [0.0, 0.25, 0.75, 1.0]
    assert Records.from_arrays(X[:, :, :2], Y, 2, resize=2).X[1].ravel().tolist() == [6, 7, 9, 10]


@pytest.mark.parametrize(
    ("x", "y", "options", "sentence"),
    [
        (X, Y[:4], {}, "Expected as many labels as images; got labels of shape (4,) and 5 images."),
        (X.reshape(5, 6), Y, {}, "Expected X of shape (n, h, w) or (n, h, w, c); got (5, 6)."),
        (X[:, :0], Y, {}, "Expected X of shape (n, h, w) or (n, h, w, c); got (5, 0, 3)."),
        ([[[1]], [[1, 2]]], [0, 1], {}, "Expected X as one array; its rows have different lengths."),
        (X, np.array([0, None, 1, 1, 0]), {}, "Record 1 has no label."),
        (X > 2, Y, {}, "Expected X as whole numbers or floats; got bool."),
        (X / 2, Y, {}, "Expected bounds for float64 values: state them (--bounds LOW,HIGH)."),
        (X.astype(int), Y, {}, "Expected bounds for int64 values: state them (--bounds LOW,HIGH)."),
        (X, Y / 2, {}, "Record 1 has the label '0.5', which is not one of the 2 classes."),
        (X, Y + 1, {}, "Record 1 has the label '2', which is not one of the 2 classes."),
        (X, list("abcab"), {"classes": "a,b"}, "Record 2 has the label 'c', which is not one of the 2 classes."),
    ],
)
def test_refused(x, y, options, sentence):
    with pytest.raises(DataError) as refusal:
        Records.from_arrays(x, y, **{"classes": 2, **options})
    assert str(refusal.value) == sentence


def test_refused_not_finite():
    values = X / 1.0
    values[2, 1, 1] = np.nan
    with pytest.raises(DataError, match=r"^Record 2 has a value that is not finite \(NaN or infinity\)\.$"):
        Records.from_arrays(values, Y, 2, (0, 255))


def test_resize_that_does_not_fit(monkeypatch):
    def empty(*_):
        raise MemoryError

    monkeypatch.setattr(np, "empty", empty)
    with pytest.raises(DataError, match="Images resized to 9x9 do not fit into memory: use a smaller resize"):
        records(resize=9)


def test_parts_that_do_not_belong_together():
    schema = Schema((2, 3, 1), (0.0, 1.0), ("a", "b"))
    images, labels = X[..., None], Y.astype(np.int64)
    with pytest.raises(DataError, match=r"Expected numbers X of shape \(n, 2, 3, 1\); got uint8 \(5, 2, 3\)"):
        Records(X, labels, schema)
    with pytest.raises(DataError, match=r"got \(4,\) labels and 5 images"):
        Records(images, labels[:4], schema)
    with pytest.raises(DataError, match="Expected class indices y, int64, from -1 to 1"):
        Records(images, labels + 1, schema)
    with pytest.raises(DataError, match="Expected class indices y, int64, from -1 to 1"):
        Records(images, labels.astype(np.int32), schema)


@pytest.mark.parametrize("kind", [str, bytes])
def test_a_unit_in_several_spellings_is_one(kind):
    """As in tables: they were several in arrays and lists, each with coins and rows of its own."""
    X, y = np.zeros((8, 4, 4), np.uint8), np.zeros(8, int)
    spelled = ["p1", "p1 ", " p1", "p1\t", "7", "7.0", " 7", "P1"]
    units = np.array([name.encode() for name in spelled]) if kind is bytes else spelled
    records = Records.from_arrays(X, y, classes=2, bounds=(0, 255), units=units)
    assert records.units.tolist() == [2, 2, 2, 2, 0, 0, 0, 1]
    with pytest.raises(DataError, match="Record 1 has no unit"):
        Records.from_arrays(X[:2], y[:2], classes=2, bounds=(0, 255), units=["a", " -1e0 "])
