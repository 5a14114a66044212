# SPDX-License-Identifier: Apache-2.0
"""The prior of a finite-width network, not its Gaussian limit."""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from fpovi.precision import in_float64
from fpovi.priors.draws import check_draws
from fpovi.types import FunctionPrior, Key, Network


def width_aware(network: Network, draws: int = 200, jitter: float = 1e-4) -> FunctionPrior:
    r"""What a multilayer perceptron of finite width believes: a mixture of Gaussians over its hidden layers.

    Given the hidden layers, the outputs are linear in the last layer's Gaussian weights, so f(x) is Gaussian; the
    prior is the average over hidden layers, here over M fresh draws of them:

    .. math::
        p(f(x)) = \mathbb E_{\Phi}\, \mathcal N(f; 0, \Sigma_\Phi)
        \approx \frac1M \sum_m \mathcal N(f; 0, \Sigma_m), \qquad
        \Sigma_m = \tfrac{w}{h} \Phi_m \Phi_m^T + b + \epsilon I

    with :math:`\Phi_m` the last hidden activations ``(B, h)``, w and b the last layer's variances. The score
    :math:`-\sum_m r_m(f)\, \Sigma_m^{-1} f` weighs every Gaussian by its responsibility for f.

    Args:
        network: an ``mlp`` with at least one hidden layer.
        draws: M.
        jitter: ε.
    """
    check_draws(draws)
    architecture = network.architecture
    if architecture is None or network.activations is None or len(architecture.sizes) < 3:
        raise ValueError("prior=width_aware needs an mlp with a hidden layer; use moment_matched or ssge")
    width, outputs = architecture.sizes[-2:]
    weight, bias = float(architecture.scales.weight[-1]), float(architecture.scales.bias[-1])
    activations = network.activations

    def features(key: Key, x: Array) -> Float[Array, "B h"]:
        hidden, _ = activations(network.sample_prior(key), (), x, True)
        return hidden[:, -(width + outputs) : -outputs]

    def components(f: Array, phi: Array) -> tuple[Array, Array]:
        """log N(f; 0, Σ_m) ``(M, n)`` and Σ_m⁻¹ f ``(M, n, B, k)``."""
        n, rows, k = f.shape
        eye = jnp.eye(rows, dtype=f.dtype)
        stacked = jnp.moveaxis(f, 1, 0).reshape(rows, n * k)

        def one(phi: Array) -> tuple[Array, Array]:
            factor = jnp.linalg.cholesky(weight / width * phi @ phi.T + bias + jitter * eye)
            white = solve_triangular(factor, stacked, lower=True)
            quadratic = jnp.sum(white.reshape(rows, n, k) ** 2, axis=(0, 2))
            log_norm = jnp.sum(jnp.log(jnp.diagonal(factor))) + rows / 2 * jnp.log(2 * jnp.pi)
            solved = solve_triangular(factor, white, lower=True, trans=1)
            return -quadratic / 2 - k * log_norm, jnp.moveaxis(solved.reshape(rows, n, k), 0, 1)

        return jax.vmap(one)(phi)

    @in_float64
    def score64(f: Array, phi: Array) -> Array:
        log_density, solved = components(f, phi)
        return -jnp.einsum("mn,mnbk->nbk", jax.nn.softmax(log_density, axis=0), solved)

    @in_float64
    def log_prob64(f: Array, phi: Array) -> Array:
        return jax.nn.logsumexp(components(f, phi)[0], axis=0) - jnp.log(draws)

    def hidden_draws(key: Key, x: Array) -> Float[Array, "M B h"]:
        return jax.vmap(lambda key: features(key, x))(jax.random.split(key, draws))

    def score(key: Key, f: Float[Array, "n B k"], x: Float[Array, "B d_x"]) -> Float[Array, "n B k"]:
        return score64(f, hidden_draws(key, x))

    def log_prob(key: Key, f: Float[Array, "n B k"], x: Float[Array, "B d_x"]) -> Float[Array, " n"]:
        return log_prob64(f, hidden_draws(key, x))

    return FunctionPrior(score, log_prob)
