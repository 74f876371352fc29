"""Seconds that `plan` forecasts, and seconds that the run takes: python benchmarks/forecasts.py [--only dp-kip].

Twenty commands on images and a table that are made here. Each run has a cache folder of its own with the measured
speed of the machine and without compiled programs, so that it compiles everything, as the forecast assumes. Both are
seconds on the clock: on a machine that does other work the runs take longer than forecast.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from waiting import write_images

SETS = {"colour": (1000, 28, 28, 3, 4), "odd": (500, 37, 29, 1, 2)}
"""Number of images, height, width, channels and classes of files beside those of waiting.py."""
SCHEMA = """dpdistill: table schema
reviewed: true
unit: row
label: sick
classes: ['no', 'yes']
columns:
  - {name: age, kind: integer, bounds: [0, 100]}
  - {name: income, kind: numeric, bounds: [-20, 80]}
  - {name: ward, kind: categorical, categories: [A, B, C, D]}
"""
TABLE = ("table.csv", "--schema", "schema.yaml")
COMMANDS = {
    "dos-kip, default, 300 of 32 x 32": ("small.npz",),
    "dos-kip, default, 2,297 of 32 x 32": ("scans.npz",),
    "decoupled-kip, default, 300 of 32 x 32": ("small.npz", "decoupled-kip"),
    "decoupled-kip, 20 rounds, 50 steps, 2,297 of 32 x 32": ("scans.npz", "decoupled-kip", "rounds=20", "steps=50"),
    "decoupled-kip, 10 rounds, 20 steps, 300 of 64 x 64 x 3": ("middle.npz", "decoupled-kip", "rounds=10", "steps=20"),
    "decoupled-kip, 10 rounds, 20 steps, 300 of 224 x 224 x 3": ("large.npz", "decoupled-kip", "rounds=10", "steps=20"),
    "decoupled-kip, 20 rounds, 50 steps, 500 of 37 x 29": ("odd.npz", "decoupled-kip", "rounds=20", "steps=50"),
    "dos, 10 networks, 100 steps, 300 of 32 x 32": ("small.npz", "dos", "networks=10", "steps=100"),
    "dos, 10 networks, 100 steps, 1,000 of 28 x 28 x 3": ("colour.npz", "dos", "networks=10", "steps=100"),
    "dp-kip, 10 rounds, 300 of 32 x 32": ("small.npz", "dp-kip", "rounds=10"),
    "dp-kip, 50 rounds, 2,297 of 32 x 32": ("scans.npz", "dp-kip", "rounds=50"),
    "dp-kip, 10 rounds, 1,000 of 28 x 28 x 3": ("colour.npz", "dp-kip", "rounds=10"),
    "dp-ntk, 300 of 32 x 32": ("small.npz", "dp-ntk"),
    "dp-merf, 2,297 of 32 x 32": ("scans.npz", "dp-merf"),
    "dp-hp, 2,297 of 32 x 32": ("scans.npz", "dp-hp"),
    "psg, 300 of 32 x 32": ("small.npz", "psg"),
    "ndpdc, 300 of 32 x 32": ("small.npz", "ndpdc"),
    "dp-merf, table of 5,000": (*TABLE, "dp-merf"),
    "dp-hp, table of 5,000": (*TABLE, "dp-hp"),
    "dp-ntk, table of 5,000": (*TABLE, "dp-ntk"),
}


def write_files(folder: Path) -> None:
    """Writes the images, the table and its schema."""
    write_images(folder)
    rng = np.random.default_rng(1)
    for name, (n, height, width, channels, classes) in SETS.items():
        y = np.arange(n) % classes
        X = np.clip(40.0 * y[:, None, None, None] + rng.normal(80, 40, (n, height, width, channels)), 0, 255)
        np.savez(
            folder / f"{name}.npz",
            X=X.astype(np.uint8),
            y=y,
            classes=np.array(list("abcd")[:classes]),
            bounds=[0.0, 255.0],
        )
    rows = zip(rng.integers(18, 90, 5000), rng.normal(40, 12, 5000), rng.choice(list("ABCD"), 5000), strict=True)
    lines = [f"{age},{income:.1f},{ward},{'yes' if age > 60 else 'no'}" for age, income, ward in rows]
    (folder / "table.csv").write_text("\n".join(["age,income,ward,sick", *lines]) + "\n", encoding="utf-8")
    (folder / "schema.yaml").write_text(SCHEMA, encoding="utf-8")


def options(command: tuple[str, ...]) -> list[str]:
    """Returns the arguments of a command: its data, then the method, then the fields of the recipe."""
    data, rest = (list(TABLE), command[3:]) if command[0] == TABLE[0] else ([command[0]], command[1:])
    method = ["--method", rest[0]] if rest else []
    return [*data, *method, *(word for field in rest[1:] for word in ("--set", field))]


def called(folder: Path, cache: str, *words: str) -> tuple[float, Any]:
    """Returns the seconds of a command, and what it prints as JSON."""
    begun = time.monotonic()
    found = subprocess.run(
        [sys.executable, "-m", "dpdistill", *words, "--json"],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / cache)},
        capture_output=True,
        check=False,
        text=True,
    )
    if found.returncode:
        raise SystemExit(f"dpdistill {' '.join(words)} failed:\n{found.stderr}")
    return time.monotonic() - begun, json.loads(found.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--only", default="", help="commands whose names contain this text")
    given, ratios = parser.parse_args(), []
    print("| command | forecast s | run s | ratio | plan s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_files(folder)
        called(folder, "measured", "plan", "small.npz")
        shutil.rmtree(folder / "measured" / "dpdistill" / "programs", ignore_errors=True)
        for name, command in COMMANDS.items():
            if given.only not in name:
                continue
            shutil.copytree(folder / "measured", folder / "cache")
            planned, plan = called(folder, "cache", "plan", *options(command))
            shutil.rmtree(folder / "cache")
            shutil.copytree(folder / "measured", folder / "cache")
            taken, _ = called(folder, "cache", "distill", *options(command), "--out", "out", "--overwrite")
            shutil.rmtree(folder / "cache")
            seconds = plan["seconds"]["together"]
            ratios.append(taken / seconds)
            print(f"| {name} | {seconds:.0f} | {taken:.0f} | {ratios[-1]:.2f} | {planned:.0f} |", flush=True)
    within = sum(0.5 <= ratio <= 2 for ratio in ratios)
    print(f"\n{within} of {len(ratios)} within a factor of two, median {np.median(ratios):.2f}.")


if __name__ == "__main__":
    main()
