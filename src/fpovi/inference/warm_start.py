# SPDX-License-Identifier: Apache-2.0
"""Particles that start at the exact posterior of their last layer."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.types import Key, Network, PyTree


def posterior_last_layer(
    key: Key,
    network: Network,
    x: Float[Array, "B d_x"],
    y: Float[Array, "B k"],
    noise: float | Float[Array, ""],
    n: int,
    weight: Float[Array, "B _"] | None = None,
    refits: int = 0,
) -> PyTree:
    r"""Draw n particles: hidden layers from the prior and, given those, the last layer from its exact posterior.

    With last hidden activations Φ the outputs are :math:`f = A z`, :math:`A = [\sqrt{w/h}\,\Phi, \sqrt b\,1]` and
    :math:`z \sim \mathcal N(0, I)` a priori, w and b the last layer's variances: Bayesian linear regression,

    .. math::
        z \mid y \sim \mathcal N\big(P^{-1} A^T \Lambda y,\; P^{-1}\big), \qquad P = I + A^T \Lambda A, \qquad
        \Lambda = \mathrm{diag}(\text{weight}) / \sigma^2

    one small solve in double precision per particle and target. The particles fit the data as well as random features
    can, and disagree away from them as the prior does.

    Args:
        key: the same key gives the same particles.
        network: an ``mlp`` with at least one hidden layer.
        x, y: inputs and one target per output.
        noise: σ.
        n: how many particles.
        weight: per row, or per row and target.
        refits: how often to raise σ, particle by particle, to what the mean fit leaves unexplained. Random features of
            a narrow network cannot follow data of very little noise; told to, they answer with huge weights.
    """
    architecture, activations = network.architecture, network.activations
    if architecture is None or activations is None or len(architecture.sizes) < 3:
        raise ValueError("network must be an mlp with a hidden layer: the last layer of others is not known")
    width, outputs = architecture.sizes[-2:]
    if x.ndim != 2 or y.shape != (x.shape[0], outputs):
        raise ValueError(f"y has shape {y.shape}, but x of shape {x.shape} and {outputs} outputs need one target each")
    if n < 1:
        raise ValueError(f"n={n} must be at least 1")
    if not isinstance(noise, jax.core.Tracer) and not float(noise) > 0:
        raise ValueError(f"noise={noise} must be positive")
    scales = architecture.scales
    shape = (x.shape[0], 1) if weight is None else weight.shape
    if shape not in ((x.shape[0], 1), y.shape):
        raise ValueError(f"weight has shape {shape}, but {(x.shape[0], 1)} or {y.shape} is needed")
    if refits < 0:
        raise ValueError(f"refits={refits} must not be negative")
    weight = jnp.broadcast_to(jnp.ones((), x.dtype) if weight is None else weight, y.shape)
    least = jnp.asarray(noise, x.dtype)

    def one(key: Key) -> PyTree:
        key_hidden, key_last = jax.random.split(key)
        theta = network.sample_prior(key_hidden)
        phi = activations(theta, (), x, True)[0][:, -(width + outputs) : -outputs]
        last = jnp.sqrt(scales.weight_variance[-1] / width), jnp.sqrt(scales.bias_variance[-1])
        design = jnp.concatenate([phi * last[0], jnp.full((x.shape[0], 1), last[1], phi.dtype)], axis=1)
        z = _draw(refits, design, y, weight, least, jax.random.normal(key_last, (width + 1, outputs), phi.dtype))
        # a Gaussian prior's gradient at 1 is −1/σ²
        unit = jax.tree.map(lambda g: (-1 / g) ** 0.5, jax.grad(network.log_prior)(jax.tree.map(jnp.ones_like, theta)))
        where = lambda theta: (theta.weights[-1], theta.biases[-1])  # noqa: E731
        return eqx.tree_at(where, theta, (z[:-1] * unit.weights[-1], z[-1] * unit.biases[-1]))

    return jax.lax.map(one, jax.random.split(key, n))  # one at a time: all designs at once may not fit in memory


def _draw(refits: int, *args: Array) -> Float[Array, "h k"]:
    """Return :math:`P^{-1} A^T Λ y + P^{-1/2} ε`, target by target, σ raised ``refits`` times before."""

    @in_float64
    def draw(design: Array, y: Array, weight: Array, least: Array, normal: Array) -> Array:
        def of_target(y: Array, weight: Array, normal: Array) -> Array:
            noise = least
            for attempt in range(refits + 1):
                weighted = design * (weight / noise**2)[:, None]
                factor = jnp.linalg.cholesky(jnp.eye(design.shape[1], dtype=design.dtype) + weighted.T @ design)
                mean = cho_solve((factor, True), weighted.T @ y)
                if attempt < refits:
                    left = jnp.sum(weight * (y - design @ mean) ** 2) / jnp.maximum(jnp.sum(weight), 1e-12)
                    noise = jnp.maximum(least, jnp.sqrt(left))
            return mean + solve_triangular(factor, normal, lower=True, trans=1)

        return jax.vmap(of_target, in_axes=1, out_axes=1)(y, weight, normal)

    return draw(*args)
