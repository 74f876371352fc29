"""A recipe: the fields of a method, what each may hold, and how they are written as JSON."""

from __future__ import annotations

import math
import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from dpdistill.query import Stage
from dpdistill.recipe.parts import Part
from dpdistill.schema import AnySchema, Schema

MOST = 2**31
"""What all whole numbers of a recipe stay below: they are sizes and seeds."""
WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "a tuple of words",
}


ORIGINS = ("package default", "selected on ")
"""How a method's own origin begins: a certificate takes no other."""


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What a recipe field may hold.

    Args:
        kind: class of the value: int (below MOST), float (finite; whole numbers count), bool, str (a word), tuple (of
            words), or that of a kernel.
        at_least: least number, itself allowed.
        above: a number that every allowed one is more than.
        at_most: largest number, itself allowed.
        below: a number that every allowed one is less than.
        choices: words that may be, or that a tuple may hold.
    """

    kind: type
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is not allowed.

        Raises:
            ValueError: with the field's name and the value.
        """
        if not self._is_of_kind(value):
            wanted = WORDS.get(self.kind, f"a {self.kind.__name__}")
            raise ValueError(f"Expected {name} as {wanted}; got {name}={value!r}.")
        words = [value] if self.kind is str else value if self.kind is tuple else ()
        unknown = [str(word) for word in words if word not in self.choices]
        if unknown:
            raise ValueError(f"Expected {name} among {', '.join(self.choices)}; got {', '.join(unknown)}.")
        if self.kind in (int, float) and not self._is_within(value):
            raise ValueError(f"Expected {self.bounds(f'{name}={reprlib.repr(value)}')}{self._also(value)}.")

    def bounds(self, number: str) -> str:
        """The bounds as a formula of a number: "0 < number <= 1", "number >= 1"."""
        above, below = self.above is not None, self.below is not None
        low, high = self.above if above else self.at_least, self.below if below else self.at_most
        end = "" if high is None else f" {'<' if below else '<='} {high}"
        if low is None:
            return number + end
        return f"{low} {'<' if above else '<='} {number}{end}" if end else f"{number} {'>' if above else '>='} {low}"

    def __str__(self) -> str:
        if self.kind in (int, float):
            return self.bounds("whole" if self.kind is int else "x")
        return (" or " if self.kind is str else ", ").join(self.choices) or WORDS.get(self.kind, self.kind.__name__)

    def _is_of_kind(self, value: Any) -> bool:
        if self.kind is float:
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, self.kind) and (self.kind is not int or not isinstance(value, bool))

    def _is_within(self, value: float) -> bool:
        low = (self.at_least is None or value >= self.at_least) and (self.above is None or value > self.above)
        high = (self.at_most is None or value <= self.at_most) and (self.below is None or value < self.below)
        return low and high and not self._also(value)

    def _also(self, value: float) -> str:
        """Returns what no number may be, whatever the bounds: not finite, or a size that no array has."""
        if isinstance(value, int):
            return "" if value < MOST else f" and < {MOST}"
        return "" if math.isfinite(value) else " and finite"


def release_field(default: Any, help: str, *, finish: bool = False, **allowed: Any) -> Any:
    """A recipe field that shapes the releases: it is fixed once they are paid.

    Args:
        default: of the kind that is allowed, unless `kind` is stated.
        help: what it means, for a table of all fields.
        finish: that it shapes no release, as with `finish_field`.
        allowed: bounds, choices or kind as `Allowed` has them.
    """
    holds = Allowed(**{"kind": type(default), **allowed})
    return field(default=default, metadata={"help": help, "finish": finish, "allowed": holds})


def finish_field(default: Any, help: str, **allowed: Any) -> Any:
    """A recipe field that only `finish` reads: it may change when paid releases are used again."""
    return release_field(default, help, finish=True, **allowed)


@dataclass(frozen=True, kw_only=True)
class Recipe(Part, ABC):
    """What a method is set to, and the rounds that it promises: known before the code of the method is imported.

    Every field is a `release_field` or a `finish_field`, which say what it may hold; a recipe is checked against them
    when it is made. What several fields must keep to together is checked in a `__post_init__` of its own, after this
    one. The class of the same name in the module `code` is the method itself (`Method`), which computes.

    Attributes:
        name: short, as the table of methods and the command line have it.
        title: "SHORT: what it is", for people.
        references: the papers.
        origin: where the defaults come from.
        private: whether it can be run under a budget; the others run without a guarantee only.
        linear: whether linear queries are among its own; then the first of them is one.
        schemas: kinds of records that it distils.
        main_stage: the stage of the plan that most is learned from.
        least_classes: that records must have; 1 where what they have in common can be learned without others.

    Raises:
        ValueError: a field that holds what it may not.
        TypeError: a class that leaves a part of the contract out.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    references: ClassVar[tuple[str, ...]]
    origin: ClassVar[str] = "package default"
    private: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    schemas: ClassVar[tuple[type[AnySchema], ...]] = (Schema,)
    least_classes: ClassVar[int] = 2

    @property
    def main_stage(self) -> int:
        return 0

    def __post_init__(self) -> None:
        for stated in ("name", "title", "references"):
            if not hasattr(self, stated):
                raise TypeError(f"Expected {type(self).__name__} to state its {stated}.")
        if not self.origin.startswith(ORIGINS):
            raise TypeError(
                f"Expected {type(self).__name__}'s origin to begin with 'package default' or 'selected on '."
            )
        for each in fields(self):
            if "allowed" not in each.metadata:
                raise TypeError(f"Expected {type(self).__name__}.{each.name} to be a release_field or a finish_field.")
            each.metadata["allowed"].check(each.name, getattr(self, each.name))

    @abstractmethod
    def plan(self) -> tuple[Stage, ...]:
        """The rounds it promises, before any record is read."""


def to_json(value: Any) -> Any:
    """A recipe field as JSON has it: a dataclass as {"kind": its class, field: value, ...}, a tuple as a list.

    Fields of a dataclass that do not count when two are compared, such as arrays behind a hash, are left out, and so
    are parts that it may have and has not.

    Example:
        >>> to_json(Stage(2))
        {'kind': 'Stage', 'rounds': 2, 'sampling_prob': 1.0, 'weight': 1.0}
    """
    if is_dataclass(value) and not isinstance(value, type):
        held = {f.name: getattr(value, f.name) for f in fields(value) if f.compare}
        left_out = {f.name for f in fields(value) if f.default is None and held.get(f.name) is None}
        return {"kind": type(value).__name__, **{n: to_json(part) for n, part in held.items() if n not in left_out}}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value
