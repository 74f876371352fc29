"""Queries of DP-KIP: the gradient of a record's loss with respect to the support set, in three ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.query import MOST_ROWS

ROUNDING = 2.0**-53
SIZE = 16
"""Rows of one part of the quadratic form."""
MOST_BYTES = 2**32
"""Memory limit of the quadratic form and its computation, in bytes."""
FLOOR = 2.0**-10
"""Least norm as a share of its terms, so that weights cannot amplify rounding errors."""
MOST_TERMS = 10**6
"""Largest number of terms: FLOOR^2 = 2^-20 exceeds their rounding errors, 2^-52 each."""


def target_of(y: Array, classes: int, dtype: object) -> Array:
    """Returns the one-hot class minus 1 / classes."""
    return jax.nn.one_hot(y, classes, dtype=dtype) - 1.0 / classes


@dataclass(frozen=True)
class CountQuery:
    """Query of the class counts: u = 1 at the record's class.

    Guarantee: sensitivity 1 under add-or-remove, sqrt(2) under replace-one; whole numbers, added without rounding.
    """

    classes: int
    clip_norm: float = 1.0
    by_class: bool = False
    encoder: None = None
    error_bound: float = 0.0

    def contribution(self, params: object, x: Array, y: Array) -> Array:
        return jax.nn.one_hot(y, self.classes)

    def prepare(self, params: object) -> Any:
        return params

    def coefficients(self, params: object, x: Array, y: Array) -> Array:
        return jax.nn.one_hot(y, self.classes, dtype=jnp.float64)

    def norm(self, params: object, coefficients: Array) -> Array:
        return jnp.ones(())

    def weighted_sum(self, params: object, coefficients: Array, w: Array) -> Array:
        return w @ coefficients


@dataclass(frozen=True)
class KernelGradient:
    """Query of the same gradient for any kernel, without a pass through the kernel matrix of the support set.

        u_s = (a_s dk(x, x_s)/dx_s - sum_j S_sj D_sj) / classes,   D_sj = dk(x_s, x_j)/dx_s

    a and S as in FeatureGradient. D is equal for all records: it is computed once per round. A record costs the
    derivatives of its own row of the kernel, one vector-Jacobian product.

    Params: X_s (m, ...), alpha (m, classes), inverse = A^-1 (m, m), slopes = D (m, m, ...).

    Guarantee: the curator clips the vector itself.
    """

    clip_norm: float
    kernel: Any
    ridge: float
    by_class: bool = False
    encoder: None = None

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        alpha, m = params["alpha"], len(params["alpha"])
        k, pull_back = jax.vjp(lambda X_s: self.kernel(x[None], X_s)[0], params["X_s"])
        a = alpha @ (alpha.T @ k - target_of(y, alpha.shape[1], k.dtype))
        M = jnp.outer(params["inverse"] @ k, a)
        S = M + M.T + 2 * self.ridge / m * jnp.trace(M) * jnp.eye(m, dtype=k.dtype)
        return ((pull_back(a)[0] - jnp.einsum("sj,sj...->s...", S, params["slopes"])) / alpha.shape[1]).ravel()


@dataclass(frozen=True)
class FeatureGradient:
    """Linear query for the gradient with respect to the FEATURES of the support set, k(x, z) = <phi(x), phi(z)>.

        k = Phi_s phi,  r = alpha^T k - y,  a = alpha r,  beta = A^-1 k,  A = K_ss + ridge tr(K_ss) / m I
        u = (a phi^T - S Phi_s) / classes,   S = beta a^T + a beta^T + 2 (ridge / m) (beta . a) I
        classes^2 ||u||^2 = ||a||^2 ||phi||^2 - 2 a^T S k + tr(K_ss S^2)

    Pixels follow by the chain rule after the release, at no cost. A pixel gradient would be bounded by this norm times
    the norm of the encoder's derivative, and would need at least as much noise.

    A class's weight, in (0, 1], multiplies the clipped contribution: the stated norm excludes the weight, so that the
    stated norm is an upper bound.

    Params: Phi_s (m, d), alpha (m, classes), inverse = A^-1 (m, m), weights (classes,), all float64.
    Prepared from them: K_ss.

    Guarantee:
        A function of the coefficients (phi, weight a, beta, weight), which count as exact. With
        T = (||a|| ||phi|| + ||S|| ||Phi_s||)^2, which is at least the sum of the absolute terms, the squared norm is
        off by at most (2 m + d + 32) 2 u T, u = 2^-53; the bound adds 2^-20 T, which is more for 2 m + d <= MOST_TERMS.
        Hence the clip uses a norm of at least 2^-10 times the norms of its terms. The rounding error of a record's
        share, at most (128 + m + 32) u of those norms, is at most (128 + m + 32) 2^-43 C: error_bound.

    Source: Vinaroz & Park, 2024 (DP-KIP-ScatterNet), algorithm 1; Goodfellow, 2015 (norms without gradients).
    """

    clip_norm: float
    encoder: Any
    ridge: float
    support: int
    by_class: bool = False

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + self.support + 32) * ROUNDING / FLOOR * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        Phi, alpha, inverse = params["Phi_s"], params["alpha"], params["inverse"]
        phi, m = x.astype(Phi.dtype), Phi.shape[0]
        k = Phi @ phi
        r = params["weights"][y] * (alpha.T @ k - target_of(y, alpha.shape[1], Phi.dtype))
        a, beta = alpha @ r, inverse @ k
        M = jnp.outer(beta, a)
        S = M + M.T + 2 * self.ridge / m * jnp.trace(M) * jnp.eye(m, dtype=Phi.dtype)
        return ((jnp.outer(a, phi) - S @ Phi) / alpha.shape[1]).ravel()

    def prepare(self, params: Any) -> Any:
        return {**params, "K_ss": params["Phi_s"] @ params["Phi_s"].T}

    def coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, ...]:
        alpha, phi, weight = params["alpha"], x.astype(jnp.float64), params["weights"][y]
        k = phi @ params["Phi_s"].T
        r = weight * (k @ alpha - target_of(y, alpha.shape[1], jnp.float64))
        return phi, r @ alpha.T, k @ params["inverse"], weight

    def norm(self, params: Any, coefficients: tuple[Array, ...]) -> Array:
        (phi, a, beta, weight), Phi = coefficients, params["Phi_s"]
        m, classes = params["alpha"].shape
        K_ss, k = params["K_ss"], phi @ Phi.T
        dots = {"aa": _dot(a, a), "bb": _dot(beta, beta), "ab": _dot(a, beta), "xx": _dot(phi, phi)}
        Ka, Kb, nu = a @ K_ss, beta @ K_ss, self.ridge / m * dots["ab"]
        aSk = dots["ab"] * _dot(a, k) + dots["aa"] * _dot(beta, k) + 2 * nu * _dot(a, k)
        KSS = dots["aa"] * _dot(beta, Kb) + dots["bb"] * _dot(a, Ka) + (2 * dots["ab"] + 8 * nu) * _dot(a, Kb)
        squares = dots["aa"] * dots["xx"] - 2 * aSk + KSS + 4 * nu**2 * jnp.trace(K_ss)
        size = 2 * (1 + self.ridge / m**0.5) * jnp.sqrt(dots["aa"] * dots["bb"])
        terms = jnp.sqrt(dots["aa"] * dots["xx"]) + size * jnp.sqrt(jnp.trace(K_ss))
        return jnp.sqrt(jnp.maximum(squares, 0.0) + FLOOR**2 * jnp.square(terms)) / (classes * weight)

    def weighted_sum(self, params: Any, coefficients: tuple[Array, ...], w: Array) -> Array:
        (phi, a, beta, _), Phi = coefficients, params["Phi_s"]
        m, classes = params["alpha"].shape
        wa = w[:, None] * a
        M = wa.T @ beta
        S = M + M.T + 2 * self.ridge / m * jnp.sum(_dot(wa, beta)) * jnp.eye(m)
        return ((wa.T @ phi - S @ Phi) / classes).ravel()


@dataclass(frozen=True)
class FCNTKGradient:
    """Linear query for the gradient with respect to the pixels of the support set, for the FC-NTK.

    The kernel is a function of inner products, so the row of support record s is a combination of records:

        u_s = (sum_j D_sj x_j + c_s x) / (classes d),   c_s = a_s k1(x, s),
        D = -(beta a^T + a beta^T) * k1 + diag(own),
        own_s = 2 a_s k2(x, s) - 2 sum_{j != s} (beta_s a_j + a_s beta_j) k2(s, j)
                - 2 (a_s beta_s + (ridge / m) a . beta) k0(s)

    with a = alpha r and beta as in FeatureGradient, k1 = dk/d<x, z>, k2 = dk/d<z, z> for the support record's own
    square, and k0 the derivative of k(x, x). With G the Gram matrix of the support set, tr(D G D^T) without own is a
    quadratic form in r and in beta, sum_cd r_c r_d beta^T T_cd beta, with the same matrices for all records.

    Weights of classes as in FeatureGradient.

    Params: X_s (m, d), alpha (m, classes), inverse (m, m), k1 (m, m) without its diagonal, k2 (m, m) likewise (first
    index: whose square), k0 (m,), weights (classes,), all float64. Prepared of them: G and T.

    Guarantee:
        A function of the coefficients (x, r, beta, c, own, weight), which count as exact; r, c and own have the weight
        in them. With |a| the product of |alpha| and |r| and
        R_s = |beta_s| (|k1| (|a| * ||x_j||))_s + |a_s| (|k1| (|beta| * ||x_j||))_s + |own_s| ||x_s|| + |c_s| ||x||,
        no term is left out of sum_s R_s^2, and the squared norm is off by at most
        (m^2 + 8 m + 2 d + classes^2 + 64) u of it, u = 2^-53; the bound adds 2^-20 of it, which is more while the
        bracket is at most 2 MOST_TERMS. A record's share is then rounded by at most (128 + 3 m + 64) 2^-43 C:
        error_bound (3 m >= 2 m + classes, one record a class at least).

    Source: Vinaroz & Park, 2024, algorithm 1, with the FC-NTK; the closed form is ours.
    """

    clip_norm: float
    kernel: FCNTK
    ridge: float
    support: int
    by_class: bool = False
    encoder: None = None

    def __post_init__(self) -> None:
        if self.support > 1000:
            raise ValueError(f"Expected at most 1000 support records with this kernel; got {self.support}.")

    @property
    def error_bound(self) -> float:
        return (MOST_ROWS + 3 * self.support + 64) * ROUNDING / FLOOR * self.clip_norm

    def contribution(self, params: Any, x: Array, y: Array) -> Array:
        x, r, beta, c, own, _ = self._coefficients(params, x.astype(params["X_s"].dtype), y)
        a = params["alpha"] @ r
        D = -(jnp.outer(beta, a) + jnp.outer(a, beta)) * params["k1"] + jnp.diag(own)
        return ((D @ params["X_s"] + jnp.outer(c, x)) / (params["alpha"].shape[1] * x.size)).ravel()

    def prepare(self, params: Any) -> Any:
        G = params["X_s"] @ params["X_s"].T
        return {**params, "G": G, "T": _biquadratic_form(params["alpha"], params["k1"], G)}

    def coefficients(self, params: object, x: Array, y: Array) -> tuple[Array, ...]:
        return self._coefficients(params, x.astype(jnp.float64), y)

    def _coefficients(self, params: Any, x: Array, y: Array) -> tuple[Array, ...]:
        x, X_s, alpha = x.ravel(), params["X_s"], params["alpha"]
        d, m = x.size, len(X_s)
        xz, xx, zz = x @ X_s.T / d, _dot(x, x) / d, _dot(X_s, X_s) / d
        k, k1, k2 = derivatives(self.kernel, *jnp.broadcast_arrays(xz, xx, zz))
        weight = params["weights"][y]
        r = weight * (k @ alpha - target_of(y, alpha.shape[1], x.dtype))
        a, beta = r @ alpha.T, k @ params["inverse"]
        own = 2 * a * k2 - 2 * (beta * (a @ params["k2"].T) + a * (beta @ params["k2"].T))
        own = own - 2 * (a * beta + self.ridge / m * _dot(a, beta)) * params["k0"]
        return x, r, beta, a * k1, own, weight

    def norm(self, params: Any, coefficients: tuple[Array, ...]) -> Array:
        (x, r, beta, c, own, weight), X_s, alpha = coefficients, params["X_s"], params["alpha"]
        k1 = params["k1"]
        a, G, K = r @ alpha.T, params["G"], x @ X_s.T
        lengths, length, Gk = jnp.sqrt(jnp.diag(G)), jnp.sqrt(_dot(x, x)), G * k1
        squares = _biquadratic(params["T"], r, beta) + _dot(jnp.square(own), jnp.diag(G))
        squares -= 2 * _dot(own, beta * (a @ Gk.T) + a * (beta @ Gk.T))
        squares += 2 * _dot(c, own * K - beta * ((a * K) @ k1.T) - a * ((beta * K) @ k1.T))
        squares += jnp.sum(jnp.square(c * length))
        a, beta, k1 = jnp.abs(r) @ jnp.abs(alpha).T, jnp.abs(beta), jnp.abs(k1)
        R = beta * ((a * lengths) @ k1.T) + a * ((beta * lengths) @ k1.T) + jnp.abs(own) * lengths + jnp.abs(c) * length
        scale = alpha.shape[1] * x.size
        return jnp.sqrt(jnp.maximum(squares, 0.0) + FLOOR**2 * _dot(R, R)) / (scale * weight)

    def weighted_sum(self, params: Any, coefficients: tuple[Array, ...], w: Array) -> Array:
        (X, r, beta, c, own, _), X_s = coefficients, params["X_s"]
        M = (w[:, None] * (r @ params["alpha"].T)).T @ beta
        D = -(M + M.T) * params["k1"] + jnp.diag(w @ own)
        return ((D @ X_s + (w[:, None] * c).T @ X) / (params["alpha"].shape[1] * X.shape[1])).ravel()


def form_bytes(m: int, classes: int) -> int:
    """Returns the bytes of the quadratic form and of the products of k1's columns that it needs."""
    return 4 * m**3 + 2 * classes * (classes + 1) * m * (m + SIZE)


