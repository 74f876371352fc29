"""Assigns images in folders, on disk or in an archive, to classes and parts; notes which files are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from dpdistill.schema import DataError
from dpdistill.schema.number_text import same_spelling
from dpdistill.schema.public_facts import CLASSES
from dpdistill.sources.images.decode import FORMATS
from dpdistill.storage.files import named_part, show, single_part
from dpdistill.storage.options import Stated

SUFFIXES = (*FORMATS, ".dcm", ".dicom", ".ima")
IMAGES = "PNG, JPEG, TIFF, BMP, WebP, GIF or DICOM"
_HINTS = {
    (".heic", ".heif"): "HEIC pictures, as phones take them, are not read: export them as JPEG.",
    (".zip", ".tar", ".gz", ".tgz", ".7z", ".rar"): "Archives in folders or in archives are not opened: unpack them.",
    (".avif", ".jp2", ".svg"): "AVIF, JPEG 2000 and SVG are not read: export the pictures as PNG.",
}
_REMEDY = "Put all pictures of a class into its folder, or list them in a CSV file (file,label)."
Parts = tuple[str, ...]


@dataclass
class Content:
    """Files directly in one folder.

    Args:
        pictures: number of files that are read as images.
        left_out: numbers of other files by suffix.
    """

    pictures: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def leave_out(self, name: str) -> None:
        """Counts a file that is not read."""
        self.left_out[PurePosixPath(name).suffix.lower() or "without a suffix"] += 1


@dataclass(frozen=True)
class Tree:
    """Class folders of a part of a data set.

    Args:
        labels: class of each folder of images in the part, by path.
        classes: names of the classes: the stated names, or the names of the training part's folders.
        notes: sentences for the owner.
        inferred: names of the public facts that come from the records.
    """

    labels: dict[Parts, str]
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    inferred: tuple[str, ...]


def part_of_folder(path: Parts) -> str | None:
    """Returns the part of a class folder, such as train for train/cat; None outside of parts."""
    return named_part(path[-2]) if len(path) > 1 else None


def read_tree(title: str, folders: Mapping[Parts, Content], part: str, stated: Stated, kind: str, around: int) -> Tree:
    """Returns the class folders of a part; the class of an image depends on its own folder alone.

    Args:
        title: name of the source in sentences.
        folders: all folders by path, () for the source itself.
        part: "train", "val" or "test".
        stated: stated facts, with classes and strictness.
        kind: kind of the source: "folder" or "archive".
        around: allowed number of folders around all class folders and parts.

    Raises:
        DataError: no images, class folders at several depths, a folder that is not a stated class, or an empty class
            folder where the classes are the folders' names.
    """
    usable = {path for path, content in folders.items() if path and content.pictures and _depth(path) <= around}
    if stated.strict:
        _refuse_depths(title, [path for path, content in folders.items() if path and content.pictures], around)
    parts = {part_of_folder(path) for path in usable}
    chosen = _chosen(usable, part, parts)
    if usable and not chosen:
        raise DataError(f"{title} has no folder '{part}' with class folders.")
    if not usable:
        raise DataError(f"{title} has no {IMAGES} in class folders (<class>/*.png).{_left_out_words(folders)}")
    for path in sorted(chosen):
        _require_printable(title, path[-1])
    training = _chosen(usable, "train", parts) or chosen
    notes = [*(single_part(kind, part) if parts == {None} else ()), *_left_out(folders), *_misplaced(folders, around)]
    if stated.classes is None:
        _refuse_empty(title, folders, training)
        classes, inferred = tuple(sorted({path[-1] for path in training})), (CLASSES,)
    else:
        classes, inferred = stated.classes, ()
        known = set(map(same_spelling, classes))
        unknown = sorted(path[-1] for path in chosen if same_spelling(path[-1]) not in known)
        if stated.strict and unknown:
            raise DataError(f"{title} has the class folder '{unknown[0]}', which is not one of the stated classes.")
        notes += _absent(classes, chosen)
    return Tree({path: path[-1] for path in chosen}, classes, tuple(notes), inferred)


def _chosen(usable: Iterable[Parts], part: str, parts: set[str | None]) -> set[Parts]:
    """Returns the class folders of a part; folders outside all parts count as training, or as any if there are none."""
    if parts == {None}:
        return set(usable)
    wanted = (part, None) if part == "train" else (part,)
    return {path for path in usable if part_of_folder(path) in wanted}


def _depth(path: Parts) -> int:
    """Returns the number of folders around a class folder and its part."""
    return len(path) - 1 - (part_of_folder(path) is not None)


def _refuse_depths(title: str, paths: list[Parts], around: int) -> None:
    """Refuses images in nested folders, whose class is ambiguous."""
    holding = set(paths)
    for path in sorted(paths):
        above = next((path[:i] for i in range(1, len(path)) if path[:i] in holding), None)
        if above is not None:
            raise DataError(
                f"{title} has pictures in the class folder '{_shown(above)}' and in the folder '{_shown(path)}' within "
                f"it. {_REMEDY}"
            )
    for path in sorted(paths):
        if _depth(path) > around:
            raise DataError(
                f"{title} has pictures in '{_shown(path)}', deeper than in class folders (<class>/*.png): name the "
                f"folder that holds the class folders. {_REMEDY}"
            )
    roots = sorted({path[: _depth(path)] for path in paths})
    if len(roots) > 1:
        where = " and ".join(f"'{_shown(root) or '.'}'" for root in roots[:2])
        raise DataError(f"{title} has class folders in {where}: expected one folder that holds all of them. {_REMEDY}")
    of_parts = {part_of_folder(path): path for path in sorted(paths, reverse=True)}
    if None in of_parts and len(of_parts) > 1:
        inner = next(path for part, path in of_parts.items() if part is not None)
        raise DataError(
            f"{title} has class folders in parts, such as '{_shown(inner)}', and outside of them, such as "
            f"'{_shown(of_parts[None])}': expected only one of the two."
        )


def _refuse_empty(title: str, folders: Mapping[Parts, Content], training: set[Parts]) -> None:
    """Refuses empty class folders, where the folders' names are the classes."""
    roots = {path[:-1] for path in training}
    for path in sorted(folders):
        if path and path[:-1] in roots and not folders[path].pictures:
            if any(other[: len(path)] == path for other in training):
                continue  # a folder of a part
            held = f" (it holds {kinds})" if (kinds := _kinds(folders[path].left_out)) else ""
            raise DataError(
                f"{title} has the class folder '{path[-1]}' without a readable image{held}: expected {IMAGES}. "
                "Remove the folder, or state the classes (--classes) if that class has no records."
            )


