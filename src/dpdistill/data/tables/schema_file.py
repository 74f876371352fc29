"""schema.yaml: what the owner of a table states about it, and how its CSV files are written."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from dpdistill.data.atomic import write_atomically
from dpdistill.data.files import reading, require_file, show
from dpdistill.data.options import parse_classes
from dpdistill.schema import Column, DataError, TableSchema

MISSING = ("", "NA", "NaN", "nan", "null")
DRAFT = "is a draft: replace what came from the records, then set `reviewed: true` in it."
"""What is said of a schema that nobody vouches for."""
_TITLE = "table schema"
_DRAFT = "A draft made from private records: replace every marked value, then set reviewed to true."
_KEYS = ("dpdistill", "reviewed", "unit", "label", "classes", "csv", "ignored", "columns")
_CSV = ("header", "names", "separator", "missing", "comment")
_COLUMN = tuple(field.name for field in fields(Column))
_MAX_BYTES = 16 << 20
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class TableFile:
    """The public facts about a table, and how its files are written.

    Args:
        schema: columns, label and classes.
        reviewed: its owner vouches that no fact comes from the records; False for a draft.
        header: a CSV file begins with the names of its columns.
        names: of all columns in the file's order, where there is no header.
        separator: of a CSV file's fields, one character.
        missing: texts that stand for a missing value.
        comment: lines of a CSV file that begin with it are skipped.
        ignored: columns of the file that are left out.

    Raises:
        DataError: facts that contradict each other.
    """

    schema: TableSchema
    reviewed: bool
    header: bool = True
    names: tuple[str, ...] = ()
    separator: str = ","
    missing: tuple[str, ...] = MISSING
    comment: str | None = None
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or self.separator in '"\r\n' or not self.separator.isascii():
            raise DataError(f"Expected separator={self.separator!r} as one ASCII character other than a quote.")
        if self.comment is not None and (not self.comment or not self.comment.isprintable()):
            raise DataError(f"Expected comment={self.comment!r} as printable characters.")
        if self.header == bool(self.names):
            raise DataError("Expected names of all columns in the file's order where, and only where, header is false.")
        declared = [*(column.name for column in self.schema.columns), self.schema.label]
        values = {value: k for k, group in enumerate(self.schema.label_values) for value in group}
        if odd := next((name for k, name in enumerate(self.schema.classes) if values.get(name, k) != k), None):
            raise DataError(f"Expected the name of class {odd!r} not to be a value of another class.")
        _require_distinct("ignored", self.ignored)
        _require_distinct("names", self.names)
        if both := next((name for name in self.ignored if name in declared), None):
            raise DataError(f"Expected column {both!r} as declared or as ignored, not as both.")
        if self.names and (odd := next((name for name in declared if name not in self.names), None)) is not None:
            raise DataError(f"Expected the declared column {odd!r} among names.")
        if odd := next((name for name in self.names if name not in (*declared, *self.ignored)), None):
            raise DataError(f"Expected column {odd!r} of names under columns, or under ignored.")


def read_schema(path: str | os.PathLike) -> TableFile:
    """What schema.yaml states; texts are taken as they are written, so that `no` is a category and not a truth value.

    Raises:
        DataError: not such a file, or facts that are incomplete, unknown or contradict each other.
    """
    path = Path(path)
    if require_file(path) > _MAX_BYTES:
        raise DataError(f"{show(path)} is too large for a table schema.")
    with reading(path):
        content = path.read_bytes()
    try:
        return _parse(_load_yaml(content))
    except DataError as error:
        raise DataError(f"{show(path)}: {error}") from None


class _Loader(yaml.BaseLoader):
    """Every scalar is a text; a key may be written once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DataError(f"Expected a text as key in line {key.start_mark.line + 1}.")
            if key.value in seen:
                raise DataError(f"Key {key.value!r} is written twice, again in line {key.start_mark.line + 1}.")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _load_yaml(content: bytes) -> Any:
    try:
        return yaml.load(content.decode("utf-8"), _Loader)
    except UnicodeDecodeError:
        raise DataError("Expected UTF-8 text; the file is binary or of another encoding.") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" in line {mark.line + 1}" if mark else ""
        raise DataError(f"Expected YAML; {error.problem or error.context}{where}.") from None
    except (yaml.YAMLError, RecursionError):
        raise DataError("Expected YAML; the text has characters or a nesting that it does not allow.") from None


