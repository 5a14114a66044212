# SPDX-License-Identifier: Apache-2.0
"""The prior of a finite-width network, not of its Gaussian limit."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.priors._outputs import Outputs, degrees_of_freedom, is_for_classes, pick, precision_across, put_back
from fpovi.types import FunctionPrior, Key, Likelihood, Network, PyTree

SETTLE, AVERAGE = 300, 300  # moves before and during the average, where auxiliaries are not carried from step to step
Carry = tuple[PyTree, PyTree]  # auxiliaries, and the speed of each


def width_aware(
    network: Network, likelihood: Likelihood | None = None, jitter: float = 1e-3, step_size: float = 0.01
) -> FunctionPrior:
    r"""Return the prior of a perceptron of finite width: its score comes from hidden layers that explain each function.

    Given hidden layers with last activations Φ ``(B, h)``, the outputs are linear in the last layer's Gaussian weights,
    so :math:`f \mid \Phi \sim \mathcal N(0, \Sigma_\Phi)` with :math:`\Sigma_\Phi = \tfrac wh \Phi\Phi^T + b +
    \epsilon I`, w and b the last layer's variances. Fisher's identity turns that into the score of the prior, which
    is a mixture of Gaussians and not one of them:

    .. math:: \nabla_f \log p(f) = \mathbb E_{\Phi \mid f}\big[-\Sigma_\Phi^{-1} f\big]

    Every particle keeps auxiliary hidden layers, in units of their prior standard deviation. They begin as its own,
    which explain it, and one step of underdamped Langevin dynamics on p(Φ | f) moves them each time the score is asked
    for; the expectation is their average over steps. Asked once, without ``init`` and ``advance``, :attr:`score`
    settles fresh auxiliaries first.

    Args:
        network: an ``mlp`` with at least one hidden layer.
        likelihood: as in :func:`~fpovi.priors.gaussian_process`.
        jitter: ε. Together with the number of points, which should not exceed the width by much, it bounds the
            stiffness of the score.
        step_size: of the Langevin dynamics.
    """
    _check(network, jitter, step_size)
    centred = is_for_classes(likelihood)
    k = network.architecture.sizes[-1]  # type: ignore[union-attr]

    def init(key: Key, particles: PyTree) -> Carry:
        auxiliary = jax.tree.map(jnp.divide, particles, jax.vmap(partial(_deviation, network))(particles))
        return auxiliary, jax.tree.map(jnp.zeros_like, auxiliary)

    def advance(
        key: Key, carry: Carry, f: Float[Array, "n B k"], x: Float[Array, "B d_x"], outputs: Outputs = None
    ) -> tuple[Float[Array, "n B k"], Carry]:
        if outputs is not None and outputs.ndim > 1:
            raise ValueError("prior=width_aware needs the same outputs at all points, (c,)")
        pull = jax.vmap(lambda auxiliary, f: _pull(network, jitter, centred, auxiliary, f, x))
        force, score = pull(carry[0], pick(f, outputs, centred))
        return put_back(score, outputs, k, centred), _langevin(key, step_size, carry, force)

    def score(
        key: Key, f: Float[Array, "n B k"], x: Float[Array, "B d_x"], outputs: Outputs = None
    ) -> Float[Array, "n B k"]:
        def one(i: Array, loop: tuple[Array, Carry]) -> tuple[Array, Carry]:
            total, carry = loop
            now, carry = advance(jax.random.fold_in(key, i + 1), carry, f, x, outputs)
            return total + jnp.where(i >= SETTLE, now, 0), carry

        key_start = jax.random.fold_in(key, 0)
        fresh = jax.vmap(network.sample_prior)(jax.random.split(key_start, f.shape[0]))
        start = (jnp.zeros_like(f), init(key_start, fresh))
        return jax.lax.fori_loop(0, SETTLE + AVERAGE, one, start)[0] / AVERAGE

    return FunctionPrior(score, init=init, advance=advance, for_classes=centred)


def _check(network: Network, jitter: float, step_size: float) -> None:
    if network.architecture is None or network.activations is None or len(network.architecture.sizes) < 3:
        raise ValueError("prior=width_aware needs an mlp with a hidden layer; use moment_matched or ssge")
    for name, value in (("jitter", jitter), ("step_size", step_size)):
        if not value > 0:
            raise ValueError(f"{name}={value} must be positive")


def _deviation(network: Network, theta: PyTree) -> PyTree:
    """Return the standard deviations of a Gaussian prior, whose gradient at 1 is −1/σ²."""
    return jax.tree.map(lambda g: (-1 / g) ** 0.5, jax.grad(network.log_prior)(jax.tree.map(jnp.ones_like, theta)))


def _pull(
    network: Network, jitter: float, centred: bool, auxiliary: PyTree, f: Float[Array, "B c"], x: Array
) -> tuple[PyTree, Float[Array, "B c"]]:
    """Return the derivatives of log N(f; 0, Σ_Φ) + log p(Φ) in the auxiliaries and in f, for one particle."""
    assert network.architecture is not None
    assert network.activations is not None
    activations = network.activations
    scales, (width, k) = network.architecture.scales, network.architecture.sizes[-2:]
    w, b = (scales.weight_variance[-1] / width).astype(f.dtype), scales.bias_variance[-1].astype(f.dtype)

    def features(auxiliary: PyTree) -> Float[Array, "B h"]:
        theta = jax.tree.map(jnp.multiply, auxiliary, _deviation(network, auxiliary))
        return activations(theta, (), x, True)[0][:, -(width + k) : -k]

    phi, pullback = jax.vjp(features, auxiliary)
    inverse = _inverse(phi, w, b, jnp.asarray(jitter, f.dtype))
    solved = inverse @ precision_across(f, k, centred)
    outer = solved @ ((inverse @ f).T @ phi)
    (likelihood,) = pullback(w * (outer - degrees_of_freedom(f.shape[1], k, centred) * inverse @ phi))
    return jax.tree.map(jnp.subtract, likelihood, auxiliary), -solved


def _langevin(key: Key, step_size: float, carry: Carry, force: PyTree) -> Carry:
    """Take an underdamped step of unit friction; forces are clipped, as they are enormous where Φ cannot explain f."""
    auxiliary, speed = carry
    keep = jnp.exp(-step_size)
    leaves, treedef = jax.tree.flatten(speed)
    keys = jax.tree.unflatten(treedef, list(jax.random.split(key, len(leaves))))

    def kick(key: Key, v: Array, g: Array) -> Array:
        g = jnp.clip(g, -10 / step_size, 10 / step_size)
        return keep * v + step_size * g + jnp.sqrt(1 - keep**2) * jax.random.normal(key, v.shape, v.dtype)

    speed = jax.tree.map(kick, keys, speed, force)
    return jax.tree.map(lambda a, v: a + step_size * v, auxiliary, speed), speed


@in_float64
def _inverse(phi: Float[Array, "B h"], w: Array, b: Array, jitter: Array) -> Float[Array, "B B"]:
    """Return Σ_Φ⁻¹, with ΦΦᵀ in double precision too.

    With fewer units than points it is singular, and rounding to single precision drowns the jitter where features are
    large.
    """
    identity = jnp.eye(phi.shape[0], dtype=phi.dtype)
    factor = jnp.linalg.cholesky(w * phi @ phi.T + b + jitter * identity)
    return cho_solve((factor, True), identity)
