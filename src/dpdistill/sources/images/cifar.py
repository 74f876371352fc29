"""Reads the binary version of CIFAR: label bytes and 3,072 bytes of a planar 32x32 RGB image, plain or gzip."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from dpdistill.schema import DataError
from dpdistill.sources.formats import ImageFormat, of_single_part
from dpdistill.storage.files import head, is_gzip, list_files, plain_first, require_file, require_part, show, unpacking
from dpdistill.storage.growable_array import joined_chunks
from dpdistill.storage.options import NOTHING, Stated
from dpdistill.storage.parsed import Parsed

IMAGE_BYTES = 3 * 32 * 32
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FINE = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm
"""
_COARSE = """
    aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
    insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
    medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""
CIFAR100, CIFAR100_COARSE = tuple(_FINE.split()), tuple(_COARSE.split())
NOTE10 = f"Classes default to those of CIFAR-10 ({', '.join(CIFAR10)}): pass --classes to change."
NOTE100 = "Classes default to the 100 fine classes of CIFAR-100: pass --classes to change."
NOTE100_COARSE = "Classes default to the 20 coarse classes of CIFAR-100: pass --classes to change."

_PARTS = {
    "train": re.compile(r"(data_batch_(\d+)|train)(\.bin)?(\.gz)?", re.IGNORECASE),
    "test": re.compile(r"(test_batch|test)(\.bin)?(\.gz)?", re.IGNORECASE),
}
_CIFAR100 = re.compile(r"(train|test)\.bin(\.gz)?", re.IGNORECASE)
_FOLDER = re.compile(r"(data_batch_\d+|test_batch)(\.bin)?(\.gz)?|(train|test)\.bin(\.gz)?", re.IGNORECASE)
NAMED = re.compile(r".*\.bin(\.gz)?|(data_batch_\d+|test_batch)(\.gz)?", re.IGNORECASE)
"""Names of CIFAR files; files with other names are recognised by their content."""


def holds_cifar(names: list[str]) -> bool:
    """Returns whether a folder with these file names holds CIFAR files."""
    return any(_FOLDER.fullmatch(name) for name in names)


def load_folder(folder: Path, part: str, stated: Stated = NOTHING) -> Parsed:
    """Reads the records of data_batch_* or train.bin (train), or of test_batch or test.bin (test), in numerical order.

    Raises:
        DataError: no file of that part, or a damaged or foreign one.
    """
    require_part(folder, part, _PARTS)
    best: dict[str, str] = {}
    for name in list_files(folder):
        if _FOLDER.fullmatch(name) and (match := _PARTS[part].fullmatch(name)):
            stem = match.group(1).lower()
            best[stem] = min(best.get(stem, name), name, key=plain_first)
    if not best:
        names = "data_batch_*.bin or train.bin" if part == "train" else "test_batch.bin or test.bin"
        raise DataError(f"{show(folder)} has no CIFAR file of the {part} part ({names}).")
    batches = [stem for stem in best if stem.startswith(("data_batch", "test_batch"))]
    stems = sorted(batches or best, key=lambda stem: (len(stem), stem))
    parts = [load_file(folder / best[stem], stated) for stem in stems]
    if len(parts) == 1:
        return parts[0]
    if len({p.classes for p in parts}) > 1:
        raise DataError(f"{show(folder)} mixes files of CIFAR-10 and CIFAR-100.")
    return replace(parts[0], parts=chain(*(p.parts for p in parts)), whole=None)


def load_file(path: Path, stated: Stated = NOTHING) -> Parsed:
    """Reads one CIFAR file, memory-mapped unless gzip: X (n, 32, 32, 3) uint8, y (n,).

    A file named train.bin or test.bin whose size is a multiple of 3,074 is CIFAR-100. Its fine labels are used by
    default, its coarse labels if `stated.labels` is "coarse" or the stated classes are the coarse ones.

    Raises:
        DataError: an incomplete record, or labels that the file does not have.
    """
    content = None if is_plain(path) or not is_gzip(path) else joined_chunks(unpacking(path), stated.memory)
    size = require_file(path) if content is None else len(content)
    fine = is_cifar100(path, size)
    record = IMAGE_BYTES + (2 if fine else 1)
    if content is None and size % record and head(path, 1) == b"\x80":
        raise DataError(f"{show(path)} looks like a Python pickle, which is never loaded: use the binary version.")
    if size == 0 or size % record:
        either = f"{IMAGE_BYTES + 1} (CIFAR-10) or {IMAGE_BYTES + 2} (CIFAR-100)"
        sizes = either if _CIFAR100.fullmatch(path.name) else IMAGE_BYTES + 1
        raise DataError(
            f"{show(path)} is not a CIFAR file: its {size} bytes are not a whole number of records of {sizes} bytes."
        )
    if (
        _CIFAR100.fullmatch(path.name)
        and size % (IMAGE_BYTES + 1) == size % (IMAGE_BYTES + 2) == 0
        and not stated.labels
    ):
        raise DataError(
            f"{show(path)} may be CIFAR-10 or CIFAR-100, by its size: state --labels fine or coarse, or rename it to "
            "data_batch_1.bin if it is CIFAR-10."
        )
    rows = np.memmap(path, np.uint8, mode="r") if content is None else content
    rows = rows.reshape(-1, record)
    X = rows[:, -IMAGE_BYTES:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    classes, note, at = (CIFAR100, NOTE100, 1) if fine else (CIFAR10, NOTE10, 0)
    if stated.labels is not None and (not fine or stated.labels not in ("fine", "coarse")):
        expected = "fine or coarse" if fine else "none, since CIFAR-10 has a single label per image"
        raise DataError(f"Expected labels={stated.labels[:80]!r} of {show(path)} to be {expected}.")
    are_coarse = stated.classes is not None and {*stated.classes} <= {*CIFAR100_COARSE}
    if fine and (stated.labels or ("coarse" if are_coarse else "fine")) == "coarse":
        classes, note, at = CIFAR100_COARSE, NOTE100_COARSE, 0
    return Parsed.of(X, rows[:, at], classes=classes, bounds=(0.0, 255.0), notes=(note,))


def is_plain(path: Path) -> bool:
    """Returns whether a file's name and size are those of an uncompressed CIFAR file."""
    is_named = NAMED.fullmatch(path.name) is not None and not path.name.lower().endswith(".gz")
    return is_named and is_whole(require_file(path))


