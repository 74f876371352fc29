"""`dpdistill methods`: lists methods with their recipe fields, and published recipes."""

from __future__ import annotations

from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.cli.terminal import add_row, give, say, show_table, table
from dpdistill.schema import DataError


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One method; all if left out.")] = None,
    recipes: Annotated[
        bool,
        typer.Option("--recipes", rich_help_panel="Recipe", help="List published recipes, this package's and papers'."),
    ] = False,
) -> None:
    """List the methods and their recipe fields."""
    if recipes and name is not None:
        raise DataError("Expected NAME or --recipes, not both.")
    if recipes:
        _say_recipes()
        return
    listed, kernels = dp.list_methods(name), dp.list_kernels()
    for method in listed:
        _show_fields(method)
    give(methods={method.name: _as_json(method) for method in listed}, kernels=kernels)
    if name is None or any(field.name == "kernel" for field in listed[0].fields):
        say(f"Kernels: {', '.join(kernels)}.")
        say("Networks trained on public data, as kernels: --encoder efficientnet-lite0, or FILE.onnx with a card.")
    say('"free" fields may change with --from, which uses the releases of a finished run again at no cost.')


def _show_fields(method: dp.MethodDescription) -> None:
    """Prints a table of a method's fields; those that shape releases come first."""
    columns = ("field", "default", "allowed", "use again", "meaning")
    listed = table(*columns, title=f"{method.name}: {method.title.partition(': ')[2]}")
    for field in sorted(method.fields, key=lambda field: field.free):
        again = "free" if field.free else "paid" if method.private else ""
        add_row(listed, field.name, field.default or "none", field.allowed, again, field.meaning)
    show_table(listed)
    say("")


def _as_json(method: dp.MethodDescription) -> dict[str, object]:
    """Returns a method for --json, with its fields by name."""
    fields = {
        field.name: {key: value for key, value in vars(field).items() if key != "name"} for field in method.fields
    }
    return {"title": method.title, "private": method.private, "fields": fields}


def _say_recipes() -> None:
    """Prints every published recipe, with differences from its paper."""
    listed = dp.list_recipes()
    papers: dict[str, list[dp.RecipeDescription]] = {}
    for recipe in listed:
        papers.setdefault(recipe.paper, []).append(recipe)
    for paper, recipes in papers.items():
        rows = table("recipe", "method", "epsilon", "source", title=paper)
        for recipe in recipes:
            epsilon = "none" if recipe.epsilon is None else f"{recipe.epsilon:g}"
            add_row(rows, recipe.name, recipe.method, epsilon, recipe.where)
        show_table(rows)
        for each in recipes[0].notes:
            say(each)
        say("")
    give(recipes={each.name: {"method": each.method, "source": f"{each.paper}, {each.where}"} for each in listed})
    say("dpdistill distill DATA --recipe NAME --out DIR; -ipc10 may be left out. Other options override the recipe.")
