"""Lists of methods, their fields, and published recipes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldDescription:
    """Description of one field of a method's recipe.

    Args:
        name: name of the field, as --set takes it.
        default: default value as text.
        allowed: description of the allowed values.
        free: True if the field may change with `finish_again`; False if releases depend on the field.
        meaning: description in one phrase.
    """

    name: str
    default: str
    allowed: str
    free: bool
    meaning: str


@dataclass(frozen=True)
class MethodDescription:
    """Description of one method.

    Args:
        name: name of the method, as --method takes it.
        title: full title.
        private: True if the method has a private form; False for baselines to compare with.
        fields: fields of its recipe, in order.
    """

    name: str
    title: str
    private: bool
    fields: tuple[FieldDescription, ...]


@dataclass(frozen=True)
class RecipeDescription:
    """Description of one published recipe.

    Args:
        name: name of the recipe, as --recipe takes it.
        method: name of the method.
        epsilon: epsilon of the recipe's budget; None for a run without a guarantee.
        paper: authors, year and method.
        where: table and row of the paper.
        notes: differences between this package and the paper.
    """

    name: str
    method: str
    epsilon: float | None
    paper: str
    where: str
    notes: tuple[str, ...]


def list_methods(name: str | None = None) -> tuple[MethodDescription, ...]:
    """Returns the methods and their recipe fields, as `dpdistill methods` lists them.

    Args:
        name: name of one method; None for all.

    Raises:
        DataError: an unknown method.

    Example:
        >>> list_methods("dos-kip")[0].private
        True
    """
    from dpdistill.recipe.build import fields_of, shown
    from dpdistill.recipe.methods import RECIPES
    from dpdistill.recipe.rules import rules_of

    def described(method: str) -> MethodDescription:
        fields = tuple(
            FieldDescription(
                name=field.name,
                default=shown(field.default),
                allowed=str(rules_of(RECIPES[method])[field.name]),
                free=bool(field.metadata["finish"]),
                meaning=field.metadata["help"],
            )
            for field in fields_of(method).values()
        )
        return MethodDescription(method, RECIPES[method].title, RECIPES[method].private, fields)

    return tuple(described(method) for method in (RECIPES if name is None else [name]))


def list_kernels() -> tuple[str, ...]:
    """Returns the names of all kernels, for recipe fields and `evaluate`."""
    from dpdistill.recipe.kernels import KERNELS

    return tuple(KERNELS)


def list_recipes() -> tuple[RecipeDescription, ...]:
    """Returns the published recipes, this package's and papers', as `dpdistill methods --recipes` lists them.

    Example:
        >>> {recipe.method for recipe in list_recipes()} <= {method.name for method in list_methods()}
        True
    """
    from dpdistill.recipe.published import all_published, notes

    of_papers = notes()
    return tuple(
        RecipeDescription(row.name, row.method, row.epsilon, row.paper, row.where, tuple(of_papers.get(row.paper, ())))
        for row in all_published().values()
    )
