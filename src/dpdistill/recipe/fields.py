"""Recipes: the fields of a method, their allowed values, and their JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeVar

from dpdistill.query import Stage
from dpdistill.recipe.parts import Part
from dpdistill.recipe.rules import Bounds, rules_of
from dpdistill.schema import AnySchema, Schema

T = TypeVar("T")
ORIGINS = ("package default", "selected on ")
"""Allowed beginnings of a method's origin; a certificate accepts no others."""


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
    """Returns a recipe field that shapes the releases and is fixed once the releases are paid for.

    The field's type states its values: int, float, bool, Literal of words, tuple[Literal of words, ...] or a class.

    Args:
        default: a value of that type.
        help: meaning of the field, for a table of all fields.
        finish: whether the field shapes no release, as in `finish_field`.
        gt: exclusive lower bound.
        ge: inclusive lower bound.
        lt: exclusive upper bound.
        le: inclusive upper bound.
    """
    bounds = Bounds(gt=gt, ge=ge, lt=lt, le=le)
    return field(default=default, metadata={"help": help, "finish": finish, "bounds": bounds})


def finish_field(default: T, help: str, **bounds: Any) -> T:
    """Returns a recipe field that only `finish` reads: it may change when paid releases are used again."""
    return release_field(default, help, finish=True, **bounds)


@dataclass(frozen=True, kw_only=True)
class Recipe(Part, ABC):
    """Settings of a method and the rounds of its plan, known before the method's code is imported.

    Every field is a `release_field` or a `finish_field`, which state its allowed values. A recipe checks its fields on
    construction; rules that join several fields are in `__post_init__` of the subclass. The class of the same name in
    the module `code` is the method itself (`Method`), which computes.

    Attributes:
        name: short name, for the table of methods and the command line.
        title: "SHORT: description", for human readers.
        references: the papers.
        origin: source of the defaults.
        private: whether the method can be run under a budget; other methods run without a guarantee only.
        linear: whether the method asks linear queries; then its first query is linear.
        schemas: kinds of records that the method distils.
        main_stage: index of the stage in the plan with the main signal.
        least_classes: smallest number of classes; 1 if the method can learn from a single class.
        target: whether the method learns from a table with a number to predict: never, also, or only.
        judged: whether the method releases a classifier of images, so that `plan` judges the size of classes.
        cell_noise: standard deviation of the noise of a cell in a chosen table, as a multiple of the main stage's noise
            multiplier; None without tables of counts.
        later: fields that version 0.9.0 does not have; they are not saved while they have their defaults.

    Raises:
        ValueError: a field holds a value that is not allowed.
        TypeError: a class omits a part of the contract.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    references: ClassVar[tuple[str, ...]]
    origin: ClassVar[str] = "package default"
    private: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    schemas: ClassVar[tuple[type[AnySchema], ...]] = (Schema,)
    least_classes: ClassVar[int] = 2
    target: ClassVar[Literal["never", "also", "only"]] = "never"
    judged: ClassVar[bool] = False
    later: ClassVar[tuple[str, ...]] = ()

    @property
    def cell_noise(self) -> float | None:
        return None

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
        """Returns the stages of the run, before any record is read."""


@lru_cache(maxsize=512)
def _check_release_fields(kind: type[Recipe]) -> None:
    """Refuses a recipe with a field without help, or with a field that cannot be written on the command line."""
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
    """Returns a recipe field as JSON: a dataclass as {"kind": its class, field: value, ...}, a tuple as a list.

    Fields that do not count when two dataclasses are compared, such as arrays identified by a hash, are omitted.
    Optional parts that are None are omitted, too.

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