def _biquadratic_form(alpha: Array, k1: Array, G: Array) -> list[Array]:
    """Returns T_cd of tr(E G E^T) = sum_cd r_c r_d beta^T T_cd beta, E = (beta a^T + a beta^T) * k1, a = alpha r.

    T_cd = G * (k1^T diag(alpha_c alpha_d) k1) + 2 alpha_d [(alpha_c * k1) G * k1]
           + diag of (alpha_c * k1) G (alpha_d * k1)^T,
    symmetrised in (c, d) and in (s, k), with one half of each kept.

    Returns:
        (pairs of classes, SIZE, m - start) for start = 0, SIZE, ...: numbers of rows start .. start + SIZE - 1 and
        columns from start on.
    """
    (m, classes), (alpha, k1, G) = alpha.shape, map(jnp.asarray, (alpha, k1, G))
    c, d = np.triu_indices(classes)
    half = (alpha.T[:, None, :] * k1) @ G * k1  # (classes, s, k)
    products = (alpha[:, c] * alpha[:, d]).T
    diagonal = jnp.einsum("csj,jd->cds", half, alpha)[c, d]
    pairs = jnp.where(c == d, 1.0, 2.0)[:, None, None]

    def of_rows(start: int) -> Array:
        s, k = slice(start, min(start + SIZE, m)), slice(start, None)
        columns = np.arange(start, m)
        T = products @ (k1[:, s, None] * k1[:, None, k]).reshape(m, -1)
        T = T.reshape(len(c), -1, len(columns)) * G[s, k]
        A, H, A_k, H_k = alpha.T[:, s, None], half[:, s, k], alpha.T[:, None, k], half[:, k, s].swapaxes(1, 2)
        T += (A[c] * H[d] + A[d] * H[c] + A_k[c] * H_k[d] + A_k[d] * H_k[c]) / 2
        T += diagonal[:, s, None] * (columns[:SIZE, None] == columns)
        return pairs * jnp.where(columns < start + SIZE, 1.0, 2.0) * T

    return [of_rows(start) for start in range(0, m, SIZE)]


def _biquadratic(form: list[Array], r: Array, beta: Array) -> Array:
    """Returns sum_cd r_c r_d beta^T T_cd beta of one record."""
    (c, d), total = np.triu_indices(len(r)), jnp.zeros((), r.dtype)
    pairs = r[c] * r[d]
    for i, T in enumerate(form):
        rows = beta[i * SIZE : i * SIZE + T.shape[1], None] * beta[i * SIZE :]
        total += _dot(rows.ravel() @ T.reshape(len(T), -1).T, pairs)
    return total


def derivatives(kernel: FCNTK, xz: Array, xx: Array, zz: Array) -> tuple[Array, Array, Array]:
    """Returns k and its derivatives by <x, z> / d and by <z, z> / d, elementwise."""
    one, zero = jnp.ones_like(xz), jnp.zeros_like(xz)
    k, k1 = jax.jvp(kernel.of_products, (xz, xx, zz), (one, zero, zero))
    _, k2 = jax.jvp(kernel.of_products, (xz, xx, zz), (zero, zero, one))
    return k, k1, k2


def _dot(A: Array, B: Array) -> Array:
    """Returns the inner product along the last axis."""
    return jnp.sum(A * B, -1)
