# SPDX-License-Identifier: Apache-2.0
"""The methods that classify images: flows in function and weight space, dropout, and mean-field posteriors.

All take Adam with a rate that falls to 0 along half a cosine, the same number of steps, and the same images.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from fpovi.baselines.dropout import dropout, thinnings
from fpovi.baselines.mean_field import MeanField, ScaleMixture, mean_field, mean_field_draws
from fpovi.inference import augmented, function_space, weight_space
from fpovi.likelihoods import categorical
from fpovi.networks import MLP, fan_out_scales, mlp
from fpovi.types import (
    Algorithm,
    Flow,
    FunctionPrior,
    Kernel,
    Key,
    Likelihood,
    Measurement,
    Network,
    ParametrisedAlgorithm,
    PyTree,
    Schedule,
    Transform,
)

LIKELIHOOD = categorical()
RATE = 1e-3
SPREAD = 100.0  # of the prior of weights where they are climbed: ``mnist --preset tuning`` compares it with others
DRAWS = 20  # of a posterior that is no set of particles

MakeNetwork = Callable[[], Network]
MakeOptimiser = Callable[[int], optax.GradientTransformation]  # of the number of steps


class Method(NamedTuple):
    """How networks are trained and what is taken for draws of the posterior.

    Attributes:
        network: returns the network, the same object each time.
        algorithm: ``algorithm(pool, steps)`` returns the algorithm of a run of so many steps; the pool are images to
            take extra points from. Its ``build`` is the same object for the same number of steps, by which programs are
            found.
        members: how many networks (or distributions of networks) are trained.
        draws: ``draws(key, members)`` returns the particles that predict, made of the trained members.
    """

    network: MakeNetwork
    algorithm: Callable[[Array, int], ParametrisedAlgorithm]
    members: int
    draws: Callable[[Key, PyTree], PyTree] = lambda key, members: members


@lru_cache
def fan_out_mlp(sizes: tuple[int, ...], spread: float = 1.0, logit_std: float = 1.0) -> Network:
    """Return a perceptron with the paper's prior and start; the same object each time.

    Args:
        sizes: inputs, hidden layers, classes.
        spread: a factor on all variances of the prior: the weaker, the larger it is.
        logit_std: a factor on the standard deviations of the last layer.
    """
    scales = fan_out_scales(sizes, logit_std)
    wider = {name: spread * getattr(scales, name) for name in ("weight_variance", "bias_variance")}
    return mlp(sizes, scales=scales._replace(**wider), prior_start=False)


def fan_out_logit_variance(hidden_layers: int, squared_norm: float, classes: int) -> float:
    r"""Return the variance of a logit under the paper's prior, that of a network of rectifiers with N(0, 1/n_out).

    .. math:: v_0 = |x|^2, \qquad v_{l+1} = (v_l + 1)/2, \qquad \mathrm{Var}\, f_c = (v_L + 1)/k

    v being the sum of squared units of a layer, of which the rectifier leaves one half. It does not depend on widths.

    Args:
        hidden_layers: how many, L.
        squared_norm: the mean of |x|² over inputs.
        classes: how many logits, k.

    >>> fan_out_logit_variance(hidden_layers=2, squared_norm=1.0, classes=10)
    0.2
    """
    total = squared_norm
    for _ in range(hidden_layers):
        total = (total + 1) / 2
    return (total + 1) / classes


def falling_adam(steps: int, rate: float = RATE) -> optax.GradientTransformation:
    """Return Adam whose rate falls to 0 along half a cosine."""
    return optax.adam(optax.cosine_decay_schedule(rate, steps))


def with_transform(method: Method, transform: Transform) -> Method:
    """Return a method that changes the labelled images of every step by ``transform(key, x)``."""
    return method._replace(algorithm=lambda pool, steps: augmented(method.algorithm(pool, steps), transform))


def drawn_from(pool: Float[Array, "N *d_x"], size: int) -> Measurement:
    """Return a sampler that adds ``size`` random images of a pool to the labelled ones, with repetition."""

    def draw(key: Key, labelled: Float[Array, "B_ *d_x"]) -> Float[Array, "B *d_x"]:
        return jnp.concatenate([labelled, pool[jax.random.randint(key, (size,), 0, pool.shape[0])]])

    return draw


def function_method(
    network: MakeNetwork,
    prior: Callable[[Network], FunctionPrior],
    flow: Flow,
    kernel: Kernel,
    n: int,
    measurement: Callable[[Array], Measurement],
    optimiser: MakeOptimiser = falling_adam,
    likelihood: Likelihood = LIKELIHOOD,
    repulsion: Callable[[int], Schedule] = lambda steps: 1.0,
    **options: Any,
) -> Method:
    """Return a flow in function space.

    Args:
        network: returns the network.
        prior: ``prior(network)`` returns the prior over its functions.
        flow, kernel: how particles interact.
        n: how many particles.
        measurement: ``measurement(pool)`` returns what adds points to the labelled images of a step.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
        likelihood: of the labels.
        repulsion: ``repulsion(steps)`` returns the factor on repulsion in a run of so many steps.
        options: more arguments of ``function_space``.
    """

    @lru_cache
    def build(steps: int) -> Callable[[Array], Algorithm]:
        return lambda pool: function_space(
            network(), likelihood, prior(network()), flow=flow, kernel=kernel, measurement=measurement(pool),
            optimiser=optimiser(steps), repulsion=repulsion(steps), **options,
        )  # fmt: skip

    return Method(network, lambda pool, steps: ParametrisedAlgorithm(build(steps), pool), n)


def weight_method(
    network: MakeNetwork, flow: Flow, kernel: Kernel, n: int, optimiser: MakeOptimiser = falling_adam
) -> Method:
    """Return a flow in weight space; with ``ensemble`` n networks climb to their MAP.

    Args:
        network: returns the network, with the prior on its weights.
        flow, kernel: how particles interact.
        n: how many networks.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
    """
    return method_without_pool(
        network,
        n,
        lambda made: weight_space(network(), LIKELIHOOD, flow=flow, kernel=kernel, optimiser=made),
        optimiser,
    )


def dropout_method(network: MakeNetwork, left_out: float = 0.5, optimiser: MakeOptimiser = falling_adam) -> Method:
    """Return MC dropout: 20 thinnings of one network.

    Args:
        network: returns the network, with the prior on its weights.
        left_out: the share of hidden units left out.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
    """

    def draws(key: Key, members: MLP) -> MLP:
        return thinnings(left_out, DRAWS, key, only(members))

    made = method_without_pool(network, 1, lambda made: dropout(network(), LIKELIHOOD, left_out, made), optimiser)
    return made._replace(draws=draws)


def backprop_method(
    network: MakeNetwork, scale_mixture: ScaleMixture | None = None, optimiser: MakeOptimiser = falling_adam
) -> Method:
    """Return Bayes by backprop: 20 draws of a mean-field posterior.

    Args:
        network: returns the network, with the prior on its weights.
        scale_mixture: a prior in its place.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
    """

    def draws(key: Key, members: MeanField) -> MLP:
        return mean_field_draws(DRAWS, key, only(members))

    made = method_without_pool(
        network, 1, lambda adam: mean_field(network(), LIKELIHOOD, adam, scale_mixture), optimiser
    )
    return made._replace(draws=draws)


def method_without_pool(
    network: MakeNetwork,
    n: int,
    make: Callable[[optax.GradientTransformation], Algorithm],
    optimiser: MakeOptimiser = falling_adam,
) -> Method:
    """Return a method of n members that needs no images beside those of the batch.

    Args:
        network: returns the network.
        n: how many members are trained.
        make: ``make(optimiser)`` returns the algorithm.
        optimiser: ``optimiser(steps)`` returns that of a run of so many steps.
    """

    @lru_cache
    def build(steps: int) -> Callable[[Array], Algorithm]:
        found = make(optimiser(steps))
        return lambda pool: found

    return Method(network, lambda pool, steps: ParametrisedAlgorithm(build(steps), ()), n)


def only(members: PyTree) -> Any:
    """Return the weights of the only member."""
    return jax.tree.map(lambda leaf: leaf[0], members)