def _absent(classes: tuple[str, ...], chosen: set[Parts]) -> list[str]:
    here = {same_spelling(path[-1]) for path in chosen}
    absent = [name for name in classes if same_spelling(name) not in here]
    listed = ", ".join(absent[:10]) + (", ..." if len(absent) > 10 else "")
    return [f"There is no class folder of the stated classes {listed}: they have no records."] if absent else []


def _left_out(folders: Mapping[Parts, Content]) -> list[str]:
    """Returns notes on left-out files by kind, with advice where they may be images."""
    counts: Counter[str] = sum((content.left_out for content in folders.values()), Counter())
    if not counts:
        return []
    total = counts.total()
    notes = [f"{total:,} file{'s are' if total > 1 else ' is'} left out: {_kinds(counts)}."]
    return notes + [hint for suffixes, hint in _HINTS.items() if any(counts[suffix] for suffix in suffixes)]


def _misplaced(folders: Mapping[Parts, Content], around: int) -> list[str]:
    """Returns a note on images outside class folders or in folders within them."""
    count = sum(content.pictures for path, content in folders.items() if not path or _depth(path) > around)
    if not count:
        return []
    return [f"{count:,} picture{'s are' if count > 1 else ' is'} left out: not in a class folder (<class>/*.png)."]


def _left_out_words(folders: Mapping[Parts, Content]) -> str:
    return "".join(f" {note}" for note in _left_out(folders))


def _kinds(counts: Counter[str]) -> str:
    shown = [f"{number:,} {show(suffix)[:20]}" for suffix, number in counts.most_common(8)]
    return ", ".join(shown) + (", ..." if len(counts) > 8 else "")


def _shown(path: Parts) -> str:
    return show("/".join(path))


def _require_printable(title: str, name: str) -> None:
    """Refuses the name of a class folder that cannot be printed."""
    if not name.isprintable():
        raise DataError(f"{title} has a class folder with a name that cannot be printed: {show(name)}.")
