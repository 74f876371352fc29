"""Cards of encoders: the public facts that a person states of an ONNX file, and where such files lie.

An encoder is known by the SHA-256 of its file. `DPDISTILL_ENCODERS` names folders of files with cards; a file that is
named by its path is linked in the user's cache, so that later commands and worker processes find it by its hash.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpdistill.encoders.onnx_file import MOST_BYTES
from dpdistill.errors import DataError
from dpdistill.storage.atomic import write_atomically
from dpdistill.storage.user_cache import user_cache

VARIABLE = "DPDISTILL_ENCODERS"
ENDING, CARD = ".onnx", ".card.yaml"
TEXTS = ("source", "licence", "training_data", "declared_by")
KEYS = ("name", "size", "mean", "scale", "outputs", *TEXTS)
"""Fields of a card; `sha256` may be stated, too, and is then compared."""
MOST_CARD = 2**16


def read_named(name: str) -> dict[str, Any]:
    """Returns the facts of an encoder by the name or the path of its file, or of a folder with one such file.

    Args:
        name: FILE.onnx with FILE.card.yaml next to it, a folder that holds both, or the name of a file without .onnx in
            a folder of DPDISTILL_ENCODERS.

    Raises:
        DataError: no such file, or a card that does not state every fact.
    """
    given = Path(name)
    places = [given] if given.suffix == ENDING or os.sep in name else []
    places += [folder / f"{name}{ENDING}" for folder in _folders()] if not places else []
    for place in places:
        files = sorted(place.glob(f"*{ENDING}")) if place.is_dir() else [place] if place.is_file() else []
        if len(files) > 1:
            raise DataError(f"Expected one {ENDING} file in {place.name}; got {len(files)}: name the file.")
        if files:
            return _facts(files[0])
    raise DataError(
        f"Expected an encoder: FILE{ENDING} with its card FILE{CARD}, or the name of such a file in the folder that "
        f"{VARIABLE} names; {name!r} is neither."
    )


def _facts(file: Path) -> dict[str, Any]:
    stated, sha256 = _card(file), digest(file)
    if stated.pop("sha256", sha256) != sha256:
        raise DataError(f"The card of {file.name} states another sha256 than the file has, {sha256}.")
    link = _cached(sha256)
    if file.resolve() != link.resolve():
        with suppress(OSError):  # without the link, the file is found only below DPDISTILL_ENCODERS
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(file.resolve())
    lists = {key: tuple(stated[key]) for key in ("mean", "scale", "outputs")}
    numbers = {key: tuple(float(number) for number in lists[key]) for key in ("mean", "scale")}
    return {**stated, **lists, **numbers, "sha256": sha256}


def _card(file: Path) -> dict[str, Any]:
    import yaml  # imported here because most runs have no encoder

    card = file.with_name(file.name.removesuffix(ENDING) + CARD)
    try:
        content = card.read_bytes()
        stated = yaml.safe_load(content) if len(content) <= MOST_CARD else None
    except OSError:
        raise DataError(f"Expected the card {card.name} next to {file.name}, with {', '.join(KEYS)}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        stated = None
    if not isinstance(stated, dict):
        raise DataError(f"Expected YAML in {card.name}, with {', '.join(KEYS)}.")
    if missing := [key for key in KEYS if key not in stated]:
        raise DataError(f"Expected {', '.join(missing)} in {card.name}.")
    if unknown := [key for key in stated if key not in (*KEYS, "sha256")]:
        raise DataError(f"Expected {', '.join(KEYS)} in {card.name}; got {unknown[0]!r}.")
    for key, kinds in (("mean", int | float), ("scale", int | float), ("outputs", str)):
        if not isinstance(stated[key], list) or not all(isinstance(each, kinds) for each in stated[key]):
            raise DataError(f"Expected {key} in {card.name} as a list; got {stated[key]!r:.80}.")
    return stated


def read_by_hash(sha256: str, name: str) -> bytes:
    """Returns the content of an encoder's file.

    Args:
        sha256: hash of the file.
        name: name of the encoder, for the error.

    Raises:
        DataError: no file of this hash where files of encoders lie.
    """
    if file := file_by_hash(sha256):
        return file.read_bytes()
    if content := _converted(sha256):
        _keep(sha256, content)
        return content
    raise DataError(
        f"Expected the file of the encoder {name} (sha256 {sha256}) on this machine: put it into the folder that "
        f"{VARIABLE} names, or name it once with --encoder."
    )


def file_by_hash(sha256: str) -> Path | None:
    """Returns the file with this hash where files of encoders lie; None if there is none.

    Raises:
        DataError: a file there that cannot be read.
    """
    places = [_cached(sha256), *(file for folder in _folders() for file in sorted(folder.glob(f"*{ENDING}")))]
    return next((file for file in places if file.is_file() and digest(file) == sha256), None)


def _converted(sha256: str) -> bytes | None:
    """Returns the file that is made from an installed package; None if it has another hash."""
    from dpdistill.encoders import efficientnet_lite0

    for folder in sys.path:
        weights = Path(folder or ".") / efficientnet_lite0.FILE
        if not weights.is_file() or digest(weights) != efficientnet_lite0.WEIGHTS:
            continue
        content = efficientnet_lite0.convert(weights.read_bytes())
        return content if hashlib.sha256(content).hexdigest() == sha256 else None
    return None


def _keep(sha256: str, content: bytes) -> None:
    """Writes a converted file into the user's cache, if it can be written."""
    with suppress(OSError):
        _cached(sha256).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_cached(sha256), lambda file: file.write(content))


def _folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]


def _cached(sha256: str) -> Path:
    return user_cache() / "encoders" / f"{sha256}{ENDING}"


def digest(file: Path) -> str:
    """Returns the SHA-256 of a file, which is read once as long as it does not change.

    Raises:
        DataError: the file cannot be read, or is larger than any encoder.
    """
    try:
        about = file.stat()
        if about.st_size > MOST_BYTES:
            raise DataError(f"Expected {file.name} of at most 2 GiB; got {about.st_size / 2**30:.1f} GiB.")
        return _digest(file, about.st_size, about.st_mtime_ns, about.st_ino)
    except OSError as error:
        raise DataError(f"{file.name} cannot be read: {error.strerror or 'input/output error'}.") from None


@lru_cache(maxsize=64)
def _digest(file: Path, *_: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
