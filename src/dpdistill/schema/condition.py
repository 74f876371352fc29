"""Conditions on the rows of a table, written by people: `age > 60 and ward = B`, `ward in (A, B) or cost is missing`.

    condition   = part { "or" part },  part = term { "and" term },  term = [ "not" ] ( comparison | "(" condition ")" )
    comparison  = name ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
                | name "in" "(" value { "," value } ")"  |  name "is" [ "not" ] "missing"

Names and values with spaces or signs stand in quotes. A missing value fulfils no comparison but `is missing`. Values of
dates are texts such as 2020-01-31, those of durations numbers of the column's unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpdistill.schema.column import Column
from dpdistill.schema.errors import DataError
from dpdistill.schema.number_text import NUMBER, number_key
from dpdistill.schema.times import code_of_bound

_TOKEN = re.compile(
    r"""\s*(?:(?P<sign><=|>=|!=|==|[=<>(),])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s<>=!(),"']+))"""
)
MOST_TOKENS, MOST_DEPTH = 1_000, 20
_WORDS = ("and", "or", "not", "in", "is")


class Facts(Protocol):
    """Facts of a table: columns, name of the label's column and classes."""

    @property
    def columns(self) -> tuple[Column, ...]: ...
    @property
    def label(self) -> str | None: ...
    @property
    def classes(self) -> tuple[str, ...]: ...


class Token(NamedTuple):
    """Part of a condition: its text, and whether it is a sign or a word of the language rather than a name or value."""

    text: str
    fixed: bool


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a condition.

    Raises:
        DataError: a text that cannot be divided into tokens, such as one with an open quote.
    """
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or len(found) >= MOST_TOKENS:
            raise DataError(
                f"Expected a condition such as age > 60 and ward = B; cannot read {text[at:].strip()!r:.80}."
            )
        sign, word = match["sign"], match["word"]
        plain = next(part for part in match.groups() if part is not None)
        found.append(Token(plain, bool(sign) or (word is not None and word.lower() in _WORDS)))
        at = match.end()
    return found


@dataclass(frozen=True)
class Comparison:
    """Comparison of a column, or of the label, with values.

    Args:
        column: index of the column; the number of columns for the label.
        sign: "=", "!=", "<", "<=", ">", ">=", "in", "missing" or "known".
        codes: numbers, codes of times, indices of categories or classes.
    """

    column: int
    sign: str
    codes: tuple[float, ...] = ()

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether raw rows (n, columns + 1), the label's index last, fulfil the comparison, (n,)."""
        return self.met(rows[:, self.column])

    def met(self, x: np.ndarray) -> np.ndarray:
        """Returns whether values of the column (n,), NaN for missing ones, fulfil the comparison, (n,)."""
        match self.sign:
            case "missing":
                return np.isnan(x)
            case "known":
                return ~np.isnan(x)
            case "=" | "in":
                return np.isin(x, self.codes)
            case "!=":
                return ~np.isin(x, self.codes) & ~np.isnan(x)
            case "<":
                return x < self.codes[0]
            case "<=":
                return x <= self.codes[0]
            case ">":
                return x > self.codes[0]
        return x >= self.codes[0]


@dataclass(frozen=True)
class Junction:
    """Conditions joined by "and", by "or", or one condition after "not"."""

    word: str
    parts: tuple[Condition, ...]

    def holds(self, rows: np.ndarray) -> np.ndarray:
        """Returns whether raw rows (n, columns + 1), the label's index last, fulfil the condition, (n,)."""
        found = [part.holds(rows) for part in self.parts]
        return ~found[0] if self.word == "not" else (np.all if self.word == "and" else np.any)(found, axis=0)


Condition = Comparison | Junction


def parse_condition(text: str, schema: Facts) -> Condition:
    """Returns the condition in a text.

    Args:
        text: such as `age > 60 and ward = B`.
        schema: facts of the table: names, kinds, categories, label and classes.

    Raises:
        DataError: a text that is no condition, an unknown column or category, or a comparison that a column lacks.
    """
    reader = _Reader(tokens_of(text), schema)
    condition = reader.condition(0)
    if reader.rest:
        raise DataError(f"Expected and, or, or the end of the condition; got {reader.rest[0].text!r:.80}.")
    return condition


