"""Rules of recipe fields: type, bounds and choices for pydantic, and the sentence of a refusal."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, fields, make_dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MOST = 2**31
"""Exclusive upper bound of all whole numbers in a recipe: they are sizes and seeds."""
WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "a tuple of words",
}


class Bounds(TypedDict):
    """Bounds of a number, as in `Rule`."""

    gt: float | None
    ge: float | None
    lt: float | None
    le: float | None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Allowed values of a recipe field.

    Args:
        kind: class of the value: int (below MOST), float (finite; whole numbers count), bool, str (a word), tuple (of
            words), a kernel or public images.
        choices: allowed words, also inside a tuple.
        gt: exclusive lower bound.
        ge: inclusive lower bound.
        lt: exclusive upper bound.
        le: inclusive upper bound.
    """

    kind: type
    choices: tuple[str, ...] = ()
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    @property
    def annotation(self) -> Any:
        """The type with bounds for pydantic: strict, so that no value is converted."""
        from pydantic import BeforeValidator, Field, InstanceOf

        if self.kind not in WORDS:
            return InstanceOf[self.kind]
        if self.choices:
            words = Literal[self.choices]
            return words if self.kind is str else Annotated[tuple[words, ...], Field(strict=True)]
        if self.kind in (int, float):
            numbers = Annotated[self.kind, Field(strict=True, allow_inf_nan=False, gt=self.gt, ge=self.ge)]
            return Annotated[numbers, Field(lt=self.lt, le=self.le), BeforeValidator(_check_number)]
        return Annotated[self.kind, Field(strict=True)]

    def sentence(self, name: str, value: Any, fault: str) -> str:
        """Returns the reason for refusing a value.

        Args:
            name: name of the field.
            value: the refused value.
            fault: type of pydantic's error.
        """
        if fault == "literal_error" and isinstance(value, self.kind):
            unknown = [str(word) for word in ([value] if self.kind is str else value) if word not in self.choices]
            return f"Expected {name} among {', '.join(self.choices)}; got {', '.join(unknown)}."
        if fault in ("literal_error", "is_instance_of") or fault.endswith("_type"):
            return f"Expected {name} as {WORDS.get(self.kind, f'a {self.kind.__name__}')}; got {name}={value!r}."
        return f"Expected {self.bounds(f'{name}={reprlib.repr(value)}')}{_also(value)}."

    def bounds(self, number: str) -> str:
        """Returns the bounds as a formula of a number: "0 < number <= 1", "number >= 1"."""
        above, below = self.gt is not None, self.lt is not None
        low, high = self.gt if above else self.ge, self.lt if below else self.le
        end = "" if high is None else f" {'<' if below else '<='} {high}"
        if low is None:
            return number + end
        return f"{low} {'<' if above else '<='} {number}{end}" if end else f"{number} {'>' if above else '>='} {low}"

    def __str__(self) -> str:
        if self.kind in (int, float):
            return self.bounds("whole" if self.kind is int else "x")
        return (" or " if self.kind is str else ", ").join(self.choices) or WORDS.get(self.kind, self.kind.__name__)


def _check_number(value: Any) -> Any:
    """Returns a value of Python's own number types and refuses others, such as np.True_, which pydantic converts."""
    from pydantic_core import PydanticKnownError

    if not isinstance(value, int | float):
        raise PydanticKnownError("float_type")
    if isinstance(value, int) and abs(value) >= MOST:
        raise ValueError(f"Expected a number < {MOST}.")
    return value


def _also(value: float) -> str:
    """Returns bounds that every number has: finite, and no size that exceeds any array."""
    if isinstance(value, int):
        return "" if value < MOST else f" and < {MOST}"
    return "" if abs(value) < float("inf") else " and finite"


@lru_cache(maxsize=512)
def rules_of(kind: type) -> dict[str, Rule]:
    """Returns the rules of a recipe's fields by name, from their types and bounds.

    Raises:
        TypeError: a field that is neither a release_field nor a finish_field, or a field of another type.
    """
    types = get_type_hints(kind)
    for each in fields(kind):
        if "bounds" not in each.metadata:
            raise TypeError(f"Expected {kind.__name__}.{each.name} to be a release_field or a finish_field.")
    return {f.name: _rule(f"{kind.__name__}.{f.name}", types[f.name], f.metadata["bounds"]) for f in fields(kind)}


def _rule(place: str, stated: Any, bounds: Bounds) -> Rule:
    """Returns the rule of a field with a type such as float, Literal["a", "b"] or tuple[Literal["a", "b"], ...]."""
    inner = get_args(stated)
    if get_origin(stated) is Literal:
        return Rule(kind=str, choices=inner)
    if get_origin(stated) is tuple and inner[1:] == (...,) and get_origin(inner[0]) is Literal:
        return Rule(kind=tuple, choices=get_args(inner[0]))
    if not isinstance(stated, type) or stated is tuple:
        raise TypeError(
            f"Expected {place} of type int, float, bool, str, Literal of words, tuple[Literal of words, ...] or a "
            f"class; got {stated}."
        )
    if stated not in (int, float) and any(bound is not None for bound in bounds.values()):
        raise TypeError(f"Expected {place} without bounds, which are for int and float; got {stated.__name__}.")
    return Rule(kind=stated, **bounds)


@lru_cache(maxsize=512)
def _validator(kind: type) -> TypeAdapter:
    """Returns the checks of all fields. Importing pydantic is slow, so it happens with the first recipe."""
    from pydantic import TypeAdapter

    held = [(name, rule.annotation) for name, rule in rules_of(kind).items()]
    return TypeAdapter(make_dataclass(kind.__name__, held))


def check_fields(recipe: Any) -> None:
    """Refuses a recipe with a field whose value is not allowed.

    Raises:
        ValueError: names the first such field and its value.
        TypeError: a class whose fields do not state their allowed values.
    """
    kind, values = type(recipe), {each.name: getattr(recipe, each.name) for each in fields(recipe)}
    validator = _validator(kind)
    try:
        validator.validate_python(values)
    except ValueError as error:  # a ValidationError is a ValueError
        fault: Any = error.errors(include_url=False)[0]  # type: ignore[attr-defined]
        name = fault["loc"][0]
        raise ValueError(rules_of(kind)[name].sentence(name, values[name], fault["type"])) from None
