"""Rules of recipe fields: type, bounds and choices for pydantic, and the sentence of a refusal."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaValidator

T = TypeVar("T")
MOST = 2**31
"""Exclusive upper bound of whole numbers in a recipe without another upper bound: they are sizes and seeds."""
WORDS: dict[type | UnionType, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "a tuple of words",
}
NOUNS: dict[type | UnionType, str] = {}
"""Other kinds of values in words, such as "a feature map"."""


class Bounds(TypedDict):
    """Bounds of a number, as in `Rule`."""

    gt: float | None
    ge: float | None
    lt: float | None
    le: float | None


NO_BOUNDS = Bounds(gt=None, ge=None, lt=None, le=None)


def part_field(
    default: T,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> T:
    """Returns a field of a kernel, feature map or network with bounds; the annotation states the type of its values.

    Args:
        default: default value.
        gt: exclusive lower bound of the value, or of each number of a tuple.
        ge: inclusive lower bound.
        lt: exclusive upper bound.
        le: inclusive upper bound.
    """
    return field(default=default, metadata={"bounds": Bounds(gt=gt, ge=ge, lt=lt, le=le)})


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Allowed values of a recipe field.

    Args:
        kind: class of the value: int (below MOST), float (finite; whole numbers count), bool, str (a word), tuple (of
            words or numbers), a kernel or public images; a union allows each of its classes.
        choices: allowed words, also inside a tuple; empty for any words.
        length: length of a tuple of numbers; 0 for any number of them. None for values of other types.
        item: class of the numbers in a tuple.
        optional: whether None is allowed.
        gt: exclusive lower bound.
        ge: inclusive lower bound.
        lt: exclusive upper bound.
        le: inclusive upper bound.
    """

    kind: type | UnionType
    choices: tuple[str, ...] = ()
    length: int | None = None
    item: type = int
    optional: bool = False
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    @property
    def one_kind(self) -> type:
        """The class of the value, for rules of one class, as in the fields of methods."""
        assert isinstance(self.kind, type)
        return self.kind

    @property
    def check(self) -> CoreSchema:
        """The type with bounds for pydantic's core: strict, so that no value is converted."""
        from pydantic_core import core_schema as core

        schema = self._check()
        return core.nullable_schema(schema) if self.optional else schema

    def _check(self) -> CoreSchema:
        from pydantic_core import core_schema as core

        if self.choices:
            words = core.literal_schema([*self.choices])
            return words if self.kind is str else core.tuple_schema([words], variadic_item_index=0, strict=True)
        if self.length is not None:
            number = self._number(self.item)
            if self.length:
                return core.tuple_schema([number] * self.length, strict=True)
            return core.tuple_schema([number], variadic_item_index=0, strict=True)
        if self.kind in (int, float):
            return self._number(self.kind)
        if self.kind is tuple:
            return core.tuple_schema([core.str_schema(strict=True)], variadic_item_index=0, strict=True)
        if self.kind is bool:
            return core.bool_schema(strict=True)
        return core.str_schema(strict=True) if self.kind is str else core.is_instance_schema(self.kind)

    def _number(self, kind: type | UnionType) -> CoreSchema:
        from pydantic_core import core_schema as core

        bounds: dict[str, Any] = {"gt": self.gt, "ge": self.ge, "lt": self.lt, "le": self.le}
        bounds = {name: bound for name, bound in bounds.items() if bound is not None}
        one = core.int_schema if kind is int else partial(core.float_schema, allow_inf_nan=False)
        return core.no_info_before_validator_function(partial(_check_number, self._most), one(strict=True, **bounds))

    @property
    def _most(self) -> int:
        return MOST if self.le is None else max(MOST, int(self.le) + 1)

    @property
    def noun(self) -> str:
        """The type of the value in words, such as "a whole number"."""
        if self.length is not None:
            numbers = "whole numbers" if self.item is int else "numbers"
            return f"a tuple of {self.length} {numbers}" if self.length else f"a tuple of {numbers}"
        found = (
            WORDS.get(self.kind)
            or NOUNS.get(self.kind)
            or f"a {' or '.join(each.__name__ for each in _classes(self.kind))}"
        )
        return f"{found} or None" if self.optional else found

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
        if fault in _OF_ANOTHER_KIND or fault.endswith("_type"):
            return f"Expected {name} as {self.noun}; got {name}={value!r}."
        return f"Expected {self.bounds(f'{name}={reprlib.repr(value)}')}{self._also(value)}."

    def bounds(self, number: str) -> str:
        """Returns the bounds as a formula of a number: "0 < number <= 1", "number >= 1"."""
        above, below = self.gt is not None, self.lt is not None
        low, high = self.gt if above else self.ge, self.lt if below else self.le
        end = "" if high is None else f" {'<' if below else '<='} {high}"
        if low is None:
            return number + end
        return f"{low} {'<' if above else '<='} {number}{end}" if end else f"{number} {'>' if above else '>='} {low}"

    def _also(self, value: Any) -> str:
        """Returns bounds that every number has: finite, and no size that exceeds any array."""
        numbers = value if isinstance(value, tuple) else (value,)
        if all(isinstance(number, int) for number in numbers):
            return "" if all(number < self._most for number in numbers) else f" and < {self._most}"
        return "" if all(abs(number) < float("inf") for number in numbers) else " and finite"

    def __str__(self) -> str:
        if self.kind in (int, float):
            return self.bounds("whole" if self.kind is int else "x")
        joined = (" or " if self.kind is str else ", ").join(self.choices)
        return joined or WORDS.get(self.kind) or " or ".join(each.__name__ for each in _classes(self.kind))


