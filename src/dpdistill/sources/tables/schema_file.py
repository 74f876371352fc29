"""Reads and writes schema.yaml: the owner's public facts about a table, and its CSV format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.constraints import Combination
from dpdistill.schema.facts import STRICT, StrictBool, StrictFloat, StrictInt, read_facts
from dpdistill.schema.number_text import NUMBER
from dpdistill.schema.table import equal_edges
from dpdistill.schema.times import code_of_bound, facts_of
from dpdistill.sources.tables.source import CsvFormat
from dpdistill.sources.yaml_text import dump_yaml, load_yaml
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.files import reading, require_file, show
from dpdistill.storage.options import parse_classes

DRAFT = "is a draft: replace the facts derived from the records, then set `reviewed: true`."
"""Error text about a schema that is not reviewed."""
_TITLE = "table schema"
_DRAFT = "A draft made from private records: replace every marked value, then set reviewed to true."
_HINTS = (
    "# State constraints that every synthetic row must obey, if there are any:",
    "# constraints: [admitted_on <= left_on, total = drugs + ward_cost, sex = male implies pregnant = no]",
    "# combinations: [{columns: [state, city], rows: [[Bavaria, Munich], [Hesse, Kassel]]}]",
)
_MAX_BYTES = 16 << 20
_FLAGS = ("reviewed", "header", "missing")


@dataclass(frozen=True)
class TableFile:
    """Public facts about a table, and the format of its files.

    Args:
        schema: columns, label and classes.
        reviewed: True if the owner confirms that no fact comes from the records; False for a draft.
        csv: format of its CSV files.
        ignored: left-out columns of the file.
        unit_column: the column that names the unit (person) of a row, or None; never a feature.

    Raises:
        DataError: facts that contradict each other.
    """

    schema: TableSchema
    reviewed: bool
    csv: CsvFormat = CsvFormat()
    ignored: tuple[str, ...] = ()
    unit_column: str | None = None

    def __post_init__(self) -> None:
        names = self.csv.names
        if self.csv.header == bool(names):
            raise DataError("Expected names of all columns in the file's order where, and only where, header is false.")
        declared = [*self.schema.names]
        values = {value: k for k, group in enumerate(self.schema.label_values) for value in group}
        if odd := next((name for k, name in enumerate(self.schema.classes) if values.get(name, k) != k), None):
            raise DataError(f"Expected the name of class {odd!r} not to be a value of another class.")
        _require_distinct("ignored", self.ignored)
        _require_distinct("names", names)
        if both := next((name for name in self.ignored if name in declared), None):
            raise DataError(f"Expected column {both!r} as declared or as ignored, not as both.")
        if self.unit_column is not None:
            if self.unit_column in (*declared, *self.ignored):
                raise DataError(
                    f"Expected unit_column {self.unit_column!r:.80} neither among columns nor under ignored."
                )
            declared.append(self.unit_column)
        if names and (odd := next((name for name in declared if name not in names), None)) is not None:
            raise DataError(f"Expected the declared column {odd!r} among names.")
        if odd := next((name for name in names if name not in (*declared, *self.ignored)), None):
            raise DataError(f"Expected column {odd!r} of names under columns, or under ignored.")


_Names = Annotated[tuple[str, ...], Tag("list")]
_Values = Annotated[dict[str, tuple[str, ...]], Tag("mapping")]


@dataclass(frozen=True, kw_only=True)
class _File:
    """Keys of schema.yaml."""

    __pydantic_config__ = STRICT
    dpdistill: str
    reviewed: StrictBool = False
    unit: str = "row"
    unit_column: str | None = None
    label: str | None = None
    classes: Annotated[
        _Names | _Values, Discriminator(lambda value: {list: "list", dict: "mapping"}.get(type(value)))
    ] = ()
    csv: CsvFormat = CsvFormat()
    ignored: tuple[str, ...] = ()
    columns: tuple[Column, ...]
    constraints: tuple[str, ...] = ()
    combinations: tuple[Combination, ...] = ()
    bins: StrictInt | None = None
    edges: tuple[StrictFloat, ...] = ()


def read_schema(path: str | os.PathLike) -> TableFile:
    """Reads schema.yaml; texts keep their spelling, so that `no` is a category and not a truth value.

    Raises:
        DataError: a file that is no schema.yaml, or facts that are incomplete, unknown or contradict each other.
    """
    path = Path(path)
    if require_file(path) > _MAX_BYTES:
        raise DataError(f"{show(path)} is too large for a table schema.")
    with reading(path):
        content = path.read_bytes()
    try:
        return _parse(load_yaml(content))
    except (DataError, TypeError) as error:
        raise DataError(f"{show(path)}: {error}") from None


def _parse(content: object) -> TableFile:
    if not isinstance(content, dict) or content.get("dpdistill") != _TITLE:
        raise DataError(f"Expected a table schema that begins with `dpdistill: {_TITLE}`.")
    columns = content.get("columns")
    if isinstance(content.get("label"), list):
        raise DataError(
            f"Expected one label; got {len(content['label'])}: run once per label, where each run costs its own "
            "budget, or join the labels into one column whose classes are their combinations."
        )
    for part in (content, content.get("csv"), *(columns if isinstance(columns, list) else ())):
        _type_values(part)
    given = read_facts(_File, content)
    labels = tuple(given.classes.values()) if isinstance(given.classes, dict) else ()
    rules = (given.constraints, given.combinations)
    if number := next((column for column in given.columns if column.name == given.label), None):
        return _with_target(given, number)
    if given.bins is not None or given.edges:
        raise DataError("Expected bins and edges of a label that stands among the columns, as a number to predict.")
    if given.label is not None and not given.classes:
        raise DataError(
            "Expected classes, which is missing: the values of the label. A number to predict stands under columns, "
            "with its bounds."
        )
    classes = parse_classes(tuple(given.classes)) if given.classes else ()
    schema = TableSchema(given.columns, given.label, classes, labels, given.unit, *rules)
    return TableFile(schema, given.reviewed, given.csv, given.ignored, given.unit_column)


def _with_target(given: _File, number: Column) -> TableFile:
    """Returns the facts of a table whose label is a number, one of its columns."""
    if given.classes:
        raise DataError(
            f"Expected {number.name!r:.80} with classes or under columns, not both: a number to predict has bins."
        )
    if given.bins is not None and given.edges:
        raise DataError(f"Expected bins or edges of {number.name!r:.80}, not both.")
    edges = given.edges
    if given.bins is not None and number.is_number:
        edges = equal_edges(number, given.bins)
    rules = {"constraints": given.constraints, "combinations": given.combinations}
    schema = TableSchema(given.columns, unit=given.unit, target=number.name, edges=edges, **rules)
    return TableFile(schema, given.reviewed, given.csv, given.ignored, given.unit_column)


def _type_values(part: Any) -> None:
    """Converts texts of flags and numbers; leaves other texts for read_facts to refuse."""
    for key, value in part.items() if isinstance(part, dict) else ():
        if key in _FLAGS and value in ("true", "false"):
            part[key] = value == "true"
        elif key == "bounds" and isinstance(value, list):
            dates = part.get("kind") in ("date", "datetime")
            part[key] = _codes(part, value) if dates else [_number(bound) for bound in value]
        elif key == "edges" and isinstance(value, list):
            part[key] = [_number(edge) for edge in value]
        elif key in ("places", "step", "bins"):
            number = _number(value)
            part[key] = int(number) if key != "step" and isinstance(number, float) and number % 1 == 0 else number


def _number(text: Any) -> Any:
    """Returns the number in a text, or what is no text of a number unchanged."""
    is_number = isinstance(text, str) and NUMBER.fullmatch(text) and abs(float(text)) <= 1e30
    return float(text) if is_number else text


def _codes(part: dict[str, Any], bounds: list) -> list:
    """Returns the codes of the bounds of a column of dates or datetimes."""
    name, kind, *stated = (part.get(key) for key in ("name", "kind", "resolution", "format", "zone"))
    texts = [each if isinstance(each, str) else None for each in stated]
    return [code_of_bound(f"column {name!r}", facts_of(f"column {name!r}", str(kind), *texts), each) for each in bounds]


def _require_distinct(what: str, texts: tuple[str, ...]) -> None:
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise DataError(f"Expected distinct {what}; got {twice[:80]!r} twice.")


def with_units(table_file: TableFile, column: str) -> TableFile:
    """Returns the facts with a column that names units, removed from `ignored`.

    Raises:
        DataError: a column that is a feature or the label, or differs from the column in schema.yaml.
    """
    if table_file.unit_column not in (None, column):
        raise DataError(
            f"Expected unit column {table_file.unit_column!r:.80}, as schema.yaml states; got {column!r:.80}."
        )
    ignored = tuple(name for name in table_file.ignored if name != column)
    return replace(table_file, unit_column=column, ignored=ignored)


def without_units(table_file: TableFile) -> TableFile:
    """Returns the facts for single rows, such as a test set, with an optional column of units."""
    if table_file.unit_column is None:
        return table_file
    return replace(table_file, unit_column=None, ignored=(*table_file.ignored, table_file.unit_column))


def read_reviewed(path: str | os.PathLike) -> TableFile:
    """Reads schema.yaml, if its owner reviewed it.

    Raises:
        DataError: a draft; and as read_schema.
    """
    table_file = read_schema(path)
    if not table_file.reviewed:
        raise DataError(f"{show(path)} {DRAFT}")
    return table_file


def write_schema(path: str | os.PathLike, table_file: TableFile, notes: Mapping[str, str] | None = None) -> None:
    """Writes schema.yaml, from which read_schema reads an equal TableFile.

    Args:
        path: path of the file, which is written atomically.
        table_file: facts to write.
        notes: comments by position: "label", "classes", "csv", "ignored", "columns.NAME".

    Raises:
        DataError: a file that cannot be written.
    """
    content = schema_content(table_file, notes)
    with writing(Path(path)):
        write_atomically(Path(path), lambda file: file.write(content))


def schema_content(table_file: TableFile, notes: Mapping[str, str] | None = None) -> bytes:
    """Returns the bytes of schema.yaml, as `write_schema` writes them."""
    return "".join(f"{line}\n" for line in _lines(table_file, notes or {})).encode("utf-8")


def _lines(table_file: TableFile, notes: Mapping[str, str]) -> list[str]:
    schema = table_file.schema
    head = {
        "dpdistill": _TITLE,
        "reviewed": table_file.reviewed,
        "unit": schema.unit,
        **({} if table_file.unit_column is None else {"unit_column": table_file.unit_column}),
        **({} if schema.label is None else {"label": schema.label, "classes": _classes(schema)}),
        **({} if schema.target is None else {"label": schema.target, "edges": schema.edges}),
        "csv": _stated(table_file.csv),
        "ignored": table_file.ignored,
    }
    lines = [] if table_file.reviewed else [f"# {_DRAFT}"]
    for key, value in head.items():
        if value != {} and value != ():
            lines += _comment(notes.get(key), "")
            lines += _dump({key: value}, None if isinstance(value, dict | tuple) else False)
    lines.append("columns:")
    for column in schema.columns:
        lines += _comment(notes.get(f"columns.{column.name}"), "  ")
        first, *rest = _dump(_column(column), True)
        lines += [f"  - {first}", *(f"    {line}" for line in rest)]
    if schema.constraints:
        lines += _dump({"constraints": schema.constraints}, False)
    if schema.combinations:
        lines.append("combinations:")
        for each in schema.combinations:
            lines += [f"  - {line}" if i == 0 else f"    {line}" for i, line in enumerate(_dump(vars(each), True))]
    return [*lines, *(() if table_file.reviewed else _HINTS)]


def _stated(facts: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass that differ from their defaults."""
    stated = {each.name: getattr(facts, each.name) for each in fields(facts)}
    return {name: value for name, value in stated.items() if value != getattr(type(facts), name, None)}


def _classes(schema: TableSchema) -> Any:
    return dict(zip(schema.classes, schema.labels, strict=True)) if schema.labels else schema.classes


def _column(column: Column) -> dict[str, Any]:
    """Returns the stated facts of a column, with the bounds of dates and datetimes as texts."""
    stated = _stated(column)
    if column.is_time and column.kind != "duration":
        stated["bounds"] = tuple(column.text(bound) for bound in stated["bounds"])
    return stated


def _comment(note: str | None, indent: str) -> list[str]:
    return [f"{indent}# {' '.join(note.split())}"] if note else []


def _dump(value: object, flow: bool | None) -> list[str]:
    """Returns lines of YAML; `flow` sets brackets for everything, nothing, or (None) the innermost lists."""
    return dump_yaml(value, flow=flow, whole=True).removesuffix("\n").split("\n")
