# SPDX-License-Identifier: Apache-2.0
"""Variational fits of one multilayer perceptron, whose posterior is drawn from afterwards.

Monte Carlo dropout takes random thinnings of the network for draws, Bayes by backprop a Gaussian with independent
weights.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from fpovi.baselines.optimisation import (
    FitOptions,
    check_counts,
    draws_of,
    fit,
    log_joint,
    log_likelihood,
    maximise,
    prior_deviations,
)
from fpovi.networks import MLP
from fpovi.types import Algorithm, Batch, Key, Likelihood, Network, PyTree, Scalar, State

Masks = tuple[Float[Array, "*rows _"], ...]
LEARNING_RATE = 1e-2  # of Bayes by backprop
START = 0.1  # of a weight's standard deviation, as a share of its prior's


class Layers(NamedTuple):
    """The layers of a network: ``prior_std`` of weights and the ``factor`` of the forward pass on them are like θ."""

    activation: Callable[[Array], Array]
    input: Float[Array, " d_x"]
    prior_std: MLP
    factor: MLP

    def scaled(self, theta: MLP, dtype: jnp.dtype) -> MLP:
        """Return what the forward pass multiplies with, from weights or their deviations."""
        return jax.tree.map(lambda leaf, factor: (leaf * factor).astype(dtype), theta, self.factor)


def describe_layers(network: Network) -> Layers:
    """Return the layers of an ``mlp``, with ``unit_weights`` or without; raise a ``ValueError`` for other networks."""
    architecture = network.architecture
    if architecture is None:
        raise ValueError("network must be an mlp: the layers of others are not known")
    scales = architecture.scales
    for name, value in (("weight", scales.weight_variance), ("bias", scales.bias_variance)):
        if not np.all(np.asarray(value) > 0):
            raise ValueError(
                f"scales.{name}_variance={value} must be positive: a weight without variance has no density"
            )
    n_in = jnp.asarray(architecture.sizes[:-1], scales.weight_variance.dtype)

    @jax.jit
    def measure() -> tuple[MLP, MLP]:
        prior_std = prior_deviations(network)
        deviation = jnp.sqrt(scales.weight_variance / n_in), jnp.sqrt(scales.bias_variance)
        wanted = jax.tree.map(jnp.ones_like, prior_std).scaled(*deviation)
        return prior_std, jax.tree.map(jnp.divide, wanted, prior_std)

    return Layers(architecture.activation, scales.input, *measure())


def mc_dropout(
    key: Key,
    network: Network,
    likelihood: Likelihood,
    data: Batch,
    *,
    n: int = 20,
    rate: float = 0.05,
    **options: Unpack[FitOptions],
) -> State:
    r"""Use dropout as approximate inference (Gal & Ghahramani 2016).

    A network is fitted with hidden units left out at random, row by row,

    .. math::
        h_{l+1} = \big(\phi(h_l) \odot z_l / (1 - r)\big) W_l + b_l, \qquad z_l \sim \mathrm{Bernoulli}(1 - r),

    and its draws are n thinnings of it, each a network with the units of one z left out for all rows. They share the
    noise scale, which is fitted with the weights.

    Args:
        key: a typed key; the same key gives the same result.
        network: the prior and the shape of the weights; it must be an ``mlp``.
        likelihood: how targets follow from outputs.
        data: all rows, from :func:`fpovi.make_batch`.
        n: how many thinnings.
        rate: r, the share of units left out, at least 0 and below 1.
        num_steps: how many steps to take.
        batch_size: rows per step; all by default.
        optimiser: any optax transformation; Adam whose rate falls from 4e-3 to 0 by default.
        transform: a random change of the labelled inputs of a step, as in :func:`fpovi.inference.augmented`.
        watch: called now and then with the state and the history, as in :func:`fpovi.run`.

    Returns:
        A state with n particles and params, for :func:`fpovi.predict`.
    """
    check_counts(n=n)
    key_fit, key_masks = jax.random.split(key)
    state = fit(key_fit, partial(dropout, network, likelihood, rate), 1, data, **options)
    return draws_of(state, partial(thinnings, rate, n, key_masks), n)


@lru_cache(maxsize=64)
def dropout(
    network: Network, likelihood: Likelihood, rate: float, optimiser: optax.GradientTransformation
) -> Algorithm:
    """Return the algorithm that fits networks with dropout, each on its own."""
    if not 0 <= rate < 1:
        raise ValueError(f"rate={rate} must be at least 0 and below 1")
    layers = describe_layers(network)

    def objective(key: Key, theta: MLP, params: PyTree, batch: Batch) -> tuple[Scalar, Scalar]:
        outputs = masked_forward(layers, theta, unit_masks(key, theta, rate, batch.x.shape[:1]), batch.x)
        return log_joint(network, likelihood, outputs, theta, params, batch)

    return maximise(network, likelihood, lambda key: network.init(key)[0], objective, lambda theta: theta, optimiser)


@partial(jax.jit, static_argnums=(0, 1))
def thinnings(rate: float, n: int, key: Key, theta: MLP) -> MLP:
    """Draw n thinnings of a network."""
    return jax.vmap(lambda key: thinned(theta, unit_masks(key, theta, rate)))(jax.random.split(key, n))


def unit_masks(key: Key, theta: MLP, rate: float, rows: tuple[int, ...] = ()) -> Masks:
    """Draw for every hidden unit (and row) 0 with probability ``rate``, else 1/(1 − rate)."""
    widths = [weight.shape[0] for weight in theta.weights[1:]]
    keys = jax.random.split(key, max(len(widths), 1))
    keep = [jax.random.bernoulli(k, 1 - rate, (*rows, width)) for k, width in zip(keys, widths, strict=False)]
    return tuple(mask.astype(theta.weights[0].dtype) / (1 - rate) for mask in keep)


def masked_forward(layers: Layers, theta: MLP, masks: Masks, x: Float[Array, "B d_x"]) -> Float[Array, "B k"]:
    """Return the outputs with each layer's activations multiplied by its mask."""
    theta = layers.scaled(theta, x.dtype)
    outputs = (x * layers.input.astype(x.dtype)) @ theta.weights[0] + theta.biases[0]
    for mask, weight, bias in zip(masks, theta.weights[1:], theta.biases[1:], strict=True):
        outputs = (layers.activation(outputs) * mask.astype(x.dtype)) @ weight + bias
    return outputs


def thinned(theta: MLP, masks: Masks) -> MLP:
    """Return the network that gives unmasked what ``theta`` gives masked: units act through their outgoing weights."""
    weights = (w * mask[:, None] for w, mask in zip(theta.weights[1:], masks, strict=True))
    return MLP((theta.weights[0], *weights), theta.biases)


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
