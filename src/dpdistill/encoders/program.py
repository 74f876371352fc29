"""The graph of an encoder as a function of images in JAX, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.encoders.arrays import ARRAYS
from dpdistill.encoders.layers import LAYERS
from dpdistill.encoders.onnx_file import Graph, Node, Refused
from dpdistill.encoders.values import Maps, Value, limited, plain

OPERATORS = {**ARRAYS, **LAYERS}
"""Every operator that an encoder may use: fixed functions. Others, such as random numbers, loops and branches, are
refused."""
MOST_FEATURES = 2**16


def activations(graph: Graph, X: jax.Array, outputs: Sequence[str]) -> list[jax.Array]:
    """Returns the named values of a graph for one image X (1, h, w, channels), in ONNX's order of axes.

    Args:
        graph: the network.
        X: an image as the network expects it.
        outputs: names of outputs or of inner values.

    Raises:
        Refused: an unknown name or operator, or shapes that do not fit.
    """
    (name,) = _checked_inputs(graph, X)
    values: dict[str, Value] = {"": None, **graph.constants, name: Maps(X)}
    for node in needed(graph, outputs):
        held = {"opset": graph.opset, "outputs": len(node.outputs), **node.attributes}
        values |= zip(node.outputs, _results(node, held, [values[each] for each in node.inputs]), strict=False)
    return [jnp.asarray(plain(values[each])) for each in outputs]


def _results(node: Node, held: dict[str, Any], inputs: list[Value]) -> tuple[Value, ...]:
    try:
        found = OPERATORS[node.op](held, *inputs)
    except Refused:
        raise
    except Exception:  # NumPy and JAX raise many kinds of errors for shapes that do not fit
        shapes = [tuple(np.shape(plain(value))) for value in inputs if value is not None]
        raise Refused(f"Expected inputs of {node.op} that fit together; got the shapes {shapes!s:.120}.") from None
    found = found if isinstance(found, tuple) else (found,)
    for value in found:
        limited(value.shape)
    return found


def needed(graph: Graph, outputs: Sequence[str]) -> tuple[Node, ...]:
    """Returns the nodes that the outputs depend on, in order.

    Raises:
        Refused: an output that the graph does not compute, an operator that is no fixed function, or weights of NaN.
    """
    known = {name for node in graph.nodes for name in node.outputs if name}
    if unknown := [name for name in outputs if name not in known]:
        raise Refused(f"Expected outputs that the network computes, such as {', '.join(graph.outputs)}; got {unknown}.")
    wanted, kept = {*outputs}, []
    for node in reversed(graph.nodes):
        if wanted & {*node.outputs} - {""}:
            kept.append(node)
            wanted |= {*node.inputs}
    for node in kept:
        if node.op not in OPERATORS:
            raise Refused(
                f"Expected operators of a fixed function of one image; got {node.op!r:.60}. "
                "Random numbers, loops, branches and operators outside the list are refused."
            )
    for name in wanted & {*graph.constants}:
        weight = graph.constants[name]
        if np.issubdtype(weight.dtype, np.floating) and np.isnan(weight).any():
            raise Refused(f"Expected weights that are numbers; {name!r:.60} has NaN.")
    return tuple(reversed(kept))


def _checked_inputs(graph: Graph, X: jax.Array) -> tuple[str]:
    """Returns the name of the one input, whose shape the images must have."""
    if len(graph.inputs) != 1:
        raise Refused(
            f"Expected a network with one input, an image; got {len(graph.inputs)}: a state is an input, too."
        )
    ((name, shape),) = graph.inputs.items()
    have = (1, X.shape[3], *X.shape[1:3])
    if shape is not None and (len(shape) != 4 or any(s not in (None, h) for s, h in zip(shape, have, strict=True))):
        raise Refused(f"Expected a network of one image {have}; its input is {shape}: export one image at a time.")
    return (name,)


def pooled(graph: Graph, X: jax.Array, outputs: Sequence[str]) -> list[jax.Array]:
    """Returns the named values as vectors of every image, (n, d) each: maps and tokens become their means.

    The graph is that of one image, mapped over the images: no operation, not even a sum over the batch, mixes images.

    Raises:
        Refused: values that are no vectors, tokens or maps of one image.
    """
    return jax.vmap(lambda x: _pooled(graph, x[None], outputs))(X)


def _pooled(graph: Graph, X: jax.Array, outputs: Sequence[str]) -> list[jax.Array]:
    found = activations(graph, X, outputs)
    for name, value in zip(outputs, found, strict=True):
        if value.ndim not in (2, 3, 4) or value.shape[0] != 1 or not jnp.issubdtype(value.dtype, jnp.floating):
            raise Refused(f"Expected {name!r:.60} as vectors, tokens or maps of an image; got the shape {value.shape}.")
    means = [value[0] if value.ndim == 2 else value.mean((0, 1) if value.ndim == 3 else (0, 2, 3)) for value in found]
    if sum(value.shape[0] for value in means) > MOST_FEATURES:
        raise Refused(f"Expected at most {MOST_FEATURES} features; got {sum(value.shape[0] for value in means)}.")
    return means
