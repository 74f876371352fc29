"""Constraints on the rows of a table: public facts that every synthetic row obeys exactly.

    left <= right     order of two columns, also <, >= and >
    total = a + b     sum of columns, also with -
    A implies B       B is a condition of comparisons joined by "and"
    Combination       listed combinations of categories

A constraint holds where one of its values is missing. Synthetic rows are made to obey in `Rules.obey`, and nowhere
else: each constraint moves the values of rows that break it, until all hold. A row that still breaks one takes the
constrained columns of a row that is known to obey all. This is a function of the synthetic row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, Protocol

import numpy as np

from dpdistill.schema.column import Column
from dpdistill.schema.condition import Comparison, Condition, Facts, Junction, parse_condition, tokens_of
from dpdistill.schema.errors import DataError
from dpdistill.schema.facts import STRICT

ROWS = 512
"""Random rows among which one is sought that obeys all constraints."""
FORMS = "left <= right, total = a + b, or: condition implies condition"


@dataclass(frozen=True)
class Combination:
    """Combinations of categories that rows may have.

    Args:
        columns: names of two or more columns of categories.
        rows: the combinations, one category for each column.
    """

    __pydantic_config__ = STRICT
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Constrained(Facts, Protocol):
    """Facts of a table with constraints."""

    @property
    def constraints(self) -> tuple[str, ...]: ...
    @property
    def combinations(self) -> tuple[Combination, ...]: ...


@dataclass(frozen=True)
class Order:
    """left <= right, or left < right. A date against a datetime counts from its first to its last second."""

    text: str
    columns: tuple[int, int]
    left: Column
    right: Column
    strict: bool

    def holds(self, X: np.ndarray) -> np.ndarray:
        left, right = X[:, self.columns[0]], X[:, self.columns[1]]
        least = self._least(left)
        return np.isnan(left) | np.isnan(right) | (right >= least)

    def repair(self, X: np.ndarray, rows: np.ndarray) -> None:
        i, j = self.columns
        X[rows, j] = self.right.snap(self._least(X[rows, i]), np.ceil)
        rows = rows[~self.holds(X[rows])]  # the upper bound of the right column was in the way
        X[rows, i] = self.left.snap(self._most(X[rows, j]), np.floor)

    def _least(self, left: np.ndarray) -> np.ndarray:
        """Returns the least value of the right column for values of the left one."""
        ours, theirs = _unit(self.left), _unit(self.right)
        if ours != theirs:
            return np.floor((left * ours + self.strict) / theirs)
        if not self.strict:
            return left
        return left + 1 if self.left.is_whole and self.right.is_whole else np.nextafter(left, np.inf)

    def _most(self, right: np.ndarray) -> np.ndarray:
        """Returns the largest value of the left column for values of the right one."""
        ours, theirs = _unit(self.left), _unit(self.right)
        if ours != theirs:
            return np.floor((right * theirs + theirs - 1 - self.strict) / ours)
        if not self.strict:
            return right
        return right - 1 if self.left.is_whole and self.right.is_whole else np.nextafter(right, -np.inf)


@dataclass(frozen=True)
class Sum:
    """total = a + b - c, rounded to the parts' common decimal places."""

    text: str
    columns: tuple[int, ...]
    signs: tuple[int, ...]
    parts: int | None

    def _sums(self, X: np.ndarray) -> np.ndarray:
        sums = np.zeros(len(X))
        for sign, column in zip(self.signs, self.columns[1:], strict=True):
            sums += sign * X[:, column]
        return sums if self.parts is None else np.rint(sums * self.parts) / self.parts + 0.0

    def holds(self, X: np.ndarray) -> np.ndarray:
        total, sums = X[:, self.columns[0]], self._sums(X)
        return np.isnan(total) | np.isnan(sums) | (np.abs(total - sums) <= 1e-9 * np.maximum(1.0, np.abs(sums)))

    def repair(self, X: np.ndarray, rows: np.ndarray) -> None:
        X[rows, self.columns[0]] = self._sums(X[rows])


