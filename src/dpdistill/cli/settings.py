"""Recipe fields as a person writes them, field=value, and what they may hold: checked without waiting for JAX.

known.json holds what methods, kernels, published recipes, networks and classifiers say of themselves, which takes JAX
to import; `make known` writes it anew.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Container, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dpdistill.cli.options import WITHOUT_PRIVACY, check_method
from dpdistill.data.memory import check_set_size
from dpdistill.method import Allowed
from dpdistill.schema import AnySchema, DataError, Schema, TableSchema

KNOWN = Path(__file__).with_name("known.json")
_KINDS = ("images", "tables")
KINDS = {kind.__name__: kind for kind in (int, float, bool, str, tuple)}
"""Of values that a person writes as such; the others are kernels and public images, by their names."""


def check_settings(method: str, settings: Iterable[str], per_class: int | None = None, public: Any = None) -> None:
    """Refuse what a field of a method cannot hold; what several must keep to is checked when the method is made.

    Args:
        method: its name.
        settings: texts "field=value".
        per_class: a field of its own on the command line, or None.
        public: where public images are, or None.

    Raises:
        DataError: an unknown field, or a value that it may not hold.
    """
    if "dpdistill.methods" in sys.modules:  # a caller may have added a method
        return
    fields = _fields_of(method)
    named = {"per_class": per_class, "auxiliary": public}
    taken = {name: value for name, value in named.items() if value is not None}
    values: dict[str, Any] = {} if per_class is None else {"per_class": per_class}
    for name, text in split(method, settings, fields, taken).items():
        check_named(name, text, fields[name]["kind"])
        _check_kernel(name, text, fields[name])
        values[name] = parse(text, fields[name]["kind"])
    _check_values(values, fields)


def _fields_of(method: str) -> dict[str, dict[str, Any]]:
    """What known.json says of the fields of a method, by their names."""
    return {key.partition(".")[2]: value for key, value in known().items() if key.startswith(f"{method}.")}


def _check_kernel(name: str, text: str, field: dict[str, Any]) -> None:
    """Refuse a kernel that the method cannot use."""
    if text not in field.get("kernels", [text]):
        raise DataError(f"The method cannot use {name}={text}: choose among {', '.join(field['kernels'])}.")


def _check_values(values: dict[str, Any], fields: dict[str, dict[str, Any]]) -> None:
    for name, value in values.items():
        if (kind := KINDS.get(fields[name]["kind"])) is not None:
            try:
                Allowed(**{**fields[name], "kind": kind}).check(name, value)
            except ValueError as error:
                raise DataError(str(error)) from None


def check_size(method: str, per_class: int | None, schema: AnySchema) -> None:
    """Refuse more synthetic records a class than this machine's memory can hold.

    Raises:
        DataError: with the largest number that fits.
    """
    if per_class is not None and f"{method}.per_class" in known():
        check_set_size(per_class, schema, f"{method}.kernel" in known())


def check_kind(method: str, table: bool, private: bool) -> None:
    """Refuse a method that has no private form under a budget, and one that distils the other kind of records.

    Args:
        method: its name.
        table: whether the records are a table's.
        private: whether there is a budget.

    Raises:
        DataError: in the words of run.recipe.
    """
    if "dpdistill.methods" in sys.modules:
        return
    methods, kinds = known()["methods"], _KINDS
    title = methods[method]["class"]
    if private and method in WITHOUT_PRIVACY:
        raise DataError(f"{title} has no private form: `dpdistill distill --non-private` runs it.")
    if kinds[table] not in methods[method]["kinds"]:
        able = [name for name in methods if kinds[table] in methods[name]["kinds"] and name not in WITHOUT_PRIVACY]
        raise DataError(f"{title} distils {kinds[not table]}, not {kinds[table]}: take one of {', '.join(able)}.")


def check_names(what: str, names: Iterable[str], among: Iterable[str]) -> None:
    """Refuse names that are not among the known ones.

    Raises:
        DataError: with all that are.
    """
    if unknown := sorted({*names} - {*among}):
        raise DataError(f"Unknown {what} {', '.join(map(repr, unknown))}: choose among {', '.join(among)}.")


def stated_by(recipe: str) -> dict[str, Any]:
    """What a published recipe, or one in a .yaml file, states: method, and epsilon and delta of a budget.

    Args:
        recipe: its name or file.

    Returns:
        these, and the whole name of a published one.

    Raises:
        DataError: neither such a name nor such a file, or a field that cannot be.
    """
    from dpdistill.published import is_file

    if is_file(recipe):
        return _stated_in_file(recipe)
    name = full_name(recipe)
    if name is None:
        raise DataError(
            f"Expected a recipe's name, as `dpdistill methods --recipes` lists them, or a .yaml file; got {recipe!r}."
        )
    return {"name": name, **known()["recipes"][name]}


def full_name(recipe: str) -> str | None:
    """The whole name of a published recipe, of which "-ipc10" may be left out; None if there is none."""
    return next((name for name in (recipe, f"{recipe}-ipc10") if name in known()["recipes"]), None)


def named_under(stated: Mapping[str, Any], budget: tuple[float, float] | None) -> str | None:
    """The name of a published recipe where a certificate may state it: a name says a budget, which has to be this one.

    Args:
        stated: by the recipe, `stated_by`; empty for none.
        budget: (epsilon, delta) of the run; None without a guarantee.
    """
    if "name" not in stated:
        return None
    own = None if stated["epsilon"] is None else (stated["epsilon"], stated["delta"])
    return stated["name"] if own == budget else None


def _stated_in_file(path: str) -> dict[str, Any]:
    from dpdistill.published import stated_in

    stated = stated_in(path)
    check_method(method := stated["method"])
    fields, values = _fields_of(method), stated["fields"]
    if "dpdistill.methods" in sys.modules:  # a caller may have added a method
        return stated
    if unknown := [name for name in values if name not in fields]:
        raise DataError(f"Method {method} has no field {unknown[0]!r}: it has {', '.join(fields)}.")
    for name, value in values.items():
        if fields[name]["kind"] == "kernel":
            check_named(name, value, "kernel")
            _check_kernel(name, value, fields[name])
    _check_values({name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}, fields)
    return stated


def split(method: str, settings: Iterable[str], fields: Container[str], taken: Container[str]) -> dict[str, str]:
    """The texts of settings, by field.

    Args:
        method: its name.
        settings: texts "field=value".
        fields: that the method has.
        taken: those that are stated in another way.

    Raises:
        DataError: a text that is none, a field that there is not, or one that is stated twice.
    """
    if "auxiliary" in taken and "auxiliary" not in fields:
        raise DataError(f"Method {method} reads no public images: leave --public out.")
    if "per_class" in taken and "per_class" not in fields:
        raise DataError(f"Method {method} stores as many records as --set samples=N says: leave --per-class out.")
    texts: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise DataError(f"Expected --set field=value; got {setting!r}.")
        if name not in fields:
            raise DataError(f"Method {method} has no field {name!r}: it has {', '.join(fields)}.")  # type: ignore
        if name in texts or name in taken:
            raise DataError(f"The field {name!r} is set twice.")
        texts[name] = text
    return texts


def check_named(field: str, text: str, kind: str) -> None:
    """Refuse an unknown kernel, and public images, which have an option of their own.

    Raises:
        DataError: as said.
    """
    if kind == "images":
        raise DataError(f"The field {field!r} is public images: name them with --public DATA, or leave it out.")
    if kind == "kernel" and text not in known()["kernels"]:
        raise DataError(f"Unknown {field} {text!r}: choose among {', '.join(known()['kernels'])}.")


def parse(text: str, kind: str) -> Any:
    """A field's value from what a person wrote; what is no such value stays a text, which the method refuses."""
    if kind == "tuple":
        return tuple(word for word in text.split(",") if word)
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return KINDS.get(kind, str)(text)
    except ValueError:
        return text


