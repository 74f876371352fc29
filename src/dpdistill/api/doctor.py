"""Examines the machine, before anything is paid on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpdistill.machine.finding import Diagnosis


def doctor(folder: str | os.PathLike = ".") -> Diagnosis:
    """Examines a machine and a folder on it, like the command `dpdistill doctor`.

    Args:
        folder: existing folder in which results and ledgers would lie. A hidden folder is written there and removed.

    Returns:
        The findings: versions, entropy, clock, devices, extras, and the folder's space, locks, ledgers and permissions.
        `passed` is True if nothing is refused or unsafe.

    Example:
        >>> doctor().passed
        True
    """
    from dpdistill.errors import EXTRAS
    from dpdistill.machine.disk import check_folder
    from dpdistill.machine.finding import Diagnosis
    from dpdistill.machine.system import check_clock, check_devices, check_entropy, check_extras, check_versions

    machine = (*check_versions(), check_entropy(), check_clock(), check_devices(), check_extras(EXTRAS))
    return Diagnosis((*machine, *check_folder(Path(folder))))
