"""Reads and writes a network's parameters in an .npz file, and computes features with given ones."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.networks.network import Network
from dpdistill.schema.errors import DataError


def named(params: object) -> dict[str, Any]:
    """Returns the arrays of a network's parameters by their names, such as "blocks/0/kernel"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def write_parameters(path: str | Path, params: object) -> None:
    """Writes an .npz file with one array per parameter, by the names of `named`."""
    np.savez(path, **{name: np.asarray(value) for name, value in named(params).items()})  # type: ignore[arg-type]


def read_parameters(path: str | Path, network: Network, shape: tuple[int, ...]) -> Any:
    """Reads the parameters of a network for records of a shape; its last bias gives the number of outputs.

    Args:
        path: an .npz file from `write_parameters`; its arrays may have any floating-point precision.
        network: architecture of the parameters.
        shape: shape of the records, (h, w, c).

    Raises:
        DataError: no such file, or arrays that are not this network's.
    """
    arrays = _arrays(path, network.title)
    outputs = {array.shape[-1] for array in arrays.values() if array.ndim}
    result = [jax.eval_shape(lambda n=n: network.init(shape, n)) for n in sorted(outputs) or [1]]
    have = {name: array.shape for name, array in arrays.items()}
    expected = next((one for one in result if _shapes(one) == have), None)
    if expected is None:
        # The number of outputs is unknown here: take the one with the most shapes in common.
        wanted = max(map(_shapes, result), key=lambda wanted: len(wanted.items() & have.items()))
        raise DataError(
            f"{path} does not hold the parameters of a {network.title} for {shape}: {_differ(have, wanted)}"
        )
    if any(array.dtype.kind != "f" or not np.isfinite(array).all() for array in arrays.values()):
        raise DataError(f"Expected finite floating-point numbers as parameters in {path}.")
    structure = jax.tree_util.tree_structure(expected)
    return jax.tree_util.tree_unflatten(structure, [jnp.asarray(arrays[name], jnp.float32) for name in named(expected)])


def sized(network: Network, path: str | Path) -> Network:
    """Returns the architecture with the layer widths of the parameters in a file; unchanged if they do not fit.

    Args:
        network: an architecture with `width` or `widths`.
        path: an .npz file from `write_parameters`.

    Raises:
        DataError: no such file, or no arrays in it.
    """
    arrays = _arrays(path, network.title)
    if hasattr(network, "widths"):
        kernels = [arrays.get(f"{i}/kernel") for i in range(len(arrays) // 2)]
        units = {"widths": tuple(kernel.shape[-1] for kernel in kernels[:-1] if kernel is not None and kernel.ndim)}
    else:
        first = next((array for name, array in sorted(arrays.items()) if name.endswith("kernel") and array.ndim), None)
        units = {} if first is None else {"width": first.shape[-1]}
    try:
        return replace(network, **units)  # type: ignore[type-var]
    except ValueError:
        return network


def _arrays(path: str | Path, title: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"Expected the parameters of a {title} in an .npz file at {path}: {why}.") from None
    if not arrays:
        raise DataError(f"{path} holds no arrays: expected the parameters of a {title}.")
    return arrays


def _shapes(params: object) -> dict[str, tuple[int, ...]]:
    return {name: leaf.shape for name, leaf in named(params).items()}


def _differ(have: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]]) -> str:
    """Returns the first difference in words."""
    for name, shape in wanted.items():
        if name not in have:
            return f"it has no array {name!r} of shape {shape}."
        if have[name] != shape:
            return f"expected {name!r} of shape {shape}; got {have[name]}."
    return f"it also has {next(name for name in have if name not in wanted)!r}."


@dataclass(frozen=True, eq=False)
class Hidden:
    """Returns phi(x): the last hidden layer of a network with given parameters, flat, (n, d).

    Args:
        network: architecture of the network.
        params: parameters of the network.
    """

    network: Network
    params: Any

    def __call__(self, X: Array) -> Array:
        """Returns features of images X (n, h, w, c) in [-1, 1]."""
        return self.network.activations(self.params, X)[-2].reshape(len(X), -1)