def kind_of(field: dataclasses.Field) -> str:
    """How the value of a recipe's field is written: a name of KINDS, "kernel" or "images"."""
    from dpdistill.encode.auxiliary import Auxiliary

    if isinstance(field.default, Auxiliary):
        return "images"
    return "kernel" if dataclasses.is_dataclass(field.default) else field.metadata["allowed"].kind.__name__


@cache
def known() -> dict[str, Any]:
    """What known.json holds."""
    return json.loads(KNOWN.read_text(encoding="utf-8"))


def found() -> dict[str, Any]:
    """What it should hold, by the methods, kernels and all the others themselves."""
    from dpdistill.audit.attacked import LOSSES
    from dpdistill.audit.leaks import LEAKS
    from dpdistill.evaluate import ARCHITECTURES, TRAININGS
    from dpdistill.evaluate.classifiers import SETTINGS
    from dpdistill.methods import METHODS
    from dpdistill.published import all_published
    from dpdistill.recipes import KERNELS, fields_of

    def described(field: dataclasses.Field) -> dict[str, Any]:
        allowed = field.metadata["allowed"]
        if kind_of(field) == "kernel":
            return {"kind": "kernel", "kernels": [name for name, k in KERNELS.items() if isinstance(k, allowed.kind)]}
        stated = {name: getattr(allowed, name) for name in ("at_least", "above", "at_most", "below")}
        stated |= {"choices": list(allowed.choices) or None}
        return {"kind": kind_of(field), **{name: value for name, value in stated.items() if value is not None}}

    fields = {f"{name}.{key}": described(each) for name in METHODS for key, each in fields_of(name).items()}
    methods = {
        name: {
            "class": method.__name__,
            "kinds": [word for kind, word in ((Schema, "images"), (TableSchema, "tables")) if kind in method.schemas],
        }
        for name, method in METHODS.items()
    }
    names = {"kernels": KERNELS, "trainings": TRAININGS, "classifiers": SETTINGS, "leaks": LEAKS, "losses": LOSSES}
    stated = ("method", "epsilon", "delta")
    recipes = {name: {key: getattr(row, key) for key in stated} for name, row in all_published().items()}
    networks = {name: _least_side(network) for name, network in ARCHITECTURES.items()}
    tables = {"recipes": recipes, "architectures": networks, "methods": methods}
    return {**{what: [*each] for what, each in names.items()}, **tables, **fields}


def _least_side(network: Any) -> int:
    """The least side of images that a network takes."""
    from dpdistill.evaluate import check_network

    for side in range(1, 65):
        try:
            check_network(network, Schema(classes=("a", "b"), shape=(side, side, 1), bounds=(0.0, 255.0)))
        except DataError:
            continue
        return side
    raise ValueError(f"Expected {network.title} to take images of 64 x 64.")


def write() -> None:
    """Writes known.json, a line a field."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found().items()]
    KNOWN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
