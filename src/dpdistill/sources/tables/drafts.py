"""Drafts a schema from the records, and checks a stated schema against them; for the owner only.

All results derive from records without noise: they belong on the owner's terminal, never into a run or a report.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpdistill.schema import Column, DataError, TableSchema
from dpdistill.schema.number_text import COMMA_NUMBER, NUMBER
from dpdistill.schema.table import TARGETS
from dpdistill.sources.tables.cells import Marks
from dpdistill.sources.tables.codes import Values, encoder, label_encoder, unit_encoder
from dpdistill.sources.tables.load import encode_column, open_stated
from dpdistill.sources.tables.looks import MARKS, MAX_CATEGORIES, Look
from dpdistill.sources.tables.schema_file import TableFile
from dpdistill.sources.tables.source import CsvFormat, Table, open_table
from dpdistill.storage.files import reading

WARN_FROM = 0.01
"""Share of lost values of a column above which a warning is given."""
REPLACE = "from the records: replace by what is known without them"


def draft_schema(
    source: object,
    label: str | None = None,
    form: CsvFormat = CsvFormat(),
    *,
    named: bool = False,
    unlabelled: bool = False,
    number: bool = False,
) -> tuple[TableFile, dict[str, str]]:
    """Returns a draft schema for the owner to correct; every fact is guessed from the records and not private.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery.
        label: name of the label's column; None for the last column.
        form: format of a CSV file; common marks of a missing value ("?", "-", "N/A") are detected in addition.
        unlabelled: True for a table without a label.
        number: True if the label is a number to predict.
        named: True if the caller states that a CSV file begins with column names.

    Returns:
        (unreviewed content of schema.yaml, comments of write_schema on guessed facts).

    Raises:
        DataError: a source that is no table, a label with fewer than 2 or more than 100 values, or a CSV file whose
            first line looks like a record, which would be published as column names.
    """
    table = open_table(source, form)
    target = None if unlabelled else _target(table, label)
    is_csv = not table.typed and (isinstance(source, str) or hasattr(source, "__fspath__"))
    marks = Marks.of(form.missing, form.decimal)
    about = (marks, table.typed, form.decimal, is_csv and "," not in (form.separator, form.decimal))
    looks = {name: Look(name, *about) for name in table.names}
    with reading(table.title):
        for arrays in table.batches(table.names):
            for look, values in zip(looks.values(), arrays, strict=True):
                look.add(values)
    if is_csv and form.header and not named:
        _check_names(table.title, list(looks.values()))
    found_marks = sorted({mark for look in looks.values() for mark in look.marks_found})
    classes = () if target is None or number else _classes(target, looks.pop(target))
    columns, ignored, notes = _columns(looks)
    if number and target is not None:
        columns = _with_number(target, columns, ignored, notes)
    if not columns:
        raise DataError(
            f"Expected at least one column besides the label in {table.title}; all are left out ({notes['ignored']})."
        )
    if target is not None and not number:
        notes["classes"] = f"classes {REPLACE}"
    if label is None and target is not None:
        notes["label"] = "the last column: name another column if this is not the label"
    if found_marks:
        notes["csv"] = f"missing: {' '.join(found_marks)} {REPLACE}"
    found = tuple(table.names) if is_csv and not form.header else ()
    form = replace(form, header=not found, names=found, missing=(*form.missing, *found_marks))
    schema = TableSchema(columns, target=target) if number else TableSchema(columns, target, classes)
    return TableFile(schema, False, form, ignored), notes


def _with_number(
    target: str, columns: tuple[Column, ...], ignored: tuple[str, ...], notes: dict[str, str]
) -> tuple[Column, ...]:
    """Returns the columns with the number to predict, which is never missing, and comments on its bins."""
    found = next((column for column in columns if column.name == target), None)
    if target in ignored or found is None or found.kind not in TARGETS:
        got = "a column that is left out" if found is None else f"a column of kind {found.kind}"
        raise DataError(f"Expected a number in the label {target!r:.80}; got {got}: leave out --number for classes.")
    bins = "where bins of the number begin, equally far apart on its scale: state edges that matter to you"
    notes["edges"] = f"{bins}{'; rows without the number are left out with --lenient' if found.missing else ''}"
    return tuple(replace(column, missing=column.missing and column is not found) for column in columns)


def _classes(target: str, labels: Look) -> tuple[str, ...]:
    """Returns the classes in the label's column."""
    classes = () if labels.times.typed else labels.choices()
    if labels.times.typed:
        labels.unusable = "holds dates or times"
    if not 2 <= len(classes) <= MAX_CATEGORIES:
        many = (
            f"a column that {labels.unusable.partition(':')[0]}" if labels.unusable else f"more than {MAX_CATEGORIES}"
        )
        raise DataError(
            f"Expected 2 to {MAX_CATEGORIES} classes in the label {target!r}; got "
            f"{len(classes) or (many if labels.unusable or labels.known else 'none')}: name another column as label, "
            "or state --number to predict the column as a number."
        )
    return classes


