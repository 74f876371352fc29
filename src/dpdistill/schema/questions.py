"""Questions about rows, such as "age>60 and ward=B": which bins of which columns they choose."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from dpdistill.schema.bins import ColumnBins, bins_of, edges_of
from dpdistill.schema.errors import DataError
from dpdistill.schema.table import Column, TableSchema
from dpdistill.schema.times import code_of_bound

_CONDITION = re.compile(r"(?P<name>.+?)\s*(?P<op><=|>=|!=|=|<|>|\bis not\b|\bis\b)\s*(?P<value>.+)", re.DOTALL)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_ORDERS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}
_EQUAL = {"=": np.equal, "!=": np.not_equal}


class Condition(NamedTuple):
    """A condition on a column or on the label.

    Args:
        attribute: index of the column; the number of columns stands for the label.
        op: one of = != < <= > >=, or "is" and "is not" for missing values.
        value: number, index of a category or class, or NaN for a missing value.
    """

    attribute: int
    op: str
    value: float


def conditions_of(question: str, schema: TableSchema) -> list[Condition]:
    """Returns the conditions of a question, which are joined by "and".

    Args:
        question: conditions such as "age>60", "ward=B", "ward!='A and B'" or "cost is missing". A value may stand in
            quotes. A missing value meets no condition but "is missing".
        schema: schema of the table.

    Raises:
        DataError: a text that is no condition, or an unknown column or category.
    """
    parts: list[str] = []
    for text in _AND.split(question.strip()):  # an "and" within quotes joins its neighbours again
        if parts and any(parts[-1].count(quote) % 2 for quote in ("'", '"')):
            parts[-1] = f"{parts[-1]} and {text}"
        else:
            parts.append(text)
    return [_condition(text, schema) for text in parts]


def _condition(text: str, schema: TableSchema) -> Condition:
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise DataError(f"Expected a condition such as age>60 or ward=B; got {text[:80]!r}.")
    name, op, value = found["name"].strip(), found["op"], found["value"].strip()
    names = [*(column.name for column in schema.columns), schema.label]
    if name not in names:
        raise DataError(f"Expected a column among {', '.join(names)[:300]}; got {name[:80]!r}.")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    attribute = names.index(name)
    if op in ("is", "is not"):
        if value != "missing":
            raise DataError(f"Expected `{name} is missing` or `{name} is not missing`; got {text[:80]!r}.")
        return Condition(attribute, op, np.nan)
    if attribute == len(schema.columns):
        return Condition(attribute, op, _index(name, op, value, schema.classes, False))
    column = schema.columns[attribute]
    if not column.is_number:
        return Condition(attribute, op, _index(name, op, value, column.categories, column.kind == "ordinal"))
    if column.is_time:
        return Condition(attribute, op, code_of_bound(f"column {name!r} in the question", column.time, value))
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise DataError(f"Expected a number to compare column {name!r} with; got {value[:80]!r}.")
    return Condition(attribute, op, number)


def _index(name: str, op: str, value: str, names: tuple[str, ...], ordered: bool) -> int:
    if op in _ORDERS and not ordered:
        raise DataError(f"Expected = or != for {name!r}, whose values have no order; got {op}.")
    if value not in names:
        raise DataError(f"Expected a value of {name!r} among {', '.join(names)[:300]}; got {value[:80]!r}.")
    return names.index(value)


class Chosen(NamedTuple):
    """Bins of an attribute that a question chooses.

    Args:
        whole: whether all values of each bin meet the conditions, (bins,), bool.
        some: whether some value of each bin may meet the conditions, (bins,), bool.
    """

    whole: np.ndarray
    some: np.ndarray


def bins_chosen(conditions: list[Condition], schema: TableSchema, intervals: int) -> dict[int, Chosen]:
    """Returns the bins that meet all conditions, for each attribute of a question.

    Args:
        conditions: conditions of a question.
        schema: schema of the table.
        intervals: bins of a number with many values.
    """
    bins, chosen = bins_of(schema, intervals), {}
    for condition in conditions:
        a = condition.attribute
        if a == len(bins):
            met = _met(np.arange(len(schema.classes)), condition)
            found = Chosen(met, met)
        else:
            found = _bins_met(condition, bins[a], schema.columns[a])
        before = chosen.get(a, found)
        chosen[a] = Chosen(before.whole & found.whole, before.some & found.some)
    return chosen


def _met(values: np.ndarray, condition: Condition) -> np.ndarray:
    if condition.op in ("is", "is not"):
        return np.full(len(values), condition.op == "is not")
    return {**_ORDERS, **_EQUAL}[condition.op](values, condition.value)


def _bins_met(condition: Condition, one: ColumnBins, column: Column) -> Chosen:
    """Returns the bins of a column that meet a condition."""
    if one.kind != "intervals" or condition.op in ("is", "is not"):
        low = (column.bounds or (0.0, 0.0))[0] if column.is_number else 0.0
        met = _met(low + np.arange(one.size), condition)
        found = Chosen(met, met)
    else:
        found = _intervals_met(condition, one, column)
    if not one.missing:
        return found
    absent = condition.op == "is"
    return Chosen(np.append(found.whole, absent), np.append(found.some, absent))


def _intervals_met(condition: Condition, one: ColumnBins, column: Column) -> Chosen:
    op, value = condition.op, condition.value
    first, last = edges_of(one, column)
    if column.is_whole:
        first, used = np.ceil(first), np.ceil(first) <= last
        inside = (first <= value) & (value <= last) & (value == np.rint(value))
        if op in _EQUAL:
            whole, some = inside & (first == last), inside
            return Chosen(whole & used, some & used) if op == "=" else Chosen(~some & used, ~whole & used)
        least, most = (_met(edge, condition) for edge in (first, last))
        return Chosen(least & most & used, (least | most) & used)
    if op in _EQUAL:
        inside = (first <= value) & (value <= last)
        return Chosen(np.zeros(one.size, bool), inside) if op == "=" else Chosen(~inside, np.ones(one.size, bool))
    strict = op in ("<", ">=")
    below = last <= value  # an edge belongs to the upper bin, and the upper bound to the last bin
    below[-1] &= last[-1] < value or not strict
    above = first >= value if strict else first > value
    return Chosen(below, ~above) if op in ("<", "<=") else Chosen(above, ~below)


def rows_met(conditions: list[Condition], X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns whether each row meets all conditions, (n,), bool.

    Args:
        conditions: conditions of a question.
        X: raw rows, (n, columns), NaN for missing values.
        y: class indices, (n,).
    """
    found = np.ones(len(y), bool)
    for condition in conditions:
        values = y.astype(np.float64) if condition.attribute == X.shape[1] else X[:, condition.attribute]
        absent = np.isnan(values)
        if condition.op in ("is", "is not"):
            found &= absent == (condition.op == "is")
        else:
            found &= ~absent & _met(values, condition)
    return found