def rows_of(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns raw rows with the class index as last column, for `holds`."""
    return np.column_stack([X, y])


class _Reader:
    """Reader of tokens from left to right."""

    def __init__(self, tokens: list[Token], schema: Facts) -> None:
        self.rest, self._schema = tokens, schema
        self._names = [column.name for column in schema.columns]

    def condition(self, depth: int) -> Condition:
        return self._joined("or", lambda: self._joined("and", lambda: self._term(depth)))

    def _joined(self, word: str, part: Any) -> Condition:
        parts = [part()]
        while self._next_is(word):
            self.rest = self.rest[1:]
            parts.append(part())
        return parts[0] if len(parts) == 1 else Junction(word, tuple(parts))

    def _term(self, depth: int) -> Condition:
        if depth > MOST_DEPTH:
            raise DataError(f"Expected at most {MOST_DEPTH} brackets or not within each other.")
        if self._next_is("not"):
            self.rest = self.rest[1:]
            return Junction("not", (self._term(depth + 1),))
        if self._next_is("("):
            self.rest = self.rest[1:]
            inner = self.condition(depth + 1)
            self._take(")")
            return inner
        return self._comparison()

    def _next_is(self, *words: str) -> bool:
        return bool(self.rest) and self.rest[0].fixed and self.rest[0].text.lower() in words

    def _take(self, *expected: str) -> str:
        if not self._next_is(*expected):
            raise DataError(f"Expected {' or '.join(expected)} in the condition; got {self._shown()}.")
        token, *self.rest = self.rest
        return token.text.lower()

    def _plain(self, what: str) -> str:
        if not self.rest or self.rest[0].fixed:
            raise DataError(f"Expected {what} in the condition; got {self._shown()}.")
        token, *self.rest = self.rest
        return token.text

    def _shown(self) -> str:
        return f"{self.rest[0].text!r:.80}" if self.rest else "its end"

    def _comparison(self) -> Comparison:
        name = self._plain("the name of a column")
        column, at = self._column(name)
        sign = self._take("=", "==", "!=", "<", "<=", ">", ">=", "in", "is").replace("==", "=")
        if sign == "is":
            known = self._next_is("not")
            self.rest = self.rest[known:]
            if self._plain("missing").lower() != "missing":
                raise DataError("Expected is missing, or is not missing, in the condition.")
            return Comparison(at, "known" if known else "missing")
        if sign == "in":
            self._take("(")
            codes = [self._code(column)]
            while self._take(",", ")") == ",":
                codes.append(self._code(column))
            return Comparison(at, sign, tuple(codes))
        if column.kind == "categorical" and sign not in ("=", "!="):
            raise DataError(f"Expected = or != for {name!r:.80}, whose categories have no order; got {sign}.")
        return Comparison(at, sign, (self._code(column),))

    def _column(self, name: str) -> tuple[Column, int]:
        """Returns a column and its index; the label is a column of categories."""
        if name in self._names:
            return self._schema.columns[self._names.index(name)], self._names.index(name)
        label = self._schema.label
        if name == label:
            return Column(name, "categorical", categories=self._schema.classes), len(self._names)
        known = ", ".join([*self._names[:20], *(["..."] if len(self._names) > 20 else [])])
        raise DataError(f"Expected a column of the table in the condition ({known}); got {name!r:.80}.")

    def _code(self, column: Column) -> float:
        text = self._plain(f"a value of {column.name!r:.80}")
        if column.is_time:
            code = code_of_bound(f"column {column.name!r} in the condition", column.time, text)
            return float(code)
        if column.is_number:
            if not NUMBER.fullmatch(text):
                raise DataError(f"Expected a number to compare {column.name!r:.80} with; got {text!r:.80}.")
            return float(text)
        found = {number_key(name): i for i, name in enumerate(column.categories)}.get(number_key(text))
        if found is None:
            raise DataError(f"Expected a category of {column.name!r:.80} in the condition; got {text!r:.80}.")
        return float(found)
