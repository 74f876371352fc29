"""Images brought upright when they are read: values, what cannot be straightened, and who is told."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from dpdistill import Budget, DecoupledKIP, Records, distill, finish_again, load, straighten_images, verify
from dpdistill.features.deskew import Deskewed
from dpdistill.features.scattering import ScatterNet
from dpdistill.folder.labelled import write_labelled
from dpdistill.folder.layout import read_labelled
from dpdistill.folder.save import read_distilled
from dpdistill.publish.export.sentences import STRAIGHTENED
from dpdistill.schema import DataError, Schema
from dpdistill.sources.images import npz
from dpdistill.storage.test_set import check_test_set

FEW = DecoupledKIP(rounds=2, steps=2, per_class=1)


def stroke(slope=0.0, row=0.0, column=0.0, height=0.3, width=0.15, shape=(41, 41)):
    """A soft blob of such moments, light on black, (*shape, 1) of bytes."""
    rows, columns = np.meshgrid(*(np.linspace(-1, 1, side) for side in shape), indexing="ij")
    u, v = (rows - row) / height, (columns - column - slope * (rows - row)) / width
    return np.round(255 * np.exp(-(u**2 + v**2) / 2)).astype(np.uint8)[..., None]


STROKES = np.stack([stroke(0.4, 0.1, -0.1), stroke(-0.3, height=0.2), stroke(0.1, -0.1, 0.1, width=0.2), stroke()])


def moments(x):
    """Means, deviations and slope of columns over rows, of light (h, w)."""
    weight = x / x.sum()
    rows, columns = np.meshgrid(*(np.linspace(-1, 1, side) for side in x.shape), indexing="ij")
    m_r, m_c = (weight * rows).sum(), (weight * columns).sum()
    rows, columns = rows - m_r, columns - m_c
    v_r, v_rc = (weight * rows**2).sum(), (weight * rows * columns).sum()
    return m_r, m_c, v_rc / v_r, v_r**0.5, (weight * (columns - v_rc / v_r * rows) ** 2).sum() ** 0.5


@pytest.mark.parametrize("shape", [(41, 41), (28, 33), (60, 27)])
def test_moments(shape):
    X = np.stack([stroke(0.4, 0.1, -0.1, shape=shape), stroke(-0.3, height=0.2, width=0.3, shape=shape)])
    for x, straightened in zip(X[..., 0].astype(float), straighten_images(X)[..., 0].astype(float), strict=True):
        *placed, s_r, s_c = moments(straightened)
        np.testing.assert_allclose(placed, 0.0, atol=0.02)
        before = np.array(moments(x)[3:])
        np.testing.assert_allclose([s_r, s_c], before**0.3 * np.array([0.36, 0.28]) ** 0.7, rtol=0.04)


def test_what_the_deskewed_kernel_sees():
    seen = jax.vmap(Deskewed(ScatterNet()).upright)(STROKES / 127.5 - 1.0)
    np.testing.assert_allclose(straighten_images(STROKES), (np.asarray(seen) + 1.0) * 127.5, atol=1.05)


def test_ink_on_paper_is_what_light_on_black_is():
    ink = straighten_images(255 - STROKES)
    np.testing.assert_allclose(255 - ink.astype(int), straighten_images(STROKES), atol=1)


def test_floats_of_any_bounds():
    for scale, offset in ((1.0, 0.0), (1e-3, -5.0), (1e4, 300.0)):
        floats = straighten_images(STROKES * scale + offset)
        assert floats.dtype == np.float32
        np.testing.assert_allclose((floats - offset) / scale, straighten_images(STROKES), atol=1.0)


def test_colours_move_together():
    colours = np.concatenate([STROKES, STROKES // 2, 255 - STROKES // 4], 3)
    straightened = straighten_images(colours).astype(int)
    assert np.abs(straightened[..., 0] // 2 - straightened[..., 1]).max() <= 1
    assert np.abs(255 - straightened[..., 0] // 4 - straightened[..., 2]).max() <= 1
    assert np.abs(straightened - colours).max() > 100


def test_no_image_depends_on_another():
    order = np.array([2, 0, 3, 1, 1])
    together = straighten_images(STROKES)
    np.testing.assert_array_equal(straighten_images(STROKES[order]), together[order])
    np.testing.assert_array_equal(np.concatenate([straighten_images(x[None]) for x in STROKES]), together)


@pytest.mark.parametrize("shape", [(5, 1, 1), (1, 7, 3), (1, 1, 1), (9, 9, 2)])
@pytest.mark.parametrize("value", [0, 200, -1e30, 3e38])
def test_one_colour_stays(shape, value):
    X = np.full((2, *shape), value, np.uint8 if 0 <= value < 256 else np.float32)
    np.testing.assert_array_equal(straighten_images(X), X)


def test_what_is_not_finite_stays():
    X = STROKES.astype(np.float32)
    X[1, 3, 3] = np.nan
    X[2, 0, 0] = np.inf
    straightened = straighten_images(X)
    np.testing.assert_array_equal(straightened[1:3], X[1:3])
    np.testing.assert_array_equal(straightened[[0, 3]], straighten_images(X[[0, 3]]))


def test_no_images():
    assert straighten_images(np.zeros((0, 8, 8, 1), np.uint8)).shape == (0, 8, 8, 1)


def test_records_say_so():
    y = [0, 1, 0, 1]
    records = Records.from_arrays(STROKES, y, 2, straighten=True)
    assert records.schema == Schema((41, 41, 1), (0.0, 255.0), ("0", "1"), straightened=True)
    np.testing.assert_array_equal(records.X, straighten_images(STROKES))
    assert "straightened" in repr(records)
    assert "straightened" not in repr(Records.from_arrays(STROKES, y, 2))
    small = Records.from_arrays(STROKES, y, 2, resize=20, straighten=True)
    np.testing.assert_array_equal(small.X, straighten_images(Records.from_arrays(STROKES, y, 2, resize=20).X))


def test_bad_records_contribute_nothing():
    X = STROKES.astype(np.float32)
    X[1] = np.nan
    lenient = Records.from_arrays(X, [0, 1, 0, 1], 2, (0, 255), straighten=True, strict=False)
    assert lenient.y.tolist() == [0, -1, 0, 1]


def test_tests_are_read_as_their_set_states(tmp_path):
    npz.write_file(tmp_path / "test.npz", {"X": STROKES, "y": np.array([0, 1, 0, 1])})
    schema = Schema((41, 41, 1), (0.0, 255.0), ("0", "1"), straightened=True)
    for straightened, X in ((True, straighten_images(STROKES)), (False, STROKES)):
        like = Schema(schema.shape, schema.bounds, schema.classes, straightened)
        records = load(tmp_path / "test.npz", "test", like=like)
        np.testing.assert_array_equal(records.X, X)
        assert records.schema == like


def test_files_say_it_where_it_is_so():
    plain, straightened = (Schema((8, 8, 1), (0.0, 1.0), ("a", "b"), each) for each in (False, True))
    assert "straightened" not in plain.to_json()
    assert straightened.to_json()["straightened"] is True
    assert Schema.from_json(plain.to_json()) == plain
    assert Schema.from_json({**straightened.to_json(), "shape": [8, 8, 1]}) == straightened
    with pytest.raises(TypeError, match="straightened as true or false; got 1"):
        Schema.from_json({**plain.to_json(), "straightened": 1})


@pytest.mark.parametrize("straighten", [False, True])
@pytest.mark.slow
def test_shared_folder(tmp_path, straighten):
    records = Records.from_arrays(np.tile(STROKES, (2, 1, 1, 1)), [0, 1, 0, 1] * 2, 2, resize=8, straighten=straighten)
    result = distill(records, FEW, Budget(1.0), label="straight", run_dir=tmp_path / "straight.run", seed=0)
    result.save(tmp_path / "straight")
    finish_again(tmp_path / "straight.run", FEW).save(tmp_path / "again")
    for folder in (tmp_path / "straight", tmp_path / "again"):
        assert read_distilled(folder).schema == records.schema
        assert verify(folder).passed
        for page, said in (("report.html", ", straightened"), ("README.md", STRAIGHTENED.split(".")[0])):
            assert (said in (folder / page).read_text()) == straighten


def test_damaged_folder(tmp_path):
    arrays = {"X": np.zeros((1, 8, 8, 1), np.float32), "y": np.array([0]), "classes": np.array(["a", "b"])}
    arrays |= {"bounds": np.array([0.0, 1.0])}
    for wrong in (np.array(1), np.array([True]), np.array("yes")):
        npz.write_file(tmp_path / "synthetic.npz", {**arrays, "straightened": wrong})
        with pytest.raises(DataError, match="Expected straightened as true or false"):
            read_labelled(tmp_path / "synthetic.npz")


def test_red_on_blue():
    rgb = np.array([[150, 0, 0], [0, 0, 150]])
    colours = np.round(STROKES / 255 * rgb[0] + (1 - STROKES / 255) * rgb[1]).astype(np.uint8)
    seen = straighten_images(colours)[..., 0].astype(float)
    for x in seen:
        np.testing.assert_allclose(moments(x)[:3], 0.0, atol=0.03)


@pytest.mark.parametrize("shape", [(4, 8, 8), (8, 8, 1), (2, 0, 8, 1)])
def test_images_of_another_shape(shape):
    with pytest.raises(DataError, match=r"Expected images of shape \(n, h, w, c\); got \("):
        straighten_images(np.zeros(shape, np.uint8))


def test_what_is_upright_already_is_left(tmp_path):
    schema = Schema((41, 41, 1), (0.0, 255.0), ("0", "1"), straightened=True)
    X, y = straighten_images(STROKES), np.array([0, 1, 0, 1])
    write_labelled(tmp_path / "more.npz", schema.to_unit(X), y, None, schema, {})
    for straighten in (False, True):
        records = load(tmp_path / "more.npz", straighten=straighten)
        assert records.schema == schema
        np.testing.assert_allclose(records.X, X, atol=0.01)
    np.testing.assert_allclose(load(tmp_path / "more.npz", like=schema).X, X, atol=0.01)
    plain = Schema(schema.shape, schema.bounds, schema.classes)
    with pytest.raises(DataError, match=r"more\.npz holds straightened images: they cannot be compared with others\."):
        load(tmp_path / "more.npz", like=plain)
    npz.write_file(tmp_path / "bad.npz", {"X": X, "y": y, "straightened": np.array(1)})
    with pytest.raises(DataError, match="has an array 'straightened' that is not true or false"):
        load(tmp_path / "bad.npz", classes=2)
    write_labelled(tmp_path / "folder", schema.to_unit(X), y, None, schema, {"kind": "drawn"})
    assert json.loads((tmp_path / "folder" / "about.json").read_text()) == {"kind": "drawn", "straightened": True}


@pytest.mark.parametrize("straightened", [False, True])
def test_a_test_set_that_was_read_in_another_way(straightened):
    test = Records.from_arrays(STROKES, [0, 1, 0, 1], 2, straighten=not straightened)
    schema = Schema((41, 41, 1), (0.0, 255.0), ("0", "1"), straightened)
    which = "straightened" if straightened else "not straightened"
    with pytest.raises(DataError, match=f"Expected test images that are {which}, as the set's"):
        check_test_set(schema, test)
    check_test_set(test.schema, test)


def test_records_of_two_schemas_are_not_joined():
    y = [0, 1, 0, 1]
    plain, straightened = (Records.from_arrays(STROKES, y, 2, straighten=each) for each in (False, True))
    assert len(straightened.joined(straightened)) == 8
    with pytest.raises(DataError, match="Records of two schemas cannot be joined"):
        plain.joined(straightened)
