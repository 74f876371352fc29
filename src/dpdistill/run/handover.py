"""The public folder appears whole, and is told apart from what a killed run left behind."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from dpdistill.certificate.build import CERTIFICATE
from dpdistill.data import check_output
from dpdistill.run.store import write_synced
from dpdistill.schema import DataError

FINISHED = "finished"
_HANDING_OVER = "handing-over"
_WRITTEN = {
    *("synthetic.npz", "training.npz", "classifier.npz", "generator.npz", "synthetic.png", "images"),
    *("synthetic.csv", "synthetic.parquet", "schema.yaml"),
    *("recipe.json", CERTIFICATE, "report.html"),
}


def owner_folder(folder: Path) -> Path:
    """The owner's folder of the run whose result is in a folder: beside it, DIR.run."""
    return folder.with_name(folder.name + ".run")


def output_folder(folder: str | os.PathLike, overwrite: bool = False) -> tuple[Path, bool]:
    """Tests, without writing, that a result can be saved there; a run killed right after it was saved may go on.

    Returns:
        (absolute path, whether what is there may be replaced).

    Raises:
        DataError: the folder cannot be used.
    """
    try:
        return check_output(folder, overwrite), overwrite
    except DataError:
        if overwrite or not _handed_over(folder):
            raise
    return check_output(folder, overwrite=True), True


def start(path: Path) -> Path:
    """Where to write: beside a new folder, in place of an earlier result."""
    if path.exists() and any(path.iterdir()):
        for left in (*path.rglob(".*.part"), *path.glob(".report.html.*"), *path.glob(f"{CERTIFICATE}.new")):
            left.unlink()
        return path
    target = path.with_name(path.name + ".partial")
    if target.exists():
        _remove(target)
    return target


def hand_over(target: Path, path: Path, run_dir: Path | None) -> None:
    """Give what was written its name, and note in the owner's folder that the run is finished."""
    if run_dir is not None:
        write_synced(run_dir / _HANDING_OVER, _digest(target))
    if target != path:
        if path.exists():
            path.rmdir()
        os.replace(target, path)
    if run_dir is not None:
        os.replace(run_dir / _HANDING_OVER, run_dir / FINISHED)


def _handed_over(folder: str | os.PathLike) -> bool:
    """The folder holds the very result that the run beside it was handing over when it was killed."""
    try:
        path = Path(folder).resolve()
        return (owner_folder(path) / _HANDING_OVER).read_bytes() == _digest(path)
    except (OSError, RuntimeError, ValueError):
        return False


def _digest(folder: Path) -> bytes:
    return hashlib.sha256((folder / CERTIFICATE).read_bytes()).hexdigest().encode()


def _remove(partial: Path) -> None:
    """Remove what a killed run left, and nothing else."""
    names = [name for name in os.listdir(partial) if not name.startswith(".")] if partial.is_dir() else [""]
    if any(name.removesuffix(".new") not in _WRITTEN for name in names):
        raise DataError(f"{partial} is in the way: move it, then give the same command again.")
    shutil.rmtree(partial)
