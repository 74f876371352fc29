"""References: real records in the place of synthetic ones, of the same classes, and distances to the nearest."""

import numpy as np
import pytest
from contract import TABLE, table_records

from dpdistill.audits import nearest_real, random_real
from dpdistill.folder.save import read_distilled, write_distilled
from dpdistill.method import Distilled
from dpdistill.schema import DataError, Schema
from dpdistill.storage.records import Records

SCHEMA = Schema((2, 2, 1), (-1.0, 1.0), ("a", "b", "c"))


def images(n, seed):
    rng = np.random.default_rng(seed)
    return Records(rng.uniform(-1, 1, (n, 2, 2, 1)).astype(np.float32), np.arange(n) % 3, SCHEMA)


def test_random_real_records_are_of_the_classes_of_the_set():
    records = images(30, 0)
    few = random_real(records, np.array([0, 0, 0, 2]), seed=1)
    assert np.bincount(few.y, minlength=3).tolist() == [3, 0, 1]
    assert all(any(np.array_equal(x, real) for real in records.X) for x in few.X)
    assert np.bincount(random_real(records, np.zeros(99, int)).y).tolist() == [10]
    assert not np.array_equal(few.X, random_real(records, np.array([0, 0, 0, 2]), seed=2).X)
    unknown = Records(records.X, np.full(30, -1), SCHEMA)
    with pytest.raises(DataError, match="Expected real records of the set's classes"):
        random_real(unknown, np.array([0]))


def test_distances_are_those_of_the_nearest():
    real, held_out = images(2500, 0), images(300, 1)
    made = Distilled(np.concatenate([real.X[:2], -np.ones((1, 2, 2, 1), np.float32)]), np.array([0, 1, 2]), SCHEMA)
    found = nearest_real(made, real, held_out)
    for distances, X in ((found.synthetic, made.X), (found.held_out, held_out.X)):
        all_ = np.sqrt(np.square(X.reshape(-1, 1, 4) - real.X.reshape(1, -1, 4)).sum(2).min(1))
        np.testing.assert_allclose(distances, all_, atol=1e-5)
    assert found.strikingly == pytest.approx(2 / 3)
    assert nearest_real(Distilled(held_out.X, held_out.y, SCHEMA), real, held_out).strikingly == pytest.approx(0.01)


def test_records_of_no_known_class_do_not_count():
    real, held_out, made = images(40, 1), images(30, 2), Distilled(images(9, 3).X, images(9, 3).y, SCHEMA)
    expected = nearest_real(made, real, held_out)
    real_more, held_more = (
        Records(np.concatenate([each.X, np.zeros_like(each.X[:2])]), np.append(each.y, [-1, -1]), each.schema)
        for each in (real, held_out)
    )
    found = nearest_real(made, real_more, held_more)
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value)


def test_copies_are_counted_where_held_out_records_are_copies_too():
    rng = np.random.default_rng(0)
    real, held_out = (
        Records(np.where(rng.random((100, 2, 2, 1)) < 0.5, -1.0, 1.0).astype(np.float32), np.zeros(100, int), SCHEMA)
        for _ in range(2)
    )
    found = nearest_real(Distilled(real.X[:20], real.y[:20].astype(np.int32), SCHEMA), real, held_out)
    assert found.copies == (1.0, 0.95)
    assert found.strikingly == 0.0
    strange = nearest_real(Distilled(0.5 * real.X[:20], real.y[:20].astype(np.int32), SCHEMA), real, held_out)
    assert strange.copies == (0.0, 0.95)


@pytest.mark.parametrize("white", [0.0, 0.9])
def test_stored_copies_of_large_images_are_copies(white, tmp_path):
    schema, rng = Schema((224, 224, 3), (0.0, 255.0), ("a", "b")), np.random.default_rng(0)
    levels = np.where(rng.random((8, 224, 224, 3)) < white, 255, rng.integers(0, 256, (8, 224, 224, 3)))
    records = Records(levels.astype(np.uint8), np.arange(8) % 2, schema)
    other = levels[4:].copy()
    other[:, 100, 100, 1] ^= 1  # one level of one pixel
    write_distilled(tmp_path / "set", Distilled(*records.take(np.arange(4)), schema))
    held_out = Records(other.astype(np.uint8), np.arange(4) % 2, schema)
    found = nearest_real(read_distilled(tmp_path / "set"), records, held_out)
    assert found.copies == (1.0, 0.0)


def test_rows_with_missing_values_have_a_nearest_one():
    records = table_records(60, 0, TABLE)
    X, y = records.take(np.arange(10))
    kept = np.isfinite(X).all(1) & (y >= 0)
    found = nearest_real(Distilled(X[kept], y[kept].astype(np.int32), TABLE), records, table_records(20, 1, TABLE))
    np.testing.assert_allclose(found.synthetic, 0.0, atol=1e-6)
    assert np.isfinite(found.held_out).all()


def test_other_records_are_refused():
    made = Distilled(images(3, 0).X, np.array([0, 1, 2]), SCHEMA)
    with pytest.raises(DataError, match="Expected records as"):
        nearest_real(made, images(0, 0), images(3, 0))
