"""Methods, their fields, and recipes by name, as tables that a program or a person reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FieldDescription:
    """One field of a method's recipe.

    Args:
        name: of the field, as --set takes it.
        default: as a person writes it.
        allowed: values that the field may hold, in words.
        free: the field may change with `finish_again`; False where releases depend on it.
        meaning: one phrase.
    """

    name: str
    default: str
    allowed: str
    free: bool
    meaning: str


@dataclass(frozen=True)
class MethodDescription:
    """One method.

    Args:
        name: as --method takes it.
        title: its full title.
        private: the method has a private form; False for baselines to compare with.
        fields: of its recipe, in order.
    """

    name: str
    title: str
    private: bool
    fields: tuple[FieldDescription, ...]


@dataclass(frozen=True)
class RecipeDescription:
    """One recipe that has a name.

    Args:
        name: as --recipe takes it.
        method: its method's name.
        epsilon: of its budget; None for a run without a guarantee.
        paper: authors, year and method.
        where: table and row of the paper.
        notes: what this package does otherwise than the paper.
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
        name: of one method; None for all.

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
    """Returns the names of all kernels, as fields of recipes and `evaluate` take them."""
    from dpdistill.recipe.kernels import KERNELS

    return tuple(KERNELS)


def list_recipes() -> tuple[RecipeDescription, ...]:
    """Returns the recipes that have a name, own ones and papers', as `dpdistill methods --recipes` lists them.

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