@dataclass(frozen=True)
class Implies:
    """Rows that fulfil a condition also fulfil comparisons."""

    text: str
    columns: tuple[int, ...]
    condition: Condition
    consequence: tuple[tuple[Comparison, Column], ...]

    def holds(self, X: np.ndarray) -> np.ndarray:
        found = np.ones(len(X), bool)
        for comparison, _ in self.consequence:
            found &= _holds(comparison, X)
        return ~self.condition.holds(X) | found

    def repair(self, X: np.ndarray, rows: np.ndarray) -> None:
        for comparison, column in self.consequence:
            some = rows[~_holds(comparison, X[rows])]
            X[some, comparison.column] = _nearest(comparison, column, X[some, comparison.column])


@dataclass(frozen=True, eq=False)
class Combined:
    """Columns of categories have listed combinations."""

    text: str
    columns: tuple[int, ...]
    rows: np.ndarray
    sizes: tuple[int, ...]

    def _keys(self, codes: np.ndarray) -> np.ndarray:
        return np.asarray(np.ravel_multi_index(tuple(codes.T.astype(np.intp)), self.sizes))

    def holds(self, X: np.ndarray) -> np.ndarray:
        codes = X[:, self.columns]
        absent = np.isnan(codes).any(1)
        return absent | np.isin(self._keys(np.where(np.isnan(codes), 0, codes)), self._keys(self.rows))

    def repair(self, X: np.ndarray, rows: np.ndarray) -> None:
        """Takes a listed combination with the same first columns; the row's other columns choose among several."""
        distinct, at = np.unique(X[rows[:, None], list(self.columns)], axis=0, return_inverse=True)
        weights = 2.0 ** -np.arange(len(self.columns))
        for k, codes in enumerate(distinct):
            alike = (self.rows == codes) @ weights
            best = np.flatnonzero(alike == alike.max())
            found = self.rows[best[int(codes.sum()) % len(best)]]
            X[rows[at.ravel() == k][:, None], list(self.columns)] = found


Rule = Order | Sum | Implies | Combined
"""A constraint. `columns` are indices; `holds(X)` returns whether each raw row obeys, (n,). `repair(X, rows)` moves
values of the rows with these indices, which break the constraint, in place.
"""


class Rules:
    """Constraints of a table, and a row that obeys all.

    Args:
        schema: facts of the table; only its columns, constraints and combinations are read.

    Raises:
        DataError: an unknown form or column, columns that cannot be compared, or constraints that no row obeys.
    """

    def __init__(self, schema: Constrained) -> None:
        self.all: list[Rule] = [_parsed(text, schema) for text in schema.constraints]
        self.all += [_combined(each, schema) for each in schema.combinations]
        self.columns = sorted({i for rule in self.all for i in rule.columns})
        self._row = np.zeros(len(schema.columns))
        for k in range(1, len(self.all) + 1):
            found = _swept(_random_rows(schema), self.all[:k])
            kept = np.all([rule.holds(found) for rule in self.all[:k]], axis=0)
            if not kept.any():
                raise DataError(
                    f"Expected constraints that a row can obey; none of {ROWS} rows obeys {self.all[k - 1].text!r:.80} "
                    "and those before it: one contradicts another, or the bounds."
                )
            self._row = found[int(kept.argmax())]

    def obey(self, X: np.ndarray) -> np.ndarray:
        """Returns rows (n, columns) of which each obeys every constraint."""
        X = _swept(X, self.all)
        broken = ~np.all([rule.holds(X) for rule in self.all], axis=0)
        X[np.ix_(broken, self.columns)] = self._row[self.columns]
        return X


def _swept(X: np.ndarray, rules: Sequence[Rule]) -> np.ndarray:
    """Repairs rows, as often as a chain of all constraints may need."""
    X = X.copy()
    for _ in range(len(rules) + 1):
        for rule in rules:
            if len(rows := np.flatnonzero(~rule.holds(X))):
                rule.repair(X, rows)
    return X


