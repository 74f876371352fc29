"""What several commands say of their arguments."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dpdistill.schema import DataError

SOURCES = "IDX or CIFAR folder or file, .npz, folder of class folders, CSV of file,label, digits:train."
MAX_SEED = 2**32 - 1

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]

METHODS = (
    *("dos", "decoupled-kip", "dos-kip", "dp-kip", "dp-merf", "dp-hp", "dp-ntk", "ndpdc", "ldpdc", "dp-sgd"),
    *("dm", "kip"),
)
"""Names of the methods as dpdistill.methods lists them, which takes JAX to import."""
WITHOUT_PRIVACY = ("dm", "kip")
"""Those that have no private form."""


def check_method(name: str | None) -> None:
    """Refuse a name that is no method's, without waiting for JAX.

    Raises:
        DataError: with the names that are.
    """
    loaded = sys.modules.get("dpdistill.methods")  # where a caller may have added a method of his own
    known = METHODS if loaded is None else loaded.METHODS
    if name is not None and name not in known:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(known)}.")
