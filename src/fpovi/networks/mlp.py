# SPDX-License-Identifier: Apache-2.0
"""The multilayer perceptron with a Gaussian prior on its weights, written for one particle.

The scales of the prior live in one :class:`~fpovi.types.Scales` record, which the infinite-width prior of the same
network reads too.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi._fast.affine import affine
from fpovi._fast.threefry import normals
from fpovi.types import Architecture, Key, Network, Scales

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "identity": lambda h: h,
}


def fan_in_scales(sizes: Sequence[int], weight_variance: float = 1.0, bias_variance: float = 1.0) -> Scales:
    """Return scales under which widths do not matter: W ~ N(0, weight_variance/n_in), b ~ N(0, bias_variance).

    Args:
        sizes: inputs, hidden layers, outputs: ``(13, 50, 1)``.
        weight_variance, bias_variance: the same in every layer.
    """
    layers = jnp.ones(len(sizes) - 1)
    return Scales(jnp.ones(sizes[0]), weight_variance * layers, bias_variance * layers, jnp.asarray(0.5))


def num_weights(sizes: tuple[int, ...]) -> int:
    """Return how many weights a multilayer perceptron has, biases included.

    Args:
        sizes: widths of its layers, inputs and outputs included.

    >>> num_weights((13, 50, 1))  # 13·50 + 50, 50 + 1
    751
    """
    return sum((n_in + 1) * n_out for n_in, n_out in pairwise(sizes))


def fan_out_scales(sizes: Sequence[int], output_std: float = 1.0) -> Scales:
    """Return scales with W and b ~ N(0, 1/n_out) in every layer: the prior of the paper's experiments.

    Args:
        sizes: inputs, hidden layers, outputs: ``(13, 50, 1)``.
        output_std: a factor on the last layer's standard deviations, and so on those of logits.
    """
    n_in, n_out = jnp.asarray(sizes[:-1], float), jnp.asarray(sizes[1:], float)
    factor = jnp.ones(len(sizes) - 1).at[-1].set(output_std**2)
    return Scales(jnp.ones(sizes[0]), factor * n_in / n_out, factor / n_out, jnp.asarray(0.5))


class MLP(eqx.Module):
    """The weights of a multilayer perceptron, layer by layer."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]

    def scaled(self, weight: Float[Array, " L"], bias: Float[Array, " L"]) -> "MLP":
        """Return layer l's weights times ``weight[l]`` and its biases times ``bias[l]``."""
        return MLP(
            tuple(w * s.astype(w.dtype) for w, s in zip(self.weights, weight, strict=True)),
            tuple(b * s.astype(b.dtype) for b, s in zip(self.biases, bias, strict=True)),
        )