def _random_rows(schema: Constrained) -> np.ndarray:
    rng, X = np.random.default_rng(0), np.empty((ROWS, len(schema.columns)))
    for i, column in enumerate(schema.columns):
        u = rng.random(ROWS)
        if column.is_number:
            low, high = column.ends
            X[:, i] = column.snap(low + u * (high - low))
        else:
            X[:, i] = np.floor(u * len(column.categories))
        X[rng.random(ROWS) < 0.2 * column.missing, i] = np.nan
    return X


def _parsed(text: str, schema: Constrained) -> Rule:
    names = [column.name for column in schema.columns]
    tokens = tokens_of(text)
    words = [token.text for token in tokens]
    if "implies" in (word.lower() for word in words if word not in names):
        return _implication(text, schema)
    if len(tokens) >= 3 and tokens[1].fixed and words[0] in names:
        if len(tokens) == 3 and words[1] in ("<=", "<", ">=", ">") and words[2] in names:
            pair = (words[0], words[2]) if "<" in words[1] else (words[2], words[0])
            return _order(text, schema, (names.index(pair[0]), names.index(pair[1])), "=" not in words[1])
        if len(tokens) >= 5 and words[1] == "=" and {*words[3::2]} <= {"+", "-"} and {*words[2::2]} <= {*names}:
            at = tuple(names.index(name) for name in (words[0], *words[2::2]))
            return _sum(text, schema, at, (1, *(1 if sign == "+" else -1 for sign in words[3::2])))
    if schema.label in words:
        raise DataError(f"Expected a constraint on columns, not on the label {schema.label!r:.80}; got {text!r:.80}.")
    raise DataError(f"Expected a constraint such as {FORMS}, with names of columns; got {text!r:.80}.")


def _unit(column: Column) -> int:
    return column.time.unit if column.is_time else 1


def _is_day(column: Column) -> bool:
    return column.kind in ("date", "datetime")


def _order(text: str, schema: Constrained, at: tuple[int, int], strict: bool) -> Order:
    left, right = (schema.columns[i] for i in at)
    alike = (left.is_time, _is_day(left), left.zone is None) == (right.is_time, _is_day(right), right.zone is None)
    if not alike or not left.is_number or not right.is_number or at[0] == at[1]:
        raise DataError(
            f"Expected two numbers, two durations, or two dates or datetimes with or without a zone in {text!r:.80}."
        )
    return Order(text, at, left, right, strict)


def _sum(text: str, schema: Constrained, at: tuple[int, ...], signs: tuple[int, ...]) -> Sum:
    total, *parts = columns = [schema.columns[i] for i in at]
    days = sum(sign * _is_day(part) for sign, part in zip(signs, parts, strict=True))
    kinds = {(column.is_time, _unit(column)) for column in columns}
    if (
        len({*at}) < len(at)
        or len(kinds) > 1
        or not all(column.is_number for column in columns)
        or days != _is_day(total)
    ):
        raise DataError(f"Expected different columns of numbers, or of times with one resolution, in {text!r:.80}.")
    ends = [sorted(sign * end for end in part.ends) for sign, part in zip(signs, parts, strict=True)]
    low, high = sum(end[0] for end in ends), sum(end[1] for end in ends)
    if low < total.ends[0] or high > total.ends[1]:
        shown = [total.text(end) if total.is_time else f"{end:g}" for end in (low, high)]
        raise DataError(
            f"Expected bounds of {total.name!r:.80} that hold every sum of {text!r:.80}, from {shown[0]} to {shown[1]}."
        )
    grids = [part.grid for part in parts]
    if total.grid is not None and not all(
        grid and grid[0] * total.grid[1] % (total.grid[0] * grid[1]) == 0 for grid in grids
    ):
        raise DataError(
            f"Expected parts of {text!r:.80} whose steps and places are multiples of those of {total.name!r:.80}."
        )
    return Sum(text, at, signs, lcm(*(grid[1] for grid in grids if grid)) if all(grids) else None)


