"""A small vision transformer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from dpdistill.networks import network
from dpdistill.networks.network import Params, check_sizes, init_layers, unit_affine
from dpdistill.recipe import networks as recipe


class ViT(recipe.ViT, network.Network):
    """Tokens of patches and learned positions through blocks of attention and a dense layer, averaged.

        x <- x + attention(norm(x)),   x <- x + dense(gelu(dense(norm(x)))),   logits = dense(norm(mean of x))

    Sides that a patch does not divide are extended by repeating the last pixels.

    Args:
        seed: public seed of the parameters.
        patch: side of a patch in pixels, > 0.
        width: width of a token, > 0, a multiple of heads.
        depth: blocks, > 0.
        heads: heads of the attention, > 0.

    Source: Dosovitskiy et al., 2021 (An image is worth 16 x 16 words), with a mean instead of a class token.
    """

    def init(self, shape: tuple[int, ...], classes: int) -> Params:
        check_sizes(shape, classes, self.least_side)
        d, (h, w, c) = self.width, shape
        tokens = -(-h // self.patch) * -(-w // self.patch)
        block = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 2 * d), "down": (2 * d, d)}
        kernels = [(self.patch**2 * c, d), *(list(block.values()) * self.depth), (d, classes)]
        embed, *inner, head = init_layers(self.seed, kernels)
        size = len(block)
        blocks = [
            dict(zip(block, inner[i * size : (i + 1) * size], strict=True))
            | {"before": unit_affine(d), "between": unit_affine(d)}
            for i in range(self.depth)
        ]
        places = 0.02 * jax.random.normal(jax.random.fold_in(jax.random.key(self.seed), 1), (tokens, d))
        return {"embed": embed, "places": places, "blocks": blocks, "norm": unit_affine(d), "head": head}

    def activations(self, params: Params, X: Array) -> list[Array]:
        """Returns tokens (n, tokens, width) after every block, and the logits."""
        x = _affine(self._patches(X), params["embed"]) + params["places"]
        outputs = []
        for block in params["blocks"]:
            x = x + self._attention(layer_norm(x, block["before"]), block)
            x = x + _affine(jax.nn.gelu(_affine(layer_norm(x, block["between"]), block["up"])), block["down"])
            outputs.append(x)
        return [*outputs, _affine(layer_norm(x.mean(1), params["norm"]), params["head"])]

    def _patches(self, X: Array) -> Array:
        n, h, w, c = X.shape
        p = self.patch
        X = jnp.pad(X, ((0, 0), (0, -h % p), (0, -w % p), (0, 0)), mode="edge")
        rows, columns = X.shape[1] // p, X.shape[2] // p
        return X.reshape(n, rows, p, columns, p, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, rows * columns, p * p * c)

    def _attention(self, x: Array, block: dict) -> Array:
        n, tokens, d = x.shape
        q, k, v = jnp.moveaxis(_affine(x, block["qkv"]).reshape(n, tokens, 3, self.heads, -1), 2, 0)
        weights = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) / (d // self.heads) ** 0.5, axis=-1)
        return _affine(jnp.einsum("nhqk,nkhd->nqhd", weights, v).reshape(n, tokens, d), block["out"])


def layer_norm(x: Array, affine: dict[str, Array]) -> Array:
    """Returns (x - mean) / sqrt(var + 1e-5) over the last axis, then the affine map."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * affine["scale"] + affine["offset"]


def _affine(x: Array, layer: dict[str, Array]) -> Array:
    return x @ layer["kernel"] + layer["bias"]
