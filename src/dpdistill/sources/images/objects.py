"""Reads data set objects: of Hugging Face `datasets`, or of PyTorch, with items (image, label)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from dpdistill.schema import DataError
from dpdistill.schema.public_facts import CHANNELS, IMAGE_SIZE
from dpdistill.sources.images.decode import Picture, raw_pictures, refused, require_stated, stacked, to_values
from dpdistill.sources.images.parquet import choose, class_notes
from dpdistill.storage.files import named_part, single_part
from dpdistill.storage.options import Stated, refuse_eight_bits
from dpdistill.storage.parsed import Parsed, require_unmasked
from dpdistill.storage.prepare import resize_images

TITLE = "The data set"
_KINDS = "a PIL image, an array (h, w) or (h, w, c), or a tensor (h, w) or (c, h, w)"

Items = Callable[[int], tuple[Any, Any]]


def is_data_set(source: object) -> bool:
    """Returns whether an object is a data set: with parts, with features, or with numbered items."""
    if isinstance(source, Mapping):
        return any(named_part(str(key)) for key in source)
    return hasattr(source, "features") or hasattr(source, "__getitem__")


def load_object(source: Any, part: str, stated: Stated) -> Parsed:
    """Reads the images of a data set object, in its order.

    Args:
        source: a `datasets.Dataset` with a column of images and one of labels, or a `DatasetDict` of them; or a
            map-style `torch.utils.data.Dataset` of (image, label), where an image is a PIL image, an array (h, w) or
            (h, w, c), or a tensor (h, w) or (c, h, w).
        part: "train", "val" or "test", used with a `DatasetDict`.
        stated: classes and bounds, where the data set does not state them.

    Raises:
        DataError: an unknown part, items of another kind, an image that changes between two reads.
    """
    require_stated(stated)
    notes = single_part("data set", part)
    if isinstance(source, Mapping):
        found = [key for key in source if named_part(str(key)) == part]
        if not found:
            raise DataError(f"{TITLE} has no part {part!r}; it has {', '.join(map(str, source))}.")
        source, notes = source[found[0]], ()
    if not (stated.strict or hasattr(source, "features") or stated.channels):
        raise DataError("Bad items can be left out only when the channels are stated: pass channels=1 or channels=3.")
    if not hasattr(source, "__len__"):
        raise DataError(f"{TITLE} has no length: expected numbered items, not a stream.")
    if not len(source):
        raise DataError(f"{TITLE} has no items, from which the shape of images follows.")
    if stated.labels is not None and not hasattr(source, "features"):
        raise DataError(f"{TITLE} has a single label per image: leave labels out.")
    item, classes = _featured(source, stated) if hasattr(source, "features") else _numbered(source)
    notes, pictures = (*notes, *class_notes(classes, stated)), _pictures(item, len(source), stated)
    if hasattr(source, "features"):
        return replace(raw_pictures(pictures, stated, classes, notes), bounds=None)
    inferred = (IMAGE_SIZE,) * (stated.side is None) + (CHANNELS,) * (stated.channels is None)
    return Parsed(stacked(pictures, stated), classes=classes, notes=notes, prepared=True, inferred=inferred)


def _pictures(item: Items, count: int, stated: Stated) -> Iterator[Picture]:
    unchecked = True
    for i in range(count):
        title, label = f"Item {i} of the data set", None
        try:
            image, label = _asked(item, i, title)
            label = _label(label, title)
            read = partial(_values, image, title, stated)
            if unchecked:
                _require_same(item, i, title, stated)
                unchecked = False
        except _Changing:
            raise
        except DataError as error:
            if stated.strict:
                raise
            read = partial(refused, str(error))
        yield Picture(title, read, label)


def _asked(item: Items, i: int, title: str) -> tuple[Any, Any]:
    """Returns one item; turns any error of the data set's code into one sentence."""
    try:
        return item(i)
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{title} cannot be read: the data set raises {type(error).__name__}.") from error