def _implication(text: str, schema: Constrained) -> Implies:
    first, _, second = text.partition(" implies ")
    condition, consequence = parse_condition(first, schema), parse_condition(second, schema)
    parts = consequence.parts if isinstance(consequence, Junction) and consequence.word == "and" else (consequence,)
    used = (*_columns_of(condition), *(i for part in parts for i in _columns_of(part)))
    if len(schema.columns) in used:
        raise DataError(f"Expected a constraint on columns, not on the label {schema.label!r:.80}; got {text!r:.80}.")
    moved: list[tuple[Comparison, Column]] = []
    for part in parts:
        if not isinstance(part, Comparison):
            raise DataError(f"Expected comparisons joined by and after implies; got {second!r:.80}.")
        moved.append((part, schema.columns[part.column]))
    return Implies(text, tuple(sorted({*used})), condition, tuple(moved))


def _columns_of(condition: Condition) -> tuple[int, ...]:
    if isinstance(condition, Comparison):
        return (condition.column,)
    return tuple(i for part in condition.parts for i in _columns_of(part))


def _holds(comparison: Comparison, X: np.ndarray) -> np.ndarray:
    """Returns whether rows fulfil a comparison, or lack its value; only `is not missing` asks for a value."""
    absent = np.isnan(X[:, comparison.column]) & (comparison.sign not in ("missing", "known"))
    return comparison.holds(X) | absent


def _nearest(comparison: Comparison, column: Column, x: np.ndarray) -> Any:
    """Returns the nearest value that fulfils a comparison, where there is one."""
    sign, codes = comparison.sign, np.array(comparison.codes)
    if sign == "missing":
        return np.nan if column.missing else x
    if sign == "known":
        return column.snap(np.full(len(x), sum(column.ends) / 2)) if column.is_number else 0.0
    if sign in ("=", "in"):
        codes = codes[column.snap(codes) == codes] if column.is_number else codes
        return codes[np.abs(np.nan_to_num(x)[:, None] - codes).argmin(1)] if len(codes) else x
    if not column.is_number:
        size = len(column.categories)
        steps = {"!=": (codes[0] + 1) % size, "<": codes[0] - 1, "<=": codes[0], ">": codes[0] + 1, ">=": codes[0]}
        return min(max(steps[sign], 0), size - 1)
    step = 1.0 if column.grid is None else column.grid[0] / column.grid[1]
    below, above = (column.snap(codes[:1] + d, to)[0] for d, to in ((-step / 2, np.floor), (step / 2, np.ceil)))
    if sign == "!=":
        return above if above != codes[0] else below
    if sign in ("<=", ">="):
        return column.snap(codes[:1], np.floor if sign == "<=" else np.ceil)[0]
    return below if sign == "<" else above


def _combined(given: Combination, schema: Constrained) -> Combined:
    names = {column.name: i for i, column in enumerate(schema.columns)}
    shown = ", ".join(given.columns)
    columns = [schema.columns[names[name]] for name in given.columns if name in names]
    if (
        len(columns) < max(2, len(given.columns))
        or len({*given.columns}) < len(columns)
        or any(c.is_number for c in columns)
    ):
        raise DataError(f"Expected two or more different columns of categories in a combination; got {shown!r:.80}.")
    if not given.rows:
        raise DataError(f"Expected at least one combination of {shown!r:.80}.")
    rows = np.empty((len(given.rows), len(columns)))
    for k, row in enumerate(given.rows):
        if len(row) != len(columns):
            raise DataError(
                f"Expected {len(columns)} categories in each combination of {shown!r:.80}; got {row!r:.80}."
            )
        for j, (column, text) in enumerate(zip(columns, row, strict=True)):
            if text not in column.categories:
                raise DataError(f"Expected categories of {column.name!r:.80} in its combinations; got {text!r:.80}.")
            rows[k, j] = column.categories.index(text)
    at = tuple(names[name] for name in given.columns)
    return Combined(f"combinations of {shown}", at, rows, tuple(len(column.categories) for column in columns))
