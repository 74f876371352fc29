"""Speed of the scattering transform compared with a plain FFT cascade and, if installed, Kymatio's JAX front end.

python benchmarks/scattering.py [--data FOLDER] [--turns 7] [--chunk 20]

All transforms are timed in turn, in one process, so that ratios are meaningful on a busy machine. A ratio is the median
over the turns of (other time / our time) in the same turn. The others get the images in chunks. Ours gets all at once,
and 32 at a time mapped record by record, as in the private room. FOLDER holds train-images-idx3-ubyte[.gz].
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.features.scattering import ScatterNet
from dpdistill.features.wavelets import gaussian, wavelet


def plain(h: int, w: int, J: int = 2, L: int = 8) -> Callable[[Array], Array]:
    """Scattering by its formula, a full-resolution FFT each way for every path; equal to ours up to aliasing."""
    P, Q = (((side + 2**J) // 2**J + 1) * 2**J for side in (h, w))
    pad = [((side - n) // 2, (side - n + 1) // 2) for side, n in ((P, h), (Q, w))]
    scale = 0.8 * 2 ** (J - 1)
    low = np.outer(gaussian(P, scale), gaussian(Q, scale)).astype(np.float32) / (2 * 3.1415 * scale**2)
    psi = [np.stack([wavelet(P, Q, j, L, a) for a in range(L)]).astype(np.float32) for j in range(J)]

    def modulus(X: Array, f: np.ndarray) -> Array:
        V = jnp.fft.ifft2(X[..., None, :, :] * f)
        squares = jnp.square(V.real) + jnp.square(V.imag)
        return jnp.where(squares > 0, jnp.sqrt(jnp.where(squares > 0, squares, 1.0)), 0.0)

    def average(X: Array) -> Array:
        S = jnp.fft.ifft2(X * low).real[..., :: 2**J, :: 2**J][..., 1:-1, 1:-1]
        return S.reshape(len(S), -1, *S.shape[-2:])

    def transform(x: Array) -> Array:
        X = jnp.fft.fft2(jnp.pad(x, [(0, 0), *pad], mode="reflect"))
        S, deeper = [average(X)], []
        for j1 in range(J):
            U = jnp.fft.fft2(modulus(X, psi[j1]))
            S.append(average(U))
            deeper += [average(jnp.fft.fft2(modulus(U, psi[j2]))) for j2 in range(j1 + 1, J)]
        return jnp.concatenate([*S, *deeper], 1)

    return transform


def kymatio(h: int, w: int) -> Callable[[Array], Array] | None:
    try:
        from kymatio.jax import Scattering2D  # type: ignore[import-not-found]
    except ImportError:
        return None
    scattering = Scattering2D(J=2, shape=(h, w), L=8)
    return lambda x: scattering(x)


def gradient(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return jax.grad(lambda x: jnp.sum(jnp.square(function(x))))


def seconds(function: Callable[[Array], Array], x: Array, chunk: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready([function(x[i : i + chunk]) for i in range(0, len(x), chunk)])
    return time.perf_counter() - start


def compare(title: str, x: Array, chunk: int, turns: int) -> None:
    """Times both transforms on x (n, h, w), grey images; each colour channel counts as an image."""
    n, h, w = x.shape
    net = ScatterNet()

    def ours(x: Array) -> Array:
        return net.maps(x[..., None])[:, 0]

    others = {"plain cascade": plain(h, w), "Kymatio, JAX": kymatio(h, w)}
    for name, other in others.items():
        if other:
            difference = np.abs(np.asarray(ours(x[:4])) - np.asarray(other(x[:4]))).max()
            print(f"{title}: largest difference to {name}: {difference:.1e}")
    runs = {("ours", "forward"): (jax.jit(ours), n), ("ours", "forward and backward"): (jax.jit(gradient(ours)), n)}
    runs["ours, 32 records mapped", "forward"] = (jax.jit(jax.vmap(lambda record: ours(record[None])[0])), 32)
    for name, other in others.items():
        if other:
            runs[name, "forward"] = jax.jit(other), chunk
            runs[name, "forward and backward"] = jax.jit(gradient(other)), chunk
    for function, size in runs.values():
        seconds(function, x, size)
    times = {key: [] for key in runs}
    for _ in range(turns):
        for key, (function, size) in runs.items():
            times[key].append(seconds(function, x, size))
    for (name, what), t in times.items():
        ratio = statistics.median(a / b for a, b in zip(t, times["ours", what], strict=True))
        print(f"  {what:21s} {name:24s} {statistics.median(t) / n * 1e3:7.3f} ms an image, {ratio:5.2f} x ours")


def digits(folder: Path, n: int) -> np.ndarray:
    path = next(p for p in (folder / f"train-images-idx3-ubyte{end}" for end in ("", ".gz")) if p.exists())
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return np.frombuffer(content, np.uint8, n * 28 * 28, 16).reshape(n, 28, 28) / np.float32(255)


def main(data: str | None, turns: int, chunk: int = 20) -> None:
    """Print all comparisons."""
    rng = np.random.default_rng(0)
    grey = digits(Path(data), 500) if data else rng.random((500, 28, 28), np.float32)
    compare("500 images of 28 x 28", jnp.asarray(grey), chunk, turns)
    colour = rng.random((200 * 3, 32, 32), np.float32)
    compare("200 images of 32 x 32 x 3, a colour each", jnp.asarray(colour), chunk, turns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--chunk", type=int, default=20)
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}, {jax.default_backend()}; median of {options.turns} turns")
    main(options.data, options.turns, options.chunk)
