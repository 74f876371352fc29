"""The command line's table of kernels, and recipes written as field=value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpdistill.data.folder import RECIPE, read_object
from dpdistill.encode.drawn import DrawnNet
from dpdistill.encode.mirror import Mirrored
from dpdistill.encode.networks import LeNet
from dpdistill.encode.perceptual import Perceptual
from dpdistill.encode.resnet import ResNet18
from dpdistill.encode.scattering import ScatterNet
from dpdistill.encode.whitening import WhiteScatterNet
from dpdistill.kernels.conv_ntk import ConvNTK
from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.ledger.run import RunLedger
from dpdistill.methods import METHODS
from dpdistill.schema import DataError

KERNELS: dict[str, Any] = {
    "fc-ntk": FCNTK(),
    "conv-ntk": ConvNTK(),
    "e-ntk-lenet": EmpiricalNTK(LeNet()),
    "e-ntk-resnet18": EmpiricalNTK(ResNet18()),
    "perceptual": FeatureKernel(Perceptual()),
    "scatternet": FeatureKernel(ScatterNet(groups=27, normalise=True)),
    "scatternet-position": FeatureKernel(ScatterNet(groups=27, per_position=True, normalise=True)),
    "scatternet-white": FeatureKernel(WhiteScatterNet()),
    "scatternet-mirrored": FeatureKernel(Mirrored(ScatterNet(groups=27, normalise=True))),
    "drawn": FeatureKernel(DrawnNet()),
    "drawn-grey": FeatureKernel(DrawnNet("grey")),
}

RIDGE = 1e-3
"""Of kernel ridge regression on a set whose recipe states none."""


def _parts(value: Any) -> dict[str, Any]:
    """A dataclass and those in its fields, by the names of their classes."""
    if not dataclasses.is_dataclass(value):
        return {}
    parts = {type(value).__name__: value}
    for field in dataclasses.fields(value):
        parts |= _parts(getattr(value, field.name))
    return parts


KINDS = {name: part for kernel in KERNELS.values() for name, part in _parts(kernel).items()}
"""What a saved recipe may name as a kernel or a part of one: an example of each."""


def fields_of(name: str) -> dict[str, dataclasses.Field]:
    """The recipe fields of a method, by name.

    Raises:
        DataError: an unknown method.
    """
    if name not in METHODS:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(METHODS)}.")
    return {field.name: field for field in dataclasses.fields(METHODS[name])}


def build(name: str, settings: Iterable[str], **named: Any) -> Any:
    """A method from "field=value" settings.

    Args:
        name: of the method.
        settings: texts "field=value"; tuples as comma-separated words, empty for none.
        named: further fields that have a type already; None leaves the default.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    return from_fields(name, _stated(name, settings, named))


def build_again(run_dir: str, name: str | None, settings: Iterable[str], **named: Any) -> Any:
    """The method of a run, with other settings: what is not named stays as the run had it.

    Args:
        run_dir: the owner's folder of the run.
        name: of the method; None for the run's.
        settings: texts "field=value".
        named: further fields that have a type already; None leaves them out.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
        LedgerError: there is no run in the folder.
    """
    recipe = RunLedger.read(run_dir).recipe
    name = name or recipe["method"]
    kept = recipe["fields"] if name == recipe["method"] else {}
    return from_fields(name, {**kept, **_stated(name, settings, named)})


def _stated(name: str, settings: Iterable[str], named: dict[str, Any]) -> dict[str, Any]:
    """The fields that a caller states, parsed."""
    fields, values = fields_of(name), {k: v for k, v in named.items() if v is not None}
    for setting in settings:
        field, equals, text = setting.partition("=")
        if not equals:
            raise DataError(f"Expected --set field=value; got {setting!r}.")
        if field not in fields:
            raise DataError(f"Method {name} has no field {field!r}: it has {', '.join(fields)}.")
        if field in values:
            raise DataError(f"The field {field!r} is set twice.")
        values[field] = _parse(field, text, fields[field])
    return values


def kernel_named(name: str, field: str = "kernel") -> Any:
    """A kernel by its short name.

    Raises:
        DataError: an unknown name.
    """
    if name not in KERNELS:
        raise DataError(f"Unknown {field} {name!r}: choose among {', '.join(KERNELS)}.")
    return KERNELS[name]


