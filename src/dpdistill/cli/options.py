"""What several commands say of their arguments."""

from __future__ import annotations

from typing import Annotated

import typer

SOURCES = "IDX or CIFAR folder or file, .npz, folder of class folders, CSV of file,label, digits:train."
MAX_SEED = 2**32 - 1

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A folder that distill wrote.")]