def _parse(content: Any) -> TableFile:
    if not isinstance(content, dict) or content.get("dpdistill") != _TITLE:
        raise DataError(f"Expected a table schema, which begins with `dpdistill: {_TITLE}`.")
    given = _mapping(content, "the schema", _KEYS)
    for key in ("label", "classes", "columns"):
        if key not in given:
            raise DataError(f"Expected the key {key!r} in the schema.")
    items = given["columns"]
    if not isinstance(items, list):
        raise DataError(f"Expected columns as a list; got {_cut(items)}.")
    classes, labels = _classes(given["classes"])
    columns = tuple(_column(item, i) for i, item in enumerate(items, 1))
    unit = _text(given.get("unit", "row"), "unit")
    schema = TableSchema(columns, _text(given["label"], "label"), classes, labels, unit)
    csv = _mapping(given.get("csv", {}), "csv", _CSV)
    return TableFile(
        schema,
        reviewed=_flag(given.get("reviewed", "false"), "reviewed"),
        header=_flag(csv.get("header", "true"), "csv header"),
        names=_texts(csv.get("names", []), "csv names"),
        separator=_text(csv.get("separator", ","), "csv separator", trimmed=False),
        missing=_texts(csv.get("missing", list(MISSING)), "csv missing", empty=True),
        comment=_text(csv["comment"], "csv comment") if "comment" in csv else None,
        ignored=_texts(given.get("ignored", []), "ignored", empty=True),
    )


def _classes(value: Any) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    if isinstance(value, list):
        return parse_classes(_texts(value, "classes")), ()
    if not isinstance(value, dict):
        raise DataError(
            f"Expected classes as a list of names, or as a mapping from names to values; got {_cut(value)}."
        )
    names = parse_classes(_texts(list(value), "classes"))
    labels = tuple(_texts(group, f"class {name!r}") for name, group in value.items())
    if empty := next((name for name, group in zip(names, labels, strict=True) if not group), None):
        raise DataError(f"Expected at least one value of the label for class {empty!r}.")
    return names, labels


def _column(value: Any, number: int) -> Column:
    if not isinstance(value, dict) or "name" not in value:
        raise DataError(f"Expected column {number} as a mapping with a name; got {_cut(value)}.")
    name = _text(value["name"], f"name of column {number}")
    what = f"column {name!r}"
    given = _mapping(value, what, _COLUMN)
    facts: dict[str, Any] = {
        key: _text(given[key], f"{key} of {what}") for key in ("kind", "scale", "other") if key in given
    }
    if "kind" not in facts:
        raise DataError(f"Expected the kind of {what}.")
    if "bounds" in given:
        facts["bounds"] = _bounds(given["bounds"], what)
    if "categories" in given:
        facts["categories"] = _texts(given["categories"], f"categories of {what}")
    return Column(name, missing=_flag(given.get("missing", "false"), f"missing of {what}"), **facts)


def _bounds(value: Any, what: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(item, str) for item in value):
        raise DataError(f"Expected bounds of {what} as [low, high]; got {_cut(value)}.")
    low, high = (float(item) if NUMBER.fullmatch(item) else math.nan for item in value)
    if not -1e30 <= low < high <= 1e30:
        raise DataError(f"Expected bounds of {what} as numbers -1e30 <= low < high <= 1e30; got {_cut(value)}.")
    return low, high


def _mapping(value: Any, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"Expected {what} as a mapping; got {_cut(value)}.")
    if (unknown := next((key for key in value if key not in keys), None)) is not None:
        raise DataError(f"Unknown key {_cut(unknown)} in {what}; expected {', '.join(keys)}.")
    return value