def _target(table: Table, label: str | None) -> str:
    """Returns the column of the label; refuses unnamed and single columns."""
    if "" in table.names:
        raise DataError(
            f"Column {table.names.index('') + 1} of {table.title} has no name (pandas and R write row names like this "
            "without index=False and row.names=FALSE): name the column in the first line, or remove the column."
        )
    target = table.names[-1] if label is None else label
    if target not in table.names:
        raise DataError(f"{table.title} lacks the column {target!r}. {table.hint([target])}".rstrip())
    if len(table.names) == 1:
        raise DataError(
            f"Expected columns besides the label in {table.title}; got a single column: state the separator of fields "
            "if it is not a comma (--separator ';' or tab), and the prefix of comment lines (--comment '#')."
        )
    return target


def _columns(looks: dict[str, Look]) -> tuple[tuple[Column, ...], tuple[str, ...], dict[str, str]]:
    """Returns the kept columns, the names of left-out columns, and comments on both."""
    columns, ignored, notes = [], {}, {}
    for name, look in looks.items():
        guess = look.guess()
        if isinstance(guess, str):
            ignored[name] = guess
        else:
            columns.append(guess)
            what = (
                "bounds, format, resolution" if guess.is_time else "bounds, scale" if guess.is_number else "categories"
            )
            comma = "; with --decimal , the values would be numbers" if look.has_commas else ""
            notes[f"columns.{name}"] = (
                f"kind, {what} and missing {REPLACE}{comma}{look.times.others if guess.is_time else ''}"
            )
    if ignored:
        notes["ignored"] = "; ".join(f"{name[:40]}: {why}" for name, why in ignored.items())
    return tuple(columns), tuple(ignored), notes


def _check_names(title: str, looks: list[Look]) -> None:
    """Refuses a file that begins with a record: no name may be a number or a value of its column."""
    if [look.name for look in looks] in ([str(i + k) for i in range(len(looks))] for k in (0, 1)):
        return  # programs write such names for unnamed columns
    found = [
        str(i)
        for i, look in enumerate(looks, 1)
        if look.name in look.texts
        or look.name in MARKS
        or COMMA_NUMBER.fullmatch(look.name)
        or NUMBER.fullmatch(look.name)
    ]
    if found:
        raise DataError(
            f"The first line of {title} looks like a record, which would be published as column names (see "
            f"column{'s' * (len(found) > 1)} {', '.join(found[:5])}{', ...' * (len(found) > 5)}): name all columns "
            "with --names age,job,..., or state by --header that the line holds column names."
        )


def check_table(source: object, table_file: TableFile) -> list[str]:
    """Checks records against a stated schema, in sentences with exact counts, for the owner only.

    Args:
        source: path of a CSV file, gzip or not, or of a Parquet file; a pandas DataFrame; or a DatabaseQuery.
        table_file: the stated facts.

    Returns:
        Sentences on rows, rows per class, and clamped, unknown, missing or constant values. Then warnings about rows
        that a run refuses, and about every column that loses WARN_FROM or more to its bounds, categories or classes.

    Raises:
        DataError: a file that cannot be read, or columns that are missing or not declared.
    """
    schema = table_file.schema
    table = open_stated(source, table_file)
    counts = [_Count(column, table_file.csv) for column in schema.columns]
    label = schema.label
    encode_label = None if label is None else label_encoder(schema, table_file.csv.missing, table_file.csv.decimal)
    classes, rows, lost, unknown, first, missing_units = np.zeros(len(schema.classes), int), 0, 0, 0, 0, 0
    rules = [] if schema.rules is None else schema.rules.all
    broken = np.zeros(len(rules), int)
    names, unit = [*schema.names], table_file.unit_column
    encode_unit = unit_encoder(table_file.csv.missing, {}, table_file.csv.decimal)
    with reading(table.title):
        for arrays in table.batches(names if unit is None else [*names, unit]):
            units, labels = None if unit is None else arrays.pop(), None if label is None else arrays.pop()
            bad = np.zeros(len(arrays[0]), bool)
            for count, values in zip(counts, arrays, strict=True):
                bad[count.add(table, values, rows)] = True
            X = np.column_stack([count.codes for count in counts])
            broken += np.array([(~rule.holds(X)).sum() for rule in rules], int)
            if unit is not None:
                _, faults = encode_column(table, unit, encode_unit, units)
                bad[list(faults)], missing_units = True, missing_units + len(faults)
            if label is not None and encode_label is not None:
                y, faults = encode_column(table, label, encode_label, labels)
                bad[list(faults)], unknown = True, unknown + len(faults)
                classes += np.bincount(y[~bad].astype(int), minlength=len(classes))
            if schema.target is not None:
                classes += np.bincount(schema.bins(X[~bad]), minlength=len(classes))
            if bad.any() and not lost:
                first = rows + int(bad.argmax()) + 1
            rows, lost = rows + len(bad), lost + int(bad.sum())
    lines = [f"{rows} rows"]
    lines += _rows_of_classes(schema, classes)
    lines += [line for count in counts for line in count.lines(rows)]
    lines += [f"constraint {rule.text!r}: {n} of {rows} rows break it" for rule, n in zip(rules, broken, strict=True)]
    losses = [(label or "", unknown, "match no class of the schema: state all classes, or their values")]
    losses += [(count.column.name, *loss) for count in counts for loss in count.losses()]
    if lost:
        of_units = f", {missing_units} as their unit" if missing_units else ""
        lines.append(
            f"Warning: {lost} of {rows} rows have a value that cannot be used, {unknown} of them as their label"
            f"{of_units}, the first in row {first}: distill refuses the table, or leaves these rows out with --lenient"
        )
    if not rows:
        lines.append("Warning: there are no rows: distill refuses the table")
    often = [(rule.text, n) for rule, n in zip(rules, broken, strict=True) if n and n >= WARN_FROM * rows]
    lines += [
        f"Warning: constraint {text!r}: {n} of {rows} rows ({100 * n / rows:.3g} %) break it: synthetic rows never do"
        for text, n in often
    ]
    return [*lines, *(_warning(name, n, rows, words) for name, n, words in losses if n and n >= WARN_FROM * rows)]


