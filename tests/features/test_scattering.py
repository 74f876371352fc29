"""The scattering transform against Kymatio's values, against sums over pixels, and against what it must do."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chosen_tests import few

from dpdistill.features.scattering import ScatterNet
from dpdistill.features.wavelets import gaussian, wavelet

REFERENCE = np.load(Path(__file__).parent / "reference_scattering.npz")
TRANSFORMS = [name for name in REFERENCE if "_J" in name]
MAPS, FEATURES = jax.jit(ScatterNet.maps, static_argnums=0), jax.jit(ScatterNet.__call__, static_argnums=0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def maps(net: ScatterNet, X):
    return np.asarray(MAPS(net, jnp.asarray(X)))


def images(name):
    x = REFERENCE[name]
    return x[..., None] if x.ndim == 3 else np.moveaxis(x, 1, 3)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 1e-3)])
@pytest.mark.parametrize("name", few(TRANSFORMS, *(name for name in TRANSFORMS if "J3_L4" not in name)))
def test_values_are_kymatios_in_every_channel(name, dtype, tolerance):
    image, J, L = name.split("_")
    expected = REFERENCE[name]
    expected = expected[:, None] if expected.ndim == 4 else expected
    found = maps(ScatterNet(int(J[1:]), int(L[1:])), images(image).astype(dtype))
    assert found.dtype == dtype
    assert found.shape == expected.shape
    error, size = (np.abs(a).max((0, 1, 3, 4)) for a in (found - expected, expected))
    assert size.min() > 0
    assert (error / size).max() < tolerance


def by_sums_over_pixels(x, J, L):
    """One grey image, one position after the other; only the coarser low pass is made from a few frequencies."""
    P, Q = ((side // 2**J + 2) * 2**J for side in x.shape)
    before = [(P - x.shape[0]) // 2, (Q - x.shape[1]) // 2]
    x = np.pad(x, [(b, side - n - b) for b, side, n in zip(before, (P, Q), x.shape, strict=True)], mode="reflect")

    def gaussian(sigma, slant, theta, xi):
        total = np.zeros((P, Q), complex)
        for a in range(-2, 3):
            for b in range(-2, 3):
                u, v = np.arange(P)[:, None] + a * P, np.arange(Q)[None] + b * Q
                along = u * np.cos(theta) + v * np.sin(theta)
                across = -u * np.sin(theta) + v * np.cos(theta)
                total += np.exp(-(along**2 + slant**2 * across**2) / 2 / sigma**2 + 1j * xi * along)
        return total / (2 * 3.1415 * sigma**2 / slant)

    def psi(j, angle):
        shape = 0.8 * 2**j, 4 / L, (int(L - L / 2 - 1) - angle) * np.pi / L
        wave, plain = gaussian(*shape, 3 * np.pi / 4 / 2**j), gaussian(*shape, 0.0)
        return wave - wave.sum() / plain.sum() * plain

    def convolve(x, y):
        u, v = (np.arange(n)[:, None] - np.arange(n)[None] for n in x.shape)
        return np.einsum(
            "ac,bd,abcd->ab",
            *(np.ones((n, n)) for n in x.shape),
            x[None, None] * y[u[:, None, :, None], v[None, :, None, :]],
        )

    def coarse(phi, r):
        for axis, n in enumerate(phi.shape):
            k, m = np.arange(n) - n // 2, np.arange(n >> r) * 2.0**r
            kept = np.exp(2j * np.pi * np.outer(m, k[np.abs(k + 0.5) < n / 2 ** (r + 1)]) / n)
            spectrum = np.exp(-2j * np.pi * np.outer(k[np.abs(k + 0.5) < n / 2 ** (r + 1)], np.arange(n)) / n)
            phi = np.moveaxis(np.tensordot(kept @ spectrum / (n >> r), phi, (1, axis)), 0, axis)
        return np.real(phi)

    low = gaussian(0.8 * 2 ** (J - 1), 1.0, 0.0, 0.0).real

    def average(U, r):
        step = 2 ** (J - r)
        return convolve(U, coarse(low, r) if r else low)[::step, ::step][1:-1, 1:-1].real

    S = [average(x, 0)]
    U = {(j, a): np.abs(convolve(x, psi(j, a))) for j in range(J) for a in range(L)}
    S += [average(U[j, a][:: 2**j, :: 2**j], j) for j in range(J) for a in range(L)]
    if J == 2:
        S += [average(np.abs(convolve(U[0, a], psi(1, b)))[::2, ::2], 1) for a in range(L) for b in range(L)]
    return np.stack(S)


@pytest.mark.parametrize(("shape", "J", "L"), [((6, 9), 2, 3), ((9, 5), 1, 4), ((4, 11), 2, 2)])
def test_rectangles_of_any_side_equal_sums_over_pixels(shape, J, L, rng):
    x = rng.normal(size=shape)
    expected = by_sums_over_pixels(x, J, L)
    found = maps(ScatterNet(J, L), x[None, :, :, None])[0, 0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())
    assert np.abs(expected).max((1, 2)).min() > 1e-3


def test_constant_images_have_an_average_and_nothing_else():
    S = maps(ScatterNet(), np.array([3.0, -1.0]).reshape(2, 1, 1, 1) * np.ones((2, 28, 28, 1)))[:, 0]
    np.testing.assert_allclose(S[0, 0], 3.0, rtol=1e-4)
    np.testing.assert_allclose(S[1, 0], -1.0, rtol=1e-4)
    assert np.abs(S[:, 1:]).max() < 1e-12


def test_an_image_moved_by_one_averaging_scale_moves_the_maps_by_one(rng):
    x = np.zeros((2, 48, 40, 1))
    blob = rng.normal(size=(9, 7))
    x[0, 16:25, 16:23, 0] = blob
    x[1, 20:29, 12:19, 0] = blob
    S = maps(ScatterNet(), x)[:, 0]
    np.testing.assert_allclose(S[1, :, 1:, :-1], S[0, :, :-1, 1:], atol=1e-14)
    assert np.abs(S[1] - S[0]).max() > 1e-3


def test_filters_cover_the_frequencies_without_amplifying_any():
    for J, L, bound in ((1, 8, 1.001), (2, 8, 1.001), (3, 4, 1.001), (3, 8, 1.02)):
        low = gaussian(40, 0.8 * 2 ** (J - 1))
        energy = (np.outer(low, low) / (2 * 3.1415 * (0.8 * 2 ** (J - 1)) ** 2)) ** 2
        for psi in (wavelet(40, 40, j, L, angle) for j in range(J) for angle in range(L)):
            energy += (psi**2 + np.roll(psi[::-1, ::-1], 1, (0, 1)) ** 2) / 2
        assert energy.min() > 0.1
        assert energy.max() < bound


@pytest.mark.slow
def test_distances_shrink_to_at_most_half(rng):
    """Every 4th pixel is kept: about 1/4 for smooth differences, and 0.34 was the worst that gradient ascent found."""
    net, X, D = ScatterNet(), rng.normal(size=(6, 28, 28, 1)), rng.normal(size=(6, 28, 28, 1))
    u, v = np.meshgrid(np.arange(28), np.arange(28), indexing="ij")
    X[3:] = 0.1 * X[3:] + np.stack([np.cos(0.3 * u + v), np.cos(2 * u - 0.5 * v), np.cos(1.5 * v)])[..., None]
    origin = maps(net, X)
    ascent = jax.jit(jax.grad(lambda d: jnp.sum(jnp.square(net.maps(jnp.asarray(X + d)) - origin))))
    for _ in range(15):
        D = 0.01 * D / np.linalg.norm(D, axis=(1, 2), keepdims=True)
        before, D = D, np.asarray(ascent(D))
    gain = np.linalg.norm((maps(net, X + before) - origin).reshape(6, -1), axis=1) / 0.01
    assert gain.max() < 0.5
    assert gain.min() > 0.2
    shift = maps(net, X + 3.0) - origin
    np.testing.assert_allclose(np.linalg.norm(shift.reshape(6, -1), axis=1) / (3 * 28), 0.25, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "n", "shape"),
    [
        (ScatterNet(1, 3, groups=2), 3, (5, 8, 2)),
        pytest.param(ScatterNet(3, 1), 2, (11, 16, 1), marks=pytest.mark.variants),
        (ScatterNet(2, 2, groups=3, per_position=True, normalise=True), 30, (20, 17, 1)),
    ],
)
def test_gradient_is_the_limit_of_differences(net, n, shape, rng):
    X, direction = rng.normal(size=(2, n, *shape))
    weights = rng.normal(size=jax.eval_shape(net, X).shape)
    value = jax.jit(lambda X: jnp.sum(weights * net(X)))
    slope = (value(X + 1e-6 * direction) - value(X - 1e-6 * direction)) / 2e-6
    assert abs(slope) > 0.01
    assert jnp.sum(jax.jit(jax.grad(value))(X) * direction) == pytest.approx(float(slope), rel=1e-6)


def test_gradient_is_finite_at_constant_images():
    X = np.stack([np.zeros((12, 12, 1)), np.ones((12, 12, 1))]).astype(np.float32)
    for net in (ScatterNet(2, 2, groups=3, per_position=True), ScatterNet(2, 2, groups=1, normalise=True)):
        value, gradient = jax.jit(jax.value_and_grad(lambda X, net=net: jnp.sum(net(X) ** 3)))(X)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_a_batch_is_its_records_one_by_one(rng):
    n = 70  # more than are worked on at a time
    net, X = ScatterNet(2, 2, groups=3), rng.normal(size=(n, 12, 12, 1))
    batch = np.asarray(FEATURES(net, X))
    mapped = np.asarray(jax.jit(jax.vmap(lambda x: net(x[None])[0]))(X))
    np.testing.assert_allclose(mapped, batch, atol=1e-12)
    np.testing.assert_allclose(FEATURES(net, X[n - 1 :])[0], batch[-1], atol=1e-12)
    net = ScatterNet(1, 2)
    weights = rng.normal(size=FEATURES(net, X).shape)
    whole = jax.jit(jax.grad(lambda X: jnp.sum(weights * net(X))))(X)
    single = jax.jit(jax.vmap(jax.grad(lambda x, w: w @ net(x[None])[0])))(X, weights)
    outside = jax.jit(jax.grad(lambda X: jnp.sum(weights * jax.vmap(lambda x: net(x[None])[0])(X))))(X)
    np.testing.assert_allclose(single, whole, atol=1e-11 * np.abs(whole).max())
    np.testing.assert_allclose(outside, whole, atol=1e-11 * np.abs(whole).max())


@pytest.mark.parametrize("colours", [1, 3])
@pytest.mark.parametrize("per_position", [False, True])
def test_groups_are_standardised_within_the_record(colours, per_position, rng):
    net = ScatterNet(2, 2, groups=3, per_position=per_position)
    X = rng.normal(size=(4, 12, 16, colours))
    S = maps(net, X)
    expected = np.empty_like(S)
    for record in range(4):
        for colour in range(colours):
            for group in range(3):
                part = S[record, colour, 3 * group : 3 * group + 3]
                axes = 0 if per_position else (0, 1, 2)
                scaled = (part - part.mean(axes)) / np.sqrt(part.var(axes) + 1e-5)
                expected[record, colour, 3 * group : 3 * group + 3] = scaled
    found = np.asarray(FEATURES(net, X))
    np.testing.assert_allclose(found, expected.reshape(4, -1), atol=1e-10)
    axes = 3 if per_position else (3, 4, 5)
    G, raw = (a.reshape(4, colours, 3, 3, 3, 4) for a in (found, S))
    np.testing.assert_allclose(G.mean(axes), 0.0, atol=1e-12)
    np.testing.assert_allclose(G.var(axes), raw.var(axes) / (raw.var(axes) + 1e-5), rtol=1e-8)
    np.testing.assert_allclose(FEATURES(net, np.concatenate([X[:1], 100 * X[1:]]))[0], found[0], atol=1e-12)


def test_no_groups_leave_the_channels_as_they_are(rng):
    net, X = ScatterNet(2, 2), rng.normal(size=(2, 12, 12, 3))
    np.testing.assert_array_equal(FEATURES(net, X), maps(net, X).reshape(2, -1))


def test_normalised_features_have_norm_one_and_those_of_zeros_stay_zero(rng):
    net = ScatterNet(2, 2, normalise=True)
    X = rng.normal(size=(3, 12, 12, 1))
    X[1] = 0.0
    features, plain = np.asarray(FEATURES(net, X)), np.asarray(FEATURES(ScatterNet(2, 2), X))
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), [1.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(features[0], plain[0] / np.linalg.norm(plain[0]), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"J": 0}, "Expected J=0 >= 1."),
        ({"L": -2}, "Expected L=-2 >= 1."),
        ({"groups": 2}, "Expected groups=2 that divide 81 channels, or 0."),
        ({"groups": -1}, "Expected groups=-1 >= 0."),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ScatterNet(**arguments)


def test_images_below_the_averaging_scale_are_refused():
    with pytest.raises(ValueError, match=re.escape("at least 8 x 8 pixels for J=3; got 7 x 28.")):
        ScatterNet(3)(jnp.zeros((1, 7, 28, 1)))
