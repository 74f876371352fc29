"""A recipe: the fields of a method, what each may hold, and how they are written as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from dpdistill.query import Stage
from dpdistill.recipe.parts import Part
from dpdistill.recipe.rules import Bounds, rules_of
from dpdistill.schema import AnySchema, Schema

T = TypeVar("T")
ORIGINS = ("package default", "selected on ")
"""How a method's own origin begins: a certificate takes no other."""


def release_field(
    default: T,
    help: str,
    *,
    finish: bool = False,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> T:
    """A recipe field that shapes the releases: it is fixed once they are paid.

    The field's type says what it holds: int, float, bool, Literal of words, tuple[Literal of words, ...] or a class.

    Args:
        default: of that type.
        help: what it means, for a table of all fields.
        finish: that it shapes no release, as with `finish_field`.
        gt: a number that the value is more than.
        ge: the least value.
        lt: a number that the value is less than.
        le: the largest value.
    """
    bounds = Bounds(gt=gt, ge=ge, lt=lt, le=le)
    return field(default=default, metadata={"help": help, "finish": finish, "bounds": bounds})


def finish_field(default: T, help: str, **bounds: Any) -> T:
    """A recipe field that only `finish` reads: it may change when paid releases are used again."""
    return release_field(default, help, finish=True, **bounds)


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
        _check_release_fields(type(self))
        super().__post_init__()

    @abstractmethod
    def plan(self) -> tuple[Stage, ...]:
        """The rounds it promises, before any record is read."""


@lru_cache(maxsize=512)
def _check_release_fields(kind: type[Recipe]) -> None:
    """Refuse a recipe with a field that has no help, or that cannot be written as text on the command line."""
    for each in fields(kind):
        if "help" not in each.metadata:
            raise TypeError(f"Expected {kind.__name__}.{each.name} to be a release_field or a finish_field.")
    for name, rule in rules_of(kind).items():
        if rule.optional or rule.length is not None:
            raise TypeError(
                f"Expected {kind.__name__}.{name} of type int, float, bool, str, Literal of words, "
                f"tuple[Literal of words, ...] or a class; got {rule.noun}."
            )


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