def shown(value: Any) -> str:
    """A field's value as a person writes it: a kernel by its short name, a tuple with commas."""
    if _is_dataclass(value):
        return next((name for name, kernel in KERNELS.items() if kernel == value), repr(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_dataclass(value: Any) -> bool:
    """A kernel, or a part of one: recipes have no other dataclasses."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def from_fields(name: str, values: dict[str, Any]) -> Any:
    """A method from the fields of a saved recipe.

    Raises:
        DataError: an unknown method or field, or a value that the method refuses.
    """
    fields = fields_of(name)
    unknown = set(values) - set(fields)
    if unknown:
        raise DataError(f"Method {name} has no field {', '.join(sorted(map(repr, unknown)))}.")
    try:
        values = {field: _part(field, fields[field].default, value) for field, value in values.items()}
        method = METHODS[name](**values)
        method.plan()
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from None
    except (OverflowError, MemoryError, RecursionError):
        raise DataError(f"A field of method {name} is too large.") from None
    return method


def from_json(value: Any) -> Any:
    """A field's value from what `to_json` made of it: lists as tuples, {"kind": name, ...} as that dataclass.

    Raises:
        DataError: an unknown kind, or a field that it does not have.
        ValueError, TypeError: a field's value that the kind refuses.
    """
    if isinstance(value, list | tuple):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    example = KINDS.get(str(value.get("kind")))
    if example is None:
        raise DataError(f"Unknown kind {value.get('kind')!r}: expected one of {', '.join(KINDS)}.")
    fields = {name: item for name, item in value.items() if name != "kind"}
    unknown = set(fields) - {field.name for field in dataclasses.fields(example)}
    if unknown:
        raise DataError(f"{type(example).__name__} has no field {', '.join(sorted(map(repr, unknown)))}.")
    return type(example)(**{name: _part(name, getattr(example, name), item) for name, item in fields.items()})


def _part(field: str, example: Any, value: Any) -> Any:
    """A field's value from JSON: a dataclass where the example is one."""
    value = value if _is_dataclass(value) else from_json(value)
    if _is_dataclass(example) != _is_dataclass(value):
        raise DataError(f"Expected another kind of {field}; got {shown(value)}.")
    return value


def kernel_in(folder: str) -> tuple[Any, float] | None:
    """Kernel and ridge of the recipe in a folder; None where there is no recipe, or it names no kernel.

    Raises:
        DataError: a recipe that cannot be read, or an unknown kernel.
    """
    path = Path(folder) / RECIPE
    if not path.exists():
        return None
    try:
        fields = dict(read_object(path)["fields"])
    except (ValueError, TypeError, KeyError):
        raise DataError(f"{path} is not a recipe that can be read.") from None
    if "kernel" not in fields:
        return None
    try:
        return _part("kernel", FCNTK(), fields["kernel"]), fields.get("ridge", RIDGE)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DataError(f"The kernel in {path} cannot be used: {error}") from None


def regressions(
    names: Iterable[str], ridge: float | None, recipe: tuple[Any, float] | None
) -> dict[str, tuple[Any, float]]:
    """Kernels and ridges of the regressions on a synthetic set, by their short names.

    Args:
        names: of the kernels; none for the recipe's, or scatternet where it has none.
        ridge: of all of them; None for the recipe's with the recipe's kernel, and RIDGE with others.
        recipe: what `kernel_in` found.

    Raises:
        DataError: an unknown name.
    """
    kernel, own = recipe or (KERNELS["scatternet"], RIDGE)
    kernels = [kernel_named(name) for name in names] or [kernel]
    return {shown(k): (k, ridge if ridge is not None else own if k == kernel else RIDGE) for k in kernels}


def _parse(field: str, text: str, described: dataclasses.Field) -> Any:
    """A field's value from what a person wrote; what is no such value stays a text, which the method refuses."""
    kind = described.metadata["allowed"].kind
    if _is_dataclass(described.default):
        return kernel_named(text, field)
    if kind is tuple:
        return tuple(word for word in text.split(",") if word)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text)
    except ValueError:
        return text
