"""Speed of stage 1, of the noise and of the calibration, as ratios or units that are meaningful on a busy machine.

python benchmarks/speed.py [--width 64] [--records 2048]
"""

from __future__ import annotations

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.ledger.run import RunLedger
from dpdistill.methods.matching import EmbeddingQuery, network
from dpdistill.networks.convnet import depth_for, embed_convnet, first_padding, init_convnet
from dpdistill.private.curator import Curator
from dpdistill.private.noise import SystemEntropy, rounded_gaussian
from dpdistill.programs import clipping
from dpdistill.query import Compute, Stage
from dpdistill.storage.records import Records

SHAPE = (28, 28, 1)
ON_CPU = jax.default_backend() == "cpu"
CHUNKS = (8, 16, 32, 64, 128) if ON_CPU else (16, 64, 128, 256, 1024, 4096)
MATRIX = 2048 if ON_CPU else 8192
"""Rows and columns of the product that stands for what the machine can do, in the precision of the programs."""


def flops(shape: tuple[int, ...], width: int) -> float:
    """Multiply-adds of the convolutions of one record, counted twice."""
    side, channels, total = shape[0] + 2 * (first_padding(shape) - 1), shape[2], 0
    for _ in range(depth_for(shape)):
        total += 2 * 9 * channels * width * side * side
        side, channels = side // 2, width
    return float(total)


def seconds(run, *args) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run(*args))
    return time.perf_counter() - start


def forward(width: int, records: int, turns: int) -> None:
    """Compares the forward pass with a large matrix product, in turn."""
    key = jax.random.key(0)
    A = jax.random.normal(key, (MATRIX, MATRIX))
    product, embed = jax.jit(lambda a: a @ a), jax.jit(embed_convnet)
    blocks = init_convnet(key, SHAPE, width)
    print(f"forward pass, width {width}: {flops(SHAPE, width) / 1e6:.1f} MFLOP a record; median of {turns} turns")
    for chunk in (each for each in CHUNKS if each <= records):
        X = jax.random.normal(key, (chunk, *SHAPE))

        def sweep(blocks=blocks, X=X, chunk=chunk):
            return [embed(blocks, X) for _ in range(records // chunk)]

        jax.block_until_ready((product(A), sweep()))
        ratios, rates = [], []
        for _ in range(turns):
            peak = 2 * MATRIX**3 * 4 / sum(seconds(product, A) for _ in range(4))
            rate = flops(SHAPE, width) * (records // chunk * chunk) / seconds(sweep)
            ratios.append(rate / peak)
            rates.append(rate)
        print(f"  chunk {chunk:4d}: {statistics.median(rates) / 1e9:8.1f} GFLOP/s, "
              f"{100 * statistics.median(ratios):5.1f} % of the product's")  # fmt: skip


def share(width: int, records: int, turns: int) -> None:
    """Share of the forward pass in a round."""
    data = np.random.default_rng(0).integers(0, 256, (records, 28, 28)).astype(np.uint8)
    private = Records.from_arrays(data, np.arange(records) % 10, classes=10)
    schedule = calibrate((Stage(turns + 1),), Budget(1.0))
    ledger = RunLedger.open(":memory:", {}, schedule, b"benchmark")
    curator, query = Curator(private, schedule, ledger), EmbeddingQuery(1.0, 0.1)
    params = {**network(jax.random.key(0), 0, SHAPE, width), "centre": jnp.zeros(16 * width)}
    embed, chunk = jax.jit(embed_convnet), Compute().chunk
    X = jax.random.normal(jax.random.key(0), (chunk, *SHAPE))

    def sweep():
        return [embed(params["blocks"], X) for _ in range(records // chunk)]

    jax.block_until_ready(sweep())
    curator.release(0, query, params)
    shares, rounds = [], []
    for t in range(1, turns + 1):
        alone = seconds(sweep)
        rounds.append(seconds(lambda t=t: curator.release(t, query, params).value))
        shares.append(alone / rounds[-1])
    print(
        f"share of the forward pass in a round of stage 1, chunks of {chunk}: {100 * statistics.median(shares):.0f} %"
    )
    print(f"stage 1: {records / statistics.median(rounds):,.0f} images per second")


def noise_and_calibration(turns: int) -> None:
    entropy, n = SystemEntropy(), 1_000_000
    times = [seconds(rounded_gaussian, n, 2.0**20, entropy) for _ in range(turns)]
    print(f"noise: {statistics.median(times) / n * 1e9:.0f} ns a number")
    for adjacency in ("add-remove", "replace-one"):
        took = seconds(lambda a=adjacency: calibrate((Stage(10_000, 0.01),), Budget(1.0, 1e-5, a)).noise_multipliers)
        print(f"calibration of 10,000 Poisson rounds, {adjacency}: {took:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--records", type=int, default=2048)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    print(f"device: {jax.devices()[0].device_kind}, {jax.default_backend()}")
    with clipping.as_tested():
        forward(options.width, options.records, options.turns)
        share(options.width, options.records, options.turns)
    noise_and_calibration(options.turns)
