"""The public folder appears whole, and is told apart from what a killed run left behind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dpdistill.folder.layout import CERTIFICATE, FINISHED, IMAGES, LISTED, UNLISTED, owner_folder, sha256
from dpdistill.folder.save import check_output
from dpdistill.run.checkpoint import write_synced
from dpdistill.schema import DataError
from dpdistill.storage.atomic import remove_unfinished

_HANDING_OVER = "handing-over"


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
        remove_unfinished(path)
        return path
    target = path.with_name(path.name + ".partial")
    if target.exists():
        _remove(target)
    return target


def ends(path: Path, run_dir: Path | None) -> bool:
    """Ends the handover of a run that was stopped after its last step but one: the whole result is there already.

    To write it again in its place would begin by removing what shows that it is this run's.

    Returns:
        Whether the folder holds the whole result of this run.
    """
    if run_dir is None or not _handed_over(path, run_dir):
        return False
    for owner in {run_dir, owner_folder(path)}:
        if (owner / _HANDING_OVER).exists():
            os.replace(owner / _HANDING_OVER, owner / FINISHED)
    return True


def hand_over(target: Path, path: Path, run_dir: Path | None) -> None:
    """Give what was written its name, and note its certificate in the owner's folder, where the run is finished now.

    The note, a SHA-256 a line, is of every result that the run has handed over. A result from elsewhere that takes the
    place of a run's own is noted there too.
    """
    owners = set() if run_dir is None else {run_dir.resolve()}
    if (owner_folder(path) / FINISHED).exists():
        owners.add(owner_folder(path))
    for owner in owners:
        earlier = (owner / FINISHED).read_bytes() if (owner / FINISHED).exists() else b""
        write_synced(owner / _HANDING_OVER, earlier + _note(target))
    if target != path:
        if path.exists():
            path.rmdir()
        os.replace(target, path)
    for owner in owners:
        os.replace(owner / _HANDING_OVER, owner / FINISHED)


def _handed_over(folder: str | os.PathLike, run_dir: Path | None = None) -> bool:
    """The folder holds the very result that a run was handing over when it was stopped, by default that beside it."""
    try:
        path = Path(folder).resolve()
        return ((run_dir or owner_folder(path)) / _HANDING_OVER).read_bytes().endswith(_note(path))
    except (OSError, RuntimeError, ValueError):
        return False


def _note(folder: Path) -> bytes:
    return f"{sha256(folder / CERTIFICATE)}\n".encode()


def _remove(partial: Path) -> None:
    """Remove what a killed run left, and nothing else."""
    names = {name for name in os.listdir(partial) if not name.startswith(".")} if partial.is_dir() else {""}
    if names - {*LISTED, *UNLISTED, IMAGES}:
        raise DataError(f"{partial} is in the way: move it, then give the same command again.")
    shutil.rmtree(partial)
