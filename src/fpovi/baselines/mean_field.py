# SPDX-License-Identifier: Apache-2.0
"""Bayes by backprop: a Gaussian with independent weights stands for the posterior of one multilayer perceptron."""

from functools import lru_cache, partial
from typing import NamedTuple, Unpack

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi.baselines.layers import Layers, describe_layers
from fpovi.baselines.optimisation import FitOptions, check_counts, draws_of, fit, log_likelihood, maximise
from fpovi.networks import MLP
from fpovi.types import Algorithm, Batch, Key, Likelihood, Network, PyTree, Scalar, State

LEARNING_RATE = 1e-2
START = 0.1  # of a weight's standard deviation, as a share of its prior's


class MeanField(NamedTuple):
    """q(θ) = Π N(mean, std²), std = softplus(rho); both like θ."""

    mean: MLP
    rho: MLP

    @property
    def std(self) -> MLP:
        """The standard deviation of every weight."""
        return jax.tree.map(jax.nn.softplus, self.rho)

    def sample(self, key: Key) -> MLP:
        """Draw all weights once."""
        leaves, tree = jax.tree.flatten(self.mean)
        keys = jax.tree.unflatten(tree, list(jax.random.split(key, len(leaves))))
        draw = lambda key, mean, std: mean + std * jax.random.normal(key, mean.shape, mean.dtype)  # noqa: E731
        return jax.tree.map(draw, keys, self.mean, self.std)


class ScaleMixture(NamedTuple):
    r"""The prior :math:`\pi\,\mathcal N(0, s_1^2) + (1 - \pi)\,\mathcal N(0, s_2^2)` of every weight and bias."""

    share: float
    wide: float
    narrow: float

    def log_density(self, w: Array) -> Array:
        """Return the log-density of every weight."""
        parts = ((self.share, self.wide), (1 - self.share, self.narrow))
        return jnp.logaddexp(*(jnp.log(share) + jax.scipy.stats.norm.logpdf(w, scale=std) for share, std in parts))


def bayes_by_backprop(
    key: Key,
    network: Network,
    likelihood: Likelihood,
    data: Batch,
    *,
    n: int = 20,
    scale_mixture: ScaleMixture | None = None,
    **options: Unpack[FitOptions],
) -> State:
    r"""Draw n networks from the mean-field posterior (Blundell et al. 2015).

    The posterior maximises the evidence lower bound, with the noise scale as a point estimate,

    .. math:: \frac N{B'} \sum_b \mathbb E_q \log p(y_b \mid f_\theta(x_b)) - \mathrm{KL}(q \,\|\, p)

    where the expectation is one draw of every layer's outputs for each row (:func:`locally_random_forward`), and the
    divergence between Gaussians has a closed form.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights; it must be an ``mlp``.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        n: how many draws.
        scale_mixture: a prior in place of the network's Gaussian one, on weights as the network keeps them. Its
            divergence has no closed form and is estimated by one draw of all weights in every step.
        num_steps: how many steps to take.
        batch_size: rows per step; all by default.
        optimiser: any optax transformation; Adam whose rate falls from 1e-2 to 0 by default.
        transform: a random change of the labelled inputs of a step, as in :func:`fpovi.inference.augmented`.
        watch: called now and then with the state and the history, as in :func:`fpovi.run`.

    Returns:
        A state with n particles and params, for :func:`fpovi.predict`.
    """
    check_counts(n=n)
    key_fit, key_draws = jax.random.split(key)
    make = partial(mean_field, network, likelihood, scale_mixture=scale_mixture)
    state = fit(key_fit, make, 1, data, learning_rate=LEARNING_RATE, **options)
    return draws_of(state, partial(mean_field_draws, n, key_draws), n)


@partial(jax.jit, static_argnums=0)
def mean_field_draws(n: int, key: Key, posterior: MeanField) -> MLP:
    """Draw n networks from a posterior."""
    return jax.vmap(posterior.sample)(jax.random.split(key, n))


@lru_cache(maxsize=64)
def mean_field(
    network: Network,
    likelihood: Likelihood,
    optimiser: optax.GradientTransformation,
    scale_mixture: ScaleMixture | None = None,
) -> Algorithm:
    """Return the algorithm whose members are :class:`MeanField` posteriors, each fitted on its own."""
    layers = describe_layers(network)

    def start(key: Key) -> MeanField:
        mean, _ = network.init(key)
        rho = jax.tree.map(lambda std: jnp.log(jnp.expm1(START * std)), layers.prior_std)
        return MeanField(mean, rho)

    def objective(key: Key, member: MeanField, params: PyTree, batch: Batch) -> tuple[Scalar, Scalar]:
        outputs = locally_random_forward(key, layers, member, batch.x)
        total, mean = log_likelihood(likelihood, outputs, params, batch)
        if scale_mixture is None:
            far = divergence(member, layers.prior_std)
        else:
            far = drawn_divergence(jax.random.fold_in(key, 1), member, scale_mixture)
        return total - far + likelihood.log_prior(params), mean

    return maximise(network, likelihood, start, objective, lambda member: member.mean, optimiser)


def divergence(posterior: MeanField, prior_std: MLP) -> Scalar:
    r"""Return the divergence of the posterior, with means m and deviations s, from N(0, p²).

    .. math:: \mathrm{KL} = \sum_i \log\frac{p_i}{s_i} + \frac{s_i^2 + m_i^2}{2 p_i^2} - \frac12
    """

    def of_leaf(mean: Array, std: Array, prior: Array) -> Array:
        return jnp.sum(jnp.log(prior / std) + (std**2 + mean**2) / (2 * prior**2) - 0.5)

    terms = jax.tree.map(of_leaf, posterior.mean, posterior.std, prior_std)
    return jax.tree.reduce(jnp.add, terms)


def drawn_divergence(key: Key, posterior: MeanField, prior: ScaleMixture) -> Scalar:
    r"""Return :math:`-H[q] - \log p(\theta)` at one draw θ of the posterior, whose mean is KL(q‖p)."""
    entropy = jax.tree.map(lambda std: jnp.sum(jnp.log(std) + jnp.log(2 * jnp.pi * jnp.e) / 2), posterior.std)
    log_prior = jax.tree.map(lambda w: jnp.sum(prior.log_density(w)), posterior.sample(key))
    return -jax.tree.reduce(jnp.add, entropy) - jax.tree.reduce(jnp.add, log_prior)


def locally_random_forward(
    key: Key, layers: Layers, posterior: MeanField, x: Float[Array, "B d_x"]
) -> Float[Array, "B k"]:
    r"""Return the outputs with each layer's sums drawn in place of its weights (Kingma et al. 2015).

    .. math:: h_{l+1} \sim \mathcal N\big(a M + b,\; a^2 S^2 + s_b^2\big), \qquad a = \phi(h_l)

    row by row: the same distribution for every row, and gradients of far less variance.
    """
    mean, std = layers.scaled(posterior.mean, x.dtype), layers.scaled(posterior.std, x.dtype)
    outputs = x * layers.input.astype(x.dtype)
    for layer, key_layer in enumerate(jax.random.split(key, len(mean.weights))):
        a = outputs if layer == 0 else layers.activation(outputs)
        centre = a @ mean.weights[layer] + mean.biases[layer]
        spread = jnp.sqrt(a**2 @ std.weights[layer] ** 2 + std.biases[layer] ** 2)
        outputs = centre + spread * jax.random.normal(key_layer, centre.shape, x.dtype)
    return outputs
