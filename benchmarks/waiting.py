"""Seconds that a person waits: python benchmarks/waiting.py [--against PYTHON] [--only plan].

Runs each command twice with an empty cache folder of its own, so that the second start finds compiled programs. With
--against, an interpreter of another checkout runs the same commands in turn; the last column is the ratio of the sums
of processor time. Images are made here: a random pattern per class, with noise.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

IMAGES = {"scans": (2297, 32, 1, 4), "small": (300, 32, 1, 4), "middle": (300, 64, 3, 4), "large": (300, 224, 3, 4)}
"""Number of images, pixels a side, channels and classes of each file."""
RUN = ("--method", "decoupled-kip", "--set", "rounds=10", "--set", "steps=20", "--epsilon", "4", "--overwrite")
COMMANDS = {
    "help": ("--help",),
    "refusal": ("distill", "missing", "--out", "x"),
    "demo": ("demo", "--overwrite"),
    "plan, 2,297 of 32 x 32": ("plan", "scans.npz"),
    "plan, 300 of 64 x 64": ("plan", "middle.npz"),
    "plan, 300 of 224 x 224": ("plan", "large.npz"),
    "distill, 300 of 32 x 32": ("distill", "small.npz", "--out", "small", *RUN),
    "distill, 300 of 64 x 64": ("distill", "middle.npz", "--out", "middle", *RUN),
    "evaluate, one network, 32 x 32": ("evaluate", "small", "--test", "small.npz", "--nets", "1"),
    "evaluate, one network, 64 x 64": ("evaluate", "middle", "--test", "middle.npz", "--nets", "1"),
    "verify": ("verify", "small"),
    "verify of a wrong folder": ("verify", "missing"),
}
"""Commands in order: later ones use the results of earlier ones."""


def write_images(folder: Path) -> None:
    """Writes the files of IMAGES: uint8, each class a random coarse pattern with noise."""
    rng = np.random.default_rng(0)
    for name, (n, side, channels, classes) in IMAGES.items():
        y = np.arange(n) % classes
        patterns = rng.uniform(0, 255, (classes, 4, 4, channels)).repeat(side // 4, 1).repeat(side // 4, 2)
        X = np.clip(patterns[y] + rng.normal(0, 40, (n, side, side, channels)), 0, 255).astype(np.uint8)
        np.savez(folder / f"{name}.npz", X=X, y=y, classes=np.array(list("abcd")[:classes]), bounds=[0.0, 255.0])


def waited(python: str, command: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Returns seconds on the clock and of processors that a command takes in a folder."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run(
        [python, "-m", "dpdistill", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
        timeout=3600,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begun, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--against", help="interpreter of another checkout's virtual environment")
    parser.add_argument("--only", default="", help="commands whose names contain this text, and those before they need")
    given = parser.parse_args()
    pythons = [sys.executable, *([given.against] if given.against else [])]
    print("| command | wall s | CPU s | CPU s, second start |" + (" other CPU s | ratio |" if given.against else ""))
    print("|---|---|---|---|" + ("---|---|" if given.against else ""))
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(i) for i in range(len(pythons))]
        for folder in folders:
            folder.mkdir()
            write_images(folder)
        for name, command in COMMANDS.items():
            if given.only not in name and command[0] != "distill":
                continue
            found = [
                [waited(python, command, folder) for _ in range(2)]
                for python, folder in zip(pythons, folders, strict=True)
            ]
            (wall, cpu), (_, again) = found[0]
            row = f"| {name} | {wall:.1f} | {cpu:.1f} | {again:.1f} |"
            for other in found[1:]:
                total = sum(cpu for _, cpu in other)
                row += f" {other[0][1]:.1f} | {total / (cpu + again):.1f} |"
            print(row, flush=True)


if __name__ == "__main__":
    main()