def mlp(
    sizes: Sequence[int],
    activation: Callable[[Array], Array] = jax.nn.relu,
    scales: Scales | None = None,
    unit_weights: bool = False,
    prior_start: bool = True,
) -> Network:
    r"""Return a multilayer perceptron :math:`h_l = \phi(h_{l-1}) W_l + b_l` with a Gaussian prior on its weights.

    Args:
        sizes: inputs, hidden layers, outputs: ``(13, 50, 1)``.
        activation: any elementwise function.
        scales: variances of the prior; by default :func:`fan_in_scales`.
        unit_weights: keep θ ~ N(0, 1) and multiply by the prior's standard deviations in the forward pass. The same
            prior over functions, another geometry for the optimiser: every coordinate has the same scale.
        prior_start: begin at a draw from the prior; otherwise weights ~ N(0, 1/(n_in + n_out + 1)) and zero biases,
            as the paper's experiments do.

    >>> network = mlp((3, 50, 1))
    >>> theta, state = network.init(jax.random.key(0))
    >>> network.apply(theta, state, jnp.zeros((7, 3)), False)[0].shape
    (7, 1)
    """
    sizes = tuple(int(size) for size in sizes)
    if len(sizes) < 2 or min(sizes) < 1:
        raise ValueError(f"sizes={sizes} must name inputs, any hidden layers and outputs, each at least 1")
    scales = fan_in_scales(sizes) if scales is None else scales
    _check_scales(scales, sizes)
    deviation = (
        jnp.sqrt(scales.weight_variance / jnp.asarray(sizes[:-1], scales.weight_variance.dtype)),
        jnp.sqrt(scales.bias_variance),
    )
    ones = jax.tree.map(jnp.ones_like, deviation)
    prior_std, forward_scale = (ones, deviation) if unit_weights else (deviation, ones)
    architecture = Architecture(sizes, activation, scales)

    def sample_prior(key: Key) -> MLP:
        return _standard_normal(key, sizes).scaled(*prior_std)

    def init(key: Key) -> tuple[MLP, tuple[()]]:
        if prior_start:
            return sample_prior(key), ()
        small = jnp.asarray([(n_in + n_out + 1) ** -0.5 for n_in, n_out in pairwise(sizes)])
        return _standard_normal(key, sizes).scaled(small / forward_scale[0], jnp.zeros_like(small)), ()

    def log_prior(theta: MLP) -> Float[Array, ""]:
        leaves = [*zip(theta.weights, prior_std[0], strict=True), *zip(theta.biases, prior_std[1], strict=True)]
        return _sum(jnp.sum(jax.scipy.stats.norm.logpdf(leaf, scale=std.astype(leaf.dtype))) for leaf, std in leaves)

    def layers(theta: MLP, x: Float[Array, "B d_x"]) -> list[Float[Array, "B _"]]:
        # Points along the last axis: over particles the first layer is then one product (n·h, d_x) × (d_x, B), and
        # elementwise passes run along memory. On a CPU that is twice as fast as rows of points.
        hidden, outputs = [], architecture.inputs(x)
        theta = jax.tree.map(lambda leaf: leaf.astype(outputs.dtype), theta)  # the dtype follows the input
        theta = theta.scaled(*forward_scale) if unit_weights else theta
        for layer, (weight, bias) in enumerate(zip(theta.weights, theta.biases, strict=True)):
            if layer > 0:
                outputs = activation(outputs)
                hidden.append(outputs.T)
            outputs = weight.T @ outputs + bias[:, None] if layer else affine(weight, bias, outputs)
        return [*hidden, outputs.T]

    def apply(theta: MLP, state: tuple[()], x: Float[Array, "B d_x"], train: bool | int) -> tuple[Array, tuple[()]]:
        return layers(theta, x)[-1], state

    def activations(
        theta: MLP, state: tuple[()], x: Float[Array, "B d_x"], train: bool | int
    ) -> tuple[Array, tuple[()]]:
        return jnp.concatenate(layers(theta, x), axis=1), state

    return Network(init, sample_prior, log_prior, apply, activations, architecture)


def _standard_normal(key: Key, sizes: tuple[int, ...]) -> MLP:
    """Draw all weights and biases from N(0, 1), by one call to the generator."""
    shapes = [*pairwise(sizes), *((n_out,) for n_out in sizes[1:])]
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    parts = jnp.split(normals(key, (ends[-1],)), ends[:-1])
    leaves = tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    return MLP(leaves[: len(sizes) - 1], leaves[len(sizes) - 1 :])


def _sum(terms: Iterable[Array]) -> Array:
    return sum(terms, start=jnp.zeros(()))


def _check_scales(scales: Scales, sizes: tuple[int, ...]) -> None:
    for name, value, length in (
        ("input", scales.input, sizes[0]),
        ("weight_variance", scales.weight_variance, len(sizes) - 1),
        ("bias_variance", scales.bias_variance, len(sizes) - 1),
    ):
        if value.shape != (length,):
            raise ValueError(f"scales.{name} has shape {value.shape}, but sizes={sizes} needs ({length},)")
        if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(value) & (np.asarray(value) >= 0)):
            raise ValueError(f"scales.{name}={value} must be finite and not negative")
