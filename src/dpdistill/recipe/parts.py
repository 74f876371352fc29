"""Parts of a recipe: dataclasses of fields whose computing code is imported on demand."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from dpdistill.recipe.rules import NOUNS, check_fields


class Part:
    """A frozen dataclass in a recipe: a kernel, a feature map, a network, or the recipe of a method.

    The fields are checked here, without the libraries that compute. The class of the same name in the module `code`
    inherits the fields and computes.

    Attributes:
        code: dotted name of that module; empty if the class has no computing code elsewhere.
    """

    code: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Refuses values that a field does not allow (`part_field`); subclasses also refuse contradicting fields."""
        check_fields(self)


if TYPE_CHECKING:
    Encoder = Any  # computing code calls a feature map, but the feature map of a recipe cannot be called
else:
    Encoder = Part | Callable
    NOUNS[Encoder] = "a feature map"
"""A feature map: a part of a recipe, or a function of the caller."""


P = TypeVar("P", bound=Part)
T = TypeVar("T")


def code_of(kind: type[P]) -> type[P]:
    """Returns the computing class of a class of parts; a caller's own class is returned unchanged."""
    result = getattr(importlib.import_module(kind.code), kind.__name__, kind) if kind.code else kind
    return kind if issubclass(kind, result) else result


def fields_of_kind(kind: type) -> type:
    """Returns the recipe class to which a class of parts adds code; the class itself if it adds none."""
    return next((base for base in kind.__mro__ if base.__module__.startswith("dpdistill.recipe.")), kind)


@overload
def implement(part: P) -> P: ...


@overload
def implement(part: Part, contract: type[T]) -> T: ...


def implement(part: Part, contract: type = Part) -> Any:
    """Returns the same part from the computing class; its own parts as well.

    Args:
        part: a kernel, a feature map, a network, or the recipe of a method.
        contract: required base class of the result, such as `Method`, `Kernel` or `Network`.

    Raises:
        TypeError: the result has another class.
    """
    kind = code_of(type(part))
    if not issubclass(kind, contract):
        raise TypeError(f"Expected {kind.__name__} to be a {contract.__name__}.")
    if isinstance(part, kind):
        return part
    held = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
    return kind(**{name: implement(value) if isinstance(value, Part) else value for name, value in held.items()})
