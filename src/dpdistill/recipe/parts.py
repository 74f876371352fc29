"""Parts of a recipe: dataclasses of fields whose code is found when something is computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from dpdistill.recipe.rules import NOUNS, check_fields


class Part:
    """A frozen dataclass that a recipe holds: a kernel, a feature map, a network, or the recipe of a method.

    Its fields are checked here, without the libraries that compute. The class of the same name in the module `code`
    inherits them and computes.

    Attributes:
        code: dotted name of that module; empty where the class itself is all there is.
    """

    code: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuse what a field may not hold (`part_field`), and in subclasses fields that contradict each other."""
        check_fields(self)


if TYPE_CHECKING:
    Encoder = Any  # what computes calls it, and what a recipe holds cannot be called
else:
    Encoder = Part | Callable
    NOUNS[Encoder] = "a feature map"
"""A feature map: a part of a recipe, or any function of the caller's own."""


P = TypeVar("P", bound=Part)
T = TypeVar("T")


def code_of(kind: type[P]) -> type[P]:
    """Returns the class that computes for a class of parts; a class of the caller's own is returned as it is."""
    found = getattr(importlib.import_module(kind.code), kind.__name__, kind) if kind.code else kind
    return kind if issubclass(kind, found) else found


def fields_of_kind(kind: type) -> type:
    """Returns the class of the recipe that a class of parts adds code to; itself where it is one, or has none."""
    return next((base for base in kind.__mro__ if base.__module__.startswith("dpdistill.recipe.")), kind)


@overload
def implement(part: P) -> P: ...


@overload
def implement(part: Part, contract: type[T]) -> T: ...


def implement(part: Part, contract: type = Part) -> Any:
    """Returns the same part from the class that computes; its own parts as well.

    Args:
        part: a kernel, a feature map, a network, or the recipe of a method.
        contract: what that class has to be, such as `Method`, `Kernel` or `Network`.

    Raises:
        TypeError: it is something else.
    """
    kind = code_of(type(part))
    if not issubclass(kind, contract):
        raise TypeError(f"Expected {kind.__name__} to be a {contract.__name__}.")
    if isinstance(part, kind):
        return part
    held = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    return kind(**{name: implement(value) if isinstance(value, Part) else value for name, value in held.items()})
