"""Constants of the scattering transform: Morlet wavelets, low pass, and the matrices that apply them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, eq=False)
class Wavelets:
    """Convolution x -> x * psi, kept at every 2^s-th pixel, for the L wavelets psi of one scale.

    An image is a sum of products cos cos, cos sin, sin cos, sin sin of waves of k1 and k2 along the axes: all real, so
    that matrix products do the work. With e and o the even and the odd part of psi's spectrum, e' = e(k1, -k2), and
    c and s for the cosine and the sine of either axis,

        cc * psi = (e + e')/2 cc - (e - e')/2 ss + i (o + o')/2 sc + i (o - o')/2 cs,

    and so on, see `couplings` of the transform. At every 2^s-th pixel, 2^s waves look alike up to the sign of the sine:
    these are the folds, numbered f and g below.

    Args:
        analyse: for the rows and for the columns, (2 f k, side): pixels to waves; cosines, then sines.
        filters: (e + e')/2, (e - e')/2, (o + o')/2, (o - o')/2, each (f, k1, g, k2, L).
        synthesise: for the rows and for the columns, (side / 2^s, 2 k): waves to pixels.
    """

    analyse: tuple[np.ndarray, np.ndarray]
    filters: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    synthesise: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Bank:
    """Constants that depend on the size of the images only.

    Args:
        pixels: P Q, of a padded image.
        wavelets: (scale, resolution) -> the wavelets of the scale, for images of P / 2^resolution x Q / 2^resolution.
        average: resolution -> (h', P / 2^resolution), (w', Q / 2^resolution): low pass, every 2^J-th pixel, without
            the border.
    """

    J: int
    pixels: int
    padding: tuple[tuple[int, int], tuple[int, int]]
    wavelets: dict[tuple[int, int], Wavelets]
    average: list[tuple[np.ndarray, np.ndarray]]


@lru_cache(maxsize=16)
def bank_of(h: int, w: int, J: int, L: int) -> Bank:
    P, Q = (((side + 2**J) // 2**J + 1) * 2**J for side in (h, w))
    (top, bottom), (left, right) = (((P - h) // 2, (P - h + 1) // 2), ((Q - w) // 2, (Q - w + 1) // 2))
    psi = {j: [wavelet(P, Q, j, L, angle) for angle in range(L)] for j in range(J)}
    low = [gaussian(side, 0.8 * 2 ** (J - 1)) for side in (P, Q)]
    # A product of two Gaussians, so that it averages the rows, then the columns; 3.1415 is the filters' scale in
    # the first published programs.
    low[0] /= 2 * 3.1415 * (0.8 * 2 ** (J - 1)) ** 2
    return Bank(
        J,
        P * Q,
        ((top, bottom), (left, right)),
        {
            (j, r): wavelets_of(np.stack([_coarser(f, r) for f in psi[j]]), j - r)
            for j in range(J)
            for r in range(max(j, 1))
        },
        [(_averaging(low[0], r, J).T, _averaging(low[1], r, J).T) for r in range(J)],
    )


def wavelets_of(psi: np.ndarray, octaves: int) -> Wavelets:
    """Returns wavelets from the real spectra psi (L, P, Q)."""
    (A1, k1, sign1, B1), (A2, k2, sign2, B2) = (_waves(side, octaves) for side in psi.shape[1:])
    at = {(a, b): psi[:, (a * k1)[:, :, None, None], b * k2] for a in (1, -1) for b in (1, -1)}
    even, even_ = (at[1, 1] + at[-1, -1]) / 2, (at[1, -1] + at[-1, 1]) / 2
    odd, odd_ = (at[1, 1] - at[-1, -1]) / 2, (at[1, -1] - at[-1, 1]) / 2
    sign1 = sign1[..., None, None]
    filters = (even + even_, sign1 * sign2 * (even - even_), sign1 * (odd + odd_), sign2 * (odd - odd_))
    E, D, F, G = (np.moveaxis(f, 0, -1) / 2 for f in filters)
    return Wavelets((A1, A2), (E, D, F, G), (B1, B2))


def _waves(side: int, octaves: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns one axis: analysis (2 f k, side), waves (f, k), signs of the sines (f, 1), synthesis (side', 2 k)."""
    half = (side >> octaves) // 2
    fold, k = np.arange(2**octaves)[:, None], np.arange(half + 1)
    sign = np.where(fold % 2, -1.0, 1.0)
    frequency = np.where(fold % 2, (fold + 1) * half - k, fold * half + k)
    weight = np.where(frequency % (side // 2), 2.0, 1.0) / side
    weight[1::2, -1] = weight[2::2, 0] = 0.0  # the frequencies where two folds meet count once
    fine = 2 * np.pi / side * frequency[..., None] * np.arange(side)
    analyse = np.stack([np.cos(fine), sign[..., None] * np.sin(fine)]) * weight[..., None]
    coarse = np.pi / half * np.arange(2 * half)[:, None] * k
    return analyse.reshape(-1, side), frequency, sign, np.hstack([np.cos(coarse), np.sin(coarse)])


def wavelet(P: int, Q: int, j: int, L: int, angle: int) -> np.ndarray:
    """Returns the spectrum of psi(u) = g(u) (e^(i xi u) - beta), g an elliptic Gaussian, beta for mean 0."""
    sigma, xi, slant = 0.8 * 2**j, 0.75 * np.pi / 2**j, 4.0 / L
    theta = (int(L - L / 2 - 1) - angle) * np.pi / L
    wave, envelope = np.zeros((P, Q), complex), np.zeros((P, Q))
    for ex in range(-2, 3):  # the circle of a transform of P x Q points
        for ey in range(-2, 3):
            u, v = np.meshgrid(np.arange(P) + ex * P, np.arange(Q) + ey * Q, indexing="ij")
            along, across = u * np.cos(theta) + v * np.sin(theta), v * np.cos(theta) - u * np.sin(theta)
            g = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
            envelope += g
            wave += g * np.exp(1j * xi * along)
    psi = wave - wave.sum() / envelope.sum() * envelope
    return np.fft.fft2(psi).real / (2 * 3.1415 * sigma**2 / slant)


def gaussian(side: int, sigma: float) -> np.ndarray:
    """Returns the spectrum of exp(-u^2 / 2 sigma^2) on a circle of `side` points."""
    u = np.arange(side)[:, None] + side * np.arange(-2, 3)
    return np.fft.fft(np.exp(-(u**2) / (2 * sigma**2)).sum(1)).real


def _coarser(f: np.ndarray, resolution: int) -> np.ndarray:
    """Returns a spectrum on every 2^resolution-th pixel: low frequencies of all axes, without the highest ones left."""
    for axis, side in enumerate(f.shape):
        kept = np.ones(side, bool)
        start, width = int(side * 2.0 ** (-resolution - 1)), int(side * (1 - 2.0**-resolution))
        kept[start : start + width] = False
        f = np.where(np.expand_dims(kept, [a for a in range(f.ndim) if a != axis]), f, 0.0)
        shape = (*f.shape[:axis], 2**resolution, side >> resolution, *f.shape[axis + 1 :])
        f = f.reshape(shape).sum(axis)
    return f


def _averaging(low: np.ndarray, resolution: int, J: int) -> np.ndarray:
    """Returns a matrix (side', h'): circular convolution with the low pass, every 2^(J - resolution)-th point but the
    ends.
    """
    kernel = np.fft.ifft(_coarser(low, resolution)).real
    u = np.arange(len(kernel))
    return kernel[(u[None, :] - u[:, None]) % len(kernel)][:, :: 2 ** (J - resolution)][:, 1:-1]