_OF_ANOTHER_KIND = ("literal_error", "is_instance_of", "missing", "too_short", "too_long")


def _classes(kind: type | UnionType) -> tuple[type, ...]:
    """Returns the classes of a union, or the one class."""
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _check_number(most: int, value: Any) -> Any:
    """Returns a value of Python's own number types and refuses others, such as np.True_, which pydantic converts."""
    from pydantic_core import PydanticKnownError

    if not isinstance(value, int | float):
        raise PydanticKnownError("float_type")
    if isinstance(value, int) and abs(value) >= most:
        raise ValueError(f"Expected a number < {most}.")
    return value


@lru_cache(maxsize=512)
def rules_of(kind: type) -> dict[str, Rule]:
    """Returns the rules of the fields of a recipe or of a part of one by name, from their types and bounds.

    Raises:
        TypeError: a field of another type.
    """
    types = get_type_hints(kind)
    held = {each.name: each.metadata.get("bounds", NO_BOUNDS) for each in fields(kind)}
    return {name: _rule(f"{kind.__name__}.{name}", types[name], bounds) for name, bounds in held.items()}


def _rule(place: str, stated: Any, bounds: Bounds) -> Rule:
    """Returns the rule of a field with a type such as float, Literal["a", "b"] or tuple[Literal["a", "b"], ...]."""
    stated, optional = _without_none(stated)
    inner, origin = get_args(stated), get_origin(stated)
    if origin is Literal:
        return Rule(kind=str, choices=inner, optional=optional)
    if origin is tuple and inner[1:] == (...,) and (inner[0] is str or get_origin(inner[0]) is Literal):
        return Rule(kind=tuple, choices=get_args(inner[0]), optional=optional)
    if origin is tuple and {*inner} - {...} in ({int}, {float}):
        length = 0 if ... in inner else len(inner)
        return Rule(kind=tuple, length=length, item=inner[0], optional=optional, **bounds)
    if not isinstance(stated, type | UnionType) or stated is tuple:
        raise TypeError(
            f"Expected {place} of type int, float, bool, str, Literal of words, tuple[Literal of words, ...] or a "
            f"class; got {stated}."
        )
    if stated not in (int, float) and any(bound is not None for bound in bounds.values()):
        raise TypeError(
            f"Expected {place} without bounds, which are for int and float; got {getattr(stated, '__name__', stated)}."
        )
    return Rule(kind=stated, optional=optional, **bounds)


def _without_none(stated: Any) -> tuple[Any, bool]:
    """Returns a type without the None of its union, and whether the union had one."""
    if not isinstance(stated, UnionType) and get_origin(stated) is not Union:
        return stated, False
    kinds = [kind for kind in get_args(stated) if kind is not NoneType]
    found = kinds[0]
    for kind in kinds[1:]:
        found = found | kind
    return found, len(kinds) < len(get_args(stated))


@lru_cache(maxsize=512)
def _validator(kind: type) -> SchemaValidator:
    """Returns the checks of all fields. Importing pydantic's core is slow, so it happens with the first recipe."""
    from pydantic_core import SchemaValidator
    from pydantic_core import core_schema as core

    return SchemaValidator(
        core.typed_dict_schema({name: core.typed_dict_field(rule.check) for name, rule in rules_of(kind).items()})
    )


def check_fields(part: Any) -> None:
    """Refuses a recipe, or a part of one, with a field whose value is not allowed.

    Raises:
        ValueError: names the first such field and its value.
        TypeError: a class whose fields do not state their allowed values.
    """
    if not is_dataclass(part):
        return
    kind, values = type(part), {each.name: getattr(part, each.name) for each in fields(part)}
    validator = _validator(kind)
    try:
        validator.validate_python(values)
    except ValueError as error:  # a ValidationError is a ValueError
        fault: Any = error.errors(include_url=False)[0]  # type: ignore[attr-defined]
        name = fault["loc"][0]
        raise ValueError(rules_of(kind)[name].sentence(name, values[name], fault["type"])) from None