def _rows_of_classes(schema: TableSchema, counts: np.ndarray) -> list[str]:
    """Returns the numbers of rows of each class, or of each bin of a number to predict; nothing without a label."""
    if schema.target is not None:
        return [f"bin {name} of {schema.target!r}: {n} rows" for name, n in zip(schema.classes, counts, strict=True)]
    if schema.label is None:
        return []
    return [f"class {name!r}: {n} rows" for name, n in zip(schema.classes, counts, strict=True)]


def _warning(name: str, n: int, rows: int, words: str) -> str:
    return f"Warning: column {name!r}: {n} of {rows} values ({100 * n / rows:.3g} %) {words}"


class _Count:
    """Counts of clamped, unknown, missing and bad values of a column."""

    def __init__(self, column: Column, form: CsvFormat) -> None:
        self.column = column
        self.encode = encoder(column, form.missing, form.decimal)
        self.encode_known = encoder(replace(column, other=None), form.missing, form.decimal)
        self.clamped = self.missing = self.other = self.bad = 0
        self.codes = np.zeros(0)
        self.first = ""
        self.low, self.high = math.inf, -math.inf

    def add(self, table: Table, values: Values, start: int) -> list[int]:
        """Counts a batch whose first row is number `start`, and returns the faulty rows."""
        codes, faults = encode_column(table, self.column.name, self.encode, values)
        self.codes = codes
        if faults and not self.bad:
            self.first = f"row {start + min(faults) + 1}: {faults[min(faults)]}"
        self.bad += len(faults)
        self.missing += int(np.isnan(codes).sum()) - len(faults)
        if self.column.other is not None:
            self.other += len(self.encode_known(values)[1]) - len(faults)
        known = codes[np.isfinite(codes)]
        if self.column.bounds is not None:
            low, high = self.column.bounds
            self.clamped += int(((known < low) | (known > high)).sum())
        self.low, self.high = min(self.low, known.min(initial=math.inf)), max(self.high, known.max(initial=-math.inf))
        return list(faults)

    def lines(self, rows: int) -> list[str]:
        found = {
            f": {self.clamped} values outside its bounds are clamped": self.clamped,
            f": {self.other} unknown values become {self.column.other!r}": self.other,
            f": {self.missing} of {rows} values are missing": self.missing,
            f": {self.bad} values cannot be used, the first in {self.first}": self.bad,
            " never varies": self.low >= self.high,
        }
        return [f"column {self.column.name!r}{words}" for words, holds in found.items() if holds]

    def losses(self) -> list[tuple[int, str]]:
        """Returns the numbers of lost values, with reason and advice."""
        other = "are counted as the category for others: state more categories if they are public"
        return [
            (self.clamped, "are clipped to the bounds: state wider bounds if they are public"),
            (self.other, other),
            (self.bad, "cannot be used, nor can their rows: correct the column's kind, bounds or categories"),
        ]