def is_whole(size: int) -> bool:
    """Returns whether a size in bytes is a whole number of records of CIFAR-10 or CIFAR-100."""
    return size % (IMAGE_BYTES + 1) == 0 or size % (IMAGE_BYTES + 2) == 0


def is_cifar100(path: Path, size: int) -> bool:
    """Returns whether a file's name and size are those of the CIFAR-100 binary version."""
    return _CIFAR100.fullmatch(path.name) is not None and size > 0 and size % (IMAGE_BYTES + 2) == 0


def length(path: Path) -> int:
    """Returns the size of a file in bytes, unpacked if gzip."""
    return sum(map(len, unpacking(path))) if is_gzip(path) else require_file(path)


def _holds_file(path: Path) -> bool:
    return is_plain(path) or (NAMED.fullmatch(path.name) is not None and head(path, 2) != b"PK")


def _is_cifar10(path: Path) -> bool:
    return (size := length(path)) > 0 and size % (IMAGE_BYTES + 1) == 0


def _load_file(path: Path, part: str, stated: Stated) -> Parsed:
    return of_single_part(load_file(path, stated), part)


FORMAT = ImageFormat(
    name="cifar",
    title="CIFAR binary files",
    rank=20,
    load_file=_load_file,
    load_folder=load_folder,
    holds_file=_holds_file,
    holds_folder=lambda _, names: holds_cifar(names),
    guess=_is_cifar10,
    labels="CIFAR-100",
)
