"""The kernels by name, and methods from recipes as files hold them: nothing else is ever made from a file."""

from __future__ import annotations

import dataclasses
from typing import Any

from dpdistill.encode.auxiliary import Drawn, PublicImages, Silhouettes
from dpdistill.encode.deskew import Deskewed
from dpdistill.encode.drawn import DrawnNet
from dpdistill.encode.gamma import GammaCorrected
from dpdistill.encode.mirror import Mirrored
from dpdistill.encode.networks import LeNet
from dpdistill.encode.normalised import Normalised
from dpdistill.encode.perceptual import Perceptual
from dpdistill.encode.resnet import ResNet18
from dpdistill.encode.scattering import ScatterNet
from dpdistill.encode.whitening import WhiteScatterNet
from dpdistill.kernels.conv_ntk import ConvNTK
from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
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
    "scatternet-deskewed": FeatureKernel(Deskewed(WhiteScatterNet())),
    "scatternet-mirrored": FeatureKernel(Mirrored(ScatterNet(groups=27, normalise=True))),
    "scatternet-normalised": FeatureKernel(Normalised(Mirrored(WhiteScatterNet(strength=0.3)), channels=81)),
    "scatternet-gamma": FeatureKernel(GammaCorrected(Normalised(Mirrored(WhiteScatterNet(strength=0.3)), channels=81))),
    "scatternet-silhouettes": FeatureKernel(
        GammaCorrected(
            Normalised(
                Mirrored(WhiteScatterNet(strength=0.3, pictures=Silhouettes())), channels=81, pictures=Silhouettes()
            )
        )
    ),
    "drawn": FeatureKernel(DrawnNet()),
}


def _parts(value: Any) -> dict[str, Any]:
    """A dataclass and those in its fields, by the names of their classes."""
    if not dataclasses.is_dataclass(value):
        return {}
    parts = {type(value).__name__: value}
    for field in dataclasses.fields(value):
        parts |= _parts(getattr(value, field.name))
    return parts


AUXILIARY = (Drawn(), PublicImages("", 2))
KINDS = {name: part for value in (*KERNELS.values(), *AUXILIARY) for name, part in _parts(value).items()}
"""What a saved recipe may name as a kernel, as a part of one, or as public images: an example of each."""


def kernel_named(name: str, field: str = "kernel") -> Any:
    """A kernel by its short name.

    Raises:
        DataError: an unknown name.
    """
    if not isinstance(name, str) or name not in KERNELS:
        raise DataError(f"Unknown {field} {name!r}: choose among {', '.join(KERNELS)}.")
    return KERNELS[name]


def is_method(name: Any) -> bool:
    """Whether it is the name of a method."""
    return isinstance(name, str) and name in METHODS


def fields_of(name: str) -> dict[str, dataclasses.Field]:
    """The recipe fields of a method, by name.

    Raises:
        DataError: an unknown method.
    """
    if name not in METHODS:
        raise DataError(f"Unknown method {name!r}: choose among {', '.join(METHODS)}.")
    return {field.name: field for field in dataclasses.fields(METHODS[name])}


def shown(value: Any) -> str:
    """A field's value as a person writes it: a kernel by its short name, a tuple with commas."""
    if _is_dataclass(value):
        return next((name for name, kernel in KERNELS.items() if kernel == value), repr(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_dataclass(value: Any) -> bool:
    """A kernel, a part of one, or public images: recipes have no other dataclasses."""
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
    known = {field.name: field for field in dataclasses.fields(example) if field.compare}
    unknown = set(fields) - set(known)
    if unknown:
        raise DataError(f"{type(example).__name__} has no field {', '.join(sorted(map(repr, unknown)))}.")
    optional = {name for name, field in known.items() if field.default is None}
    return type(example)(
        **{
            name: from_json(item) if name in optional else _part(name, getattr(example, name), item)
            for name, item in fields.items()
        }
    )


def _part(field: str, example: Any, value: Any) -> Any:
    """A field's value from JSON: a dataclass where the example is one."""
    value = value if _is_dataclass(value) else from_json(value)
    if _is_dataclass(example) != _is_dataclass(value):
        raise DataError(f"Expected another kind of {field}; got {shown(value)}.")
    return value


def kernel_of(value: Any) -> Any:
    """A kernel from what a saved recipe holds of it.

    Raises:
        DataError, ValueError, TypeError: as `from_json`, or no kernel.
    """
    return _part("kernel", FCNTK(), value)
