"""Writes the public folder atomically and recognises remains of a killed run."""

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
    """Tests, without writing, that a result can be saved in a folder; a run that was killed after saving may resume.

    Returns:
        (absolute path, whether existing contents may be replaced).

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
    """Returns a temporary folder next to the final one, in which the result is written."""
    if path.exists() and any(path.iterdir()):
        remove_unfinished(path)
        return path
    target = path.with_name(path.name + ".partial")
    if target.exists():
        _remove(target)
    return target


def ends(path: Path, run_dir: Path | None) -> bool:
    """Finishes publishing for a run that was killed before its last step, if its result is complete.

    Writing the result again would first remove the proof that it belongs to this run.

    Returns:
        True if the folder holds the complete result of this run.
    """
    if run_dir is None or not _handed_over(path, run_dir):
        return False
    for owner in {run_dir, owner_folder(path)}:
        if (owner / _HANDING_OVER).exists():
            os.replace(owner / _HANDING_OVER, owner / FINISHED)
    return True


def hand_over(target: Path, path: Path, run_dir: Path | None) -> None:
    """Renames the temporary folder to its final name, and notes its certificate in the owner's folder.

    The note has one SHA-256 per line, for every result that the run published. A result from elsewhere that replaces
    the run's own result is noted, too.
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
    """Returns whether the folder holds the result that a run was publishing when it was killed."""
    try:
        path = Path(folder).resolve()
        return ((run_dir or owner_folder(path)) / _HANDING_OVER).read_bytes().endswith(_note(path))
    except (OSError, RuntimeError, ValueError):
        return False


def _note(folder: Path) -> bytes:
    return f"{sha256(folder / CERTIFICATE)}\n".encode()


def _remove(partial: Path) -> None:
    """Removes the temporary folder of a killed run, and no other folder."""
    names = {name for name in os.listdir(partial) if not name.startswith(".")} if partial.is_dir() else {""}
    if names - {*LISTED, *UNLISTED, IMAGES}:
        raise DataError(f"{partial} is no temporary folder of this program: move it, then run the same command again.")
    shutil.rmtree(partial)
