# SPDX-License-Identifier: Apache-2.0
"""A likelihood of real numbers that may have several most probable values."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats
from jaxtyping import Array, Float, Shaped

from fpovi.likelihoods.noise import NO_PARAMS, check_positive
from fpovi.types import Key, Likelihood, PyTree


def mixture(components: int = 3, floor: float = 1e-3) -> Likelihood:
    r"""Return :math:`y \sim \sum_c \pi_c\, \mathcal N(\mu_c, \sigma_c^2)`: weights, means and noise all depend on x.

    For every target a network has outputs :math:`(a_c, \mu_c, b_c)`, and :math:`\pi = \mathrm{softmax}(a)`,
    :math:`\sigma = \text{floor} + \mathrm{softplus}(b)`: a mixture density network (Bishop 1994) per particle. Its
    densities may have several peaks or long tails; with one component it is ``heteroscedastic``.

    Args:
        components: how many normal densities are mixed.
        floor: the least of their scales, in standardised units. Where targets are rounded, as grades are, a density
            could be made arbitrarily high at them: a floor of the order of the rounding prevents it.
    """
    if isinstance(components, bool) or not isinstance(components, int | np.integer) or components < 1:
        raise ValueError(f"components={components!r} must be a positive whole number")
    check_positive("floor", floor)

    def parts(f: Float[Array, "B k"]) -> tuple[Array, Array, Array]:
        """Return log-weights, means and scales, each ``(components, m, B)``: rows last, as a CPU likes it."""
        logits, means, raw = f.T.reshape(3, components, f.shape[1] // (3 * components), f.shape[0])
        return jax.nn.log_softmax(logits, axis=0), means, floor + jax.nn.softplus(raw)

    def normal_components(params: PyTree, f: Float[Array, "B k"]) -> tuple[Array, Array, Array]:
        log_weights, means, scales = (jnp.swapaxes(part, 1, 2) for part in parts(f))
        return jnp.exp(log_weights), means, scales

    def log_prob(params: PyTree, f: Float[Array, "B k"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        log_weights, means, scales = parts(f)
        return jax.nn.logsumexp(log_weights + stats.norm.logpdf(y.astype(f.dtype).T, means, scales), axis=0).T

    def mean(params: PyTree, f: Float[Array, "B k"]) -> Float[Array, "B m"]:
        log_weights, means, _ = parts(f)
        return jnp.sum(jnp.exp(log_weights) * means, axis=0).T

    def variance(params: PyTree, f: Float[Array, "B k"]) -> Float[Array, "B m"]:
        log_weights, means, scales = parts(f)
        return jnp.sum(jnp.exp(log_weights) * (scales**2 + (means - mean(params, f).T) ** 2), axis=0).T

    def cdf(params: PyTree, f: Float[Array, "B k"], y: Shaped[Array, "B m"]) -> Float[Array, "B m"]:
        log_weights, means, scales = parts(f)
        return jnp.sum(jnp.exp(log_weights) * stats.norm.cdf(y.astype(f.dtype).T, means, scales), axis=0).T

    def sample(key: Key, params: PyTree, f: Float[Array, "B k"]) -> Float[Array, "B m"]:
        log_weights, means, scales = parts(f)
        key_which, key_noise = jax.random.split(key)
        which = jax.random.categorical(key_which, log_weights, axis=0)[None]
        chosen = [jnp.take_along_axis(part, which, axis=0)[0] for part in (means, scales)]
        return (chosen[0] + chosen[1] * jax.random.normal(key_noise, chosen[0].shape, f.dtype)).T

    return Likelihood(
        init=lambda: NO_PARAMS,
        canonical=lambda outputs: outputs,
        log_prob=log_prob,
        log_prior=lambda params: jnp.zeros(()),
        mean=mean,
        variance=variance,
        sample=sample,
        cdf=cdf,
        noise=lambda params: jnp.zeros(()),
        width=lambda m: 3 * components * m,
        targets=lambda k: k // (3 * components),
        normal_components=normal_components,
    )