def _featured(source: Any, stated: Stated) -> tuple[Items, tuple[str, ...] | None]:
    """Returns items and classes of a `datasets.Dataset`."""
    kinds = {name: type(feature).__name__ for name, feature in source.features.items()}
    images = [name for name, kind in kinds.items() if kind == "Image"]
    named = {n: tuple(map(str, source.features[n].names)) for n, kind in kinds.items() if kind == "ClassLabel"}
    others = [name for name in kinds if name not in images and name not in named]
    columns = choose(TITLE, images, named, others, stated)
    rows = source.with_format(None)

    def item(i: int) -> tuple[Any, Any]:
        row = rows[i]
        return row[columns.image], row[columns.label]

    return item, columns.classes


def _numbered(source: Any) -> tuple[Items, tuple[str, ...] | None]:
    """Returns items and classes of a map-style PyTorch data set."""

    def item(i: int) -> tuple[Any, Any]:
        pair = source[i]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"Expected item {i} of the data set as (image, label); got {type(pair).__name__}.")
        return pair[0], pair[1]

    classes = getattr(source, "classes", None)
    return item, tuple(map(str, classes)) if isinstance(classes, list | tuple) else None


def _values(image: Any, title: str, stated: Stated) -> np.ndarray:
    """Returns the values of one image, (h, w, channels), resized if stated."""
    if isinstance(image, Image.Image):
        try:
            return to_values(image, title, stated)
        except (DataError, MemoryError):
            raise
        except Exception:  # Pillow decodes lazily, and raises many types on damaged input
            raise DataError(f"{title} is a damaged image.") from None
    require_unmasked(image, f"{title[:1].lower()}{title[1:]}")
    is_tensor = hasattr(image, "detach")
    try:
        values = np.asarray(image.detach().cpu() if is_tensor else image)
    except (TypeError, ValueError):  # bfloat16, a sparse tensor, a ragged list
        raise DataError(f"Expected {title[:1].lower()}{title[1:]} as {_KINDS}, of a type that NumPy has.") from None
    if values.ndim not in (2, 3) or values.dtype.kind not in "uif" or not values.size:
        raise DataError(f"Expected {title[:1].lower()}{title[1:]} as {_KINDS}; got {values.dtype} {values.shape}.")
    if values.dtype == np.uint8:
        refuse_eight_bits(title, stated.bounds)
    elif stated.bounds is None:
        raise DataError(f"{title}: Expected bounds for {values.dtype} values: state them (--bounds LOW,HIGH).")
    else:
        values = _as_float32(values)
    values = values[..., None] if values.ndim == 2 else np.moveaxis(values, 0, 2) if is_tensor else values
    if values.shape[2] == 1 and stated.channels is not None:
        values = np.repeat(values, stated.channels, axis=2)
    return values if stated.side is None else resize_images(values[None], stated.side)[0]


def _as_float32(values: np.ndarray) -> np.ndarray:
    """Returns values as float32, the type of scaled records, clipped to its range."""
    most = np.finfo(np.float32).max
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(np.isfinite(values), np.clip(values, -most, most), values).astype(np.float32)


def _label(label: object, title: str) -> int | str | None:
    if label is None or isinstance(label, str | bytes):
        return label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    value = np.asarray(label)
    number = value.reshape(-1)[0].item() if value.size == 1 and value.dtype.kind in "uifb" else None
    if number is None or not float(number).is_integer():
        raise DataError(f"{title} has the label {str(label)[:80]!r}: expected a whole number or a name.")
    return int(number)


class _Changing(DataError):
    """Error for a data set whose items change between two reads."""


def _require_same(item: Items, i: int, title: str, stated: Stated) -> None:
    """Refuses random transforms, since a changing record cannot be protected."""
    first, again = (_values(_asked(item, i, title)[0], title, stated) for _ in range(2))
    if not np.array_equal(first, again, equal_nan=first.dtype.kind == "f"):
        raise _Changing(f"{TITLE} returns another image on every read: leave out random transforms.")
