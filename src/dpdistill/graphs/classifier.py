"""The whole released classifier as an ONNX file: scaling, features and weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dpdistill.features.batched import WHOLE
from dpdistill.graphs.refusal import NotExported
from dpdistill.graphs.translate import to_model
from dpdistill.schema import Schema

MOST_BYTES = 64 << 20
"""Largest size of a file's constants."""


def classifier_model(encoder: Callable[[Any], Any], classifier: np.ndarray, schema: Schema) -> bytes:
    """Returns the ONNX file of a released classifier: images in the schema's raw units to scores.

        scores = phi(x') classifier,   x' = clip(2 (x - low) / (high - low) - 1, -1, 1)

    Args:
        encoder: features phi of images in [-1, 1], X (n, h, w, c) -> (n, d).
        classifier: weights, (d, classes), float32.
        schema: shape, bounds and classes of the images.

    Raises:
        NotExported: features without a translation, or a file that would be larger than MOST_BYTES.
    """
    if 4 * classifier.size > MOST_BYTES:
        raise NotExported(
            f"it would have {4 * classifier.size / 2**20:.0f} MiB of constants, more than {MOST_BYTES >> 20}"
        )

    def scores(X: Any) -> Any:
        return encoder(X) @ jnp.asarray(classifier)

    # Constants of the features are computed here, as they are in a run: a few records at a time.
    jax.eval_shape(encoder, jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32))
    return model_bytes(scores, schema)


def model_bytes(scores: Callable[[Any], Any], schema: Schema, most: int = MOST_BYTES) -> bytes:
    """Returns the ONNX file of a function of images in [-1, 1], X (n, h, w, c) -> (n, classes), for raw images.

    Raises:
        NotExported: as `classifier_model`.
    """
    low, high = schema.bounds

    def of_raw(X: Any) -> Any:
        unit = (X - np.float32(low)) * np.float32(2.0 / (high - low)) - np.float32(1.0)
        return scores(jnp.minimum(jnp.maximum(unit, -1.0), 1.0))

    facts = {"classes": json.dumps(schema.classes), "bounds": json.dumps(schema.bounds)}
    facts |= {"straightened": json.dumps(schema.straightened)}
    token = WHOLE.set(True)
    try:
        return to_model(of_raw, schema.shape, facts, most).SerializeToString(deterministic=True)
    finally:
        WHOLE.reset(token)