def _text(value: Any, what: str, trimmed: bool = True) -> str:
    if not isinstance(value, str) or not value or (trimmed and value != value.strip()):
        raise DataError(f"Expected {what} as a text without spaces around it; got {_cut(value)}.")
    return value


def _texts(value: Any, what: str, empty: bool = False) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise DataError(f"Expected {what} as a list; got {_cut(value)}.")
    texts = tuple("" if empty and item == "" else _text(item, f"each of {what}") for item in value)
    _require_distinct(what, texts)
    return texts


def _flag(value: Any, what: str) -> bool:
    if value not in ("true", "false"):
        raise DataError(f"Expected {what} as true or false; got {_cut(value)}.")
    return value == "true"


def _require_distinct(what: str, texts: tuple[str, ...]) -> None:
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise DataError(f"Expected distinct {what}; {_cut(twice)} is named twice.")


def _cut(value: Any) -> str:
    text = repr(value if isinstance(value, str) else str(value)[:200])
    return text if len(text) <= 80 else f"{text[:80]}..."


def read_reviewed(path: str | os.PathLike) -> TableFile:
    """What schema.yaml states, if its owner vouches for it.

    Raises:
        DataError: a draft; and as read_schema.
    """
    table_file = read_schema(path)
    if not table_file.reviewed:
        raise DataError(f"{show(path)} {DRAFT}")
    return table_file


def write_schema(path: str | os.PathLike, table_file: TableFile, notes: Mapping[str, str] | None = None) -> None:
    """Writes schema.yaml, from which read_schema makes the same TableFile.

    Args:
        path: of the file; it appears whole or not at all.
        table_file: what to write.
        notes: comments by the place that they belong to: "label", "classes", "csv", "ignored", "columns.NAME".

    Raises:
        DataError: a file that cannot be written.
    """
    text = "".join(f"{line}\n" for line in _lines(table_file, notes or {}))
    try:
        write_atomically(Path(path), lambda file: file.write(text.encode("utf-8")))
    except OSError as error:
        raise DataError(f"{show(path)} cannot be written: {error.strerror or 'input/output error'}.") from None


def _lines(table_file: TableFile, notes: Mapping[str, str]) -> list[str]:
    schema = table_file.schema
    csv = {key: getattr(table_file, key) for key in _CSV if getattr(table_file, key) != getattr(TableFile, key, None)}
    head = {
        "dpdistill": _TITLE,
        "reviewed": table_file.reviewed,
        "unit": schema.unit,
        "label": schema.label,
        "classes": dict(zip(schema.classes, schema.labels, strict=True)) if schema.labels else schema.classes,
        "csv": csv,
        "ignored": table_file.ignored,
    }
    lines = [] if table_file.reviewed else [f"# {_DRAFT}"]
    for key, value in head.items():
        if value != {} and value != ():
            lines += [
                *_comment(notes.get(key), ""),
                *_dump({key: value}, None if isinstance(value, dict | tuple) else False),
            ]
    lines.append("columns:")
    for column in schema.columns:
        facts = {name: value for name in _COLUMN if (value := getattr(column, name)) != getattr(Column, name, None)}
        lines += _comment(notes.get(f"columns.{column.name}"), "  ")
        first, *rest = _dump(facts, True)
        lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    return lines


def _comment(note: str | None, indent: str) -> list[str]:
    return [f"{indent}# {' '.join(note.split())}"] if note else []


class _Dumper(yaml.SafeDumper):
    """Texts with line breaks or other invisible characters are written as escapes."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def _dump(value: Any, flow: bool | None) -> list[str]:
    """Lines of YAML: all in brackets, nothing, or, for None, the innermost lists."""
    form = {"default_flow_style": flow, "sort_keys": False, "allow_unicode": True, "width": 100}
    return yaml.dump(_plain(value), Dumper=_Dumper, **form).removesuffix("\n").split("\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
