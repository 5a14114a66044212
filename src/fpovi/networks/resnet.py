# SPDX-License-Identifier: Apache-2.0
"""The residual network for small images with a Gaussian prior on its weights, written for one particle."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._fast.threefry import normals
from fpovi.networks._batch_norm import Statistics, no_statistics, normalise
from fpovi.types import Key, Network, leading_rows

STAGES = 3  # each of half the size and twice the channels of the one before
State = tuple[Statistics, ...]


class ResNet(eqx.Module):
    """The weights of a residual network: kernels ``(3, 3, inputs, outputs)`` in their order, and the dense layer."""

    kernels: tuple[Float[Array, "3 3 _ _"], ...]
    weight: Float[Array, "features k"]
    bias: Float[Array, " k"]


def resnet(
    depth: int = 20,
    classes: int = 10,
    channels: int = 3,
    width: int = 16,
    batch_norm: bool = True,
    prior_std: float | None = None,
    bias_std: float = 1.0,
) -> Network:
    r"""Return a pre-activation residual network for images ``(B, H, W, channels)``.

    .. math:: h_{l+1} = S(h_l) + C(\phi(N(C(\phi(N(h_l))))))

    with C a convolution 3×3 without bias, N batch normalisation without scale and offset, φ the rectifier and S the
    identity; at the start of the second and third stage C halves the size, and S is average pooling with channels of
    zeros. At the end come N, φ, the mean over pixels and a dense layer. Statistics of batches are carried per particle.

    Args:
        depth: 6m + 2, with m blocks of two convolutions in each of three stages: 8, 14, 20, 32, …
        classes: how many outputs.
        channels: of the images.
        width: channels of the first stage; the next have twice and four times as many.
        batch_norm: whether to normalise. Without, every block is divided by the root of their number instead, so that
            outputs do not grow with depth.
        prior_std: one standard deviation for all weights; √(2/fan in) by default. 0.32 in Wang et al. (2019).
        bias_std: of the dense layer's bias. 1e4 in Wang et al. (2019).

    Weights start from N(0, 2/(9·outputs)), those of the dense layer from N(0, 2/inputs), and the bias from 0.

    >>> network = resnet(depth=8, width=4)
    >>> theta, state = network.init(jax.random.key(0))
    >>> network.apply(theta, state, jnp.zeros((5, 32, 32, 3)), True)[0].shape
    (5, 10)

    Reference: He et al. (2016), "Identity mappings in deep residual networks"; the prior is that of Wang et al. (2019).
    """
    blocks = _check(depth, classes, channels, width, prior_std, bias_std)
    kernels, features = _kernel_shapes(blocks, channels, width), width * 2 ** (STAGES - 1)
    shapes = [*kernels, (features, classes), (classes,)]
    prior_stds = [*(_prior_std(prior_std, shape) for shape in shapes[:-1]), bias_std]
    start_stds = [*((2 / (9 * shape[-1])) ** 0.5 for shape in kernels), (2 / features) ** 0.5, 0.0]

    def sample_prior(key: Key) -> ResNet:
        return _normals(key, shapes, prior_stds)

    def init(key: Key) -> tuple[ResNet, State]:
        normalised = [*(shape[2] for shape in kernels[1:]), features]
        state = tuple(no_statistics(size) for size in normalised) if batch_norm else ()
        return _normals(key, shapes, start_stds), state

    def log_prior(theta: ResNet) -> Float[Array, ""]:
        leaves = zip(jax.tree.leaves(theta), prior_stds, strict=True)
        densities = (jax.scipy.stats.norm.logpdf(leaf, scale=std) for leaf, std in leaves)
        return sum((jnp.sum(density) for density in densities), start=jnp.zeros(()))

    def apply(
        theta: ResNet, state: State, x: Float[Array, "B H W c"], train: bool | int
    ) -> tuple[Float[Array, "B k"], State]:
        if x.ndim != 4 or x.shape[-1] != channels:
            raise ValueError(f"x has shape {x.shape}, but images (B, H, W, {channels}) are needed, channels last")
        theta = jax.tree.map(lambda leaf: leaf.astype(x.dtype), theta)  # the dtype follows the input
        features, state = _features(theta, state, x, leading_rows(train, x.shape[0]), blocks)
        return features @ theta.weight + theta.bias, state

    return Network(init, sample_prior, log_prior, apply)


def _features(
    theta: ResNet, state: State, x: Float[Array, "B H W c"], rows: int, blocks: int
) -> tuple[Float[Array, "B features"], State]:
    """Return what the dense layer sees, and the statistics after this batch."""
    running, after = iter(state), []
    share = 1.0 if state else (STAGES * blocks) ** -0.5

    def active(h: Array) -> Array:
        if state:
            h, statistics = normalise(h, next(running), rows)
            after.append(statistics)
        return jax.nn.relu(h)

    first, *rest = theta.kernels
    h = _convolve(x, first, 1)
    for place, (kernel, second) in enumerate(zip(rest[::2], rest[1::2], strict=True)):
        stride = 2 if place in range(blocks, STAGES * blocks, blocks) else 1
        inner = _convolve(active(h), kernel, stride)
        h = _shortcut(h, stride, kernel.shape[-1]) + share * _convolve(active(inner), second, 1)
    return jnp.mean(active(h), axis=(1, 2)), tuple(after)


def _convolve(h: Float[Array, "B H W i"], kernel: Float[Array, "3 3 i o"], stride: int) -> Float[Array, "B _ _ o"]:
    convolve = partial(jax.lax.conv_general_dilated, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return convolve(h, kernel, (stride, stride), "SAME")


def _shortcut(h: Float[Array, "B H W i"], stride: int, channels: int) -> Float[Array, "B _ _ o"]:
    """Average over blocks of pixels and add channels of zeros."""
    if stride > 1:
        odd = [(0, -size % stride) for size in h.shape[1:3]]
        h = jnp.pad(h, ((0, 0), *odd, (0, 0)), mode="edge")
        rows, height, width, inputs = h.shape
        h = jnp.mean(h.reshape(rows, height // stride, stride, width // stride, stride, inputs), axis=(2, 4))
    missing = channels - h.shape[-1]
    return jnp.pad(h, ((0, 0), (0, 0), (0, 0), (missing // 2, missing - missing // 2))) if missing else h


def _kernel_shapes(blocks: int, channels: int, width: int) -> list[tuple[int, ...]]:
    """Return the shapes of all kernels in their order.

    >>> _kernel_shapes(1, 3, 4)[:4]
    [(3, 3, 3, 4), (3, 3, 4, 4), (3, 3, 4, 4), (3, 3, 4, 8)]
    """

    def of_blocks() -> Iterator[tuple[int, ...]]:
        inputs = width
        for block in range(STAGES * blocks):
            outputs = width * 2 ** (block // blocks)
            yield from ((3, 3, inputs, outputs), (3, 3, outputs, outputs))
            inputs = outputs

    return [(3, 3, channels, width), *of_blocks()]


def _prior_std(std: float | None, shape: tuple[int, ...]) -> float:
    return (2 * shape[-1] / math.prod(shape)) ** 0.5 if std is None else std


def _normals(key: Key, shapes: Sequence[tuple[int, ...]], stds: Sequence[float]) -> ResNet:
    """Draw all weights from normal distributions, by one call to the generator."""
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    parts = jnp.split(normals(key, (ends[-1],)), ends[:-1])
    *kernels, weight, bias = (std * part.reshape(shape) for part, shape, std in zip(parts, shapes, stds, strict=True))
    return ResNet(tuple(kernels), weight, bias)


def _check(depth: int, classes: int, channels: int, width: int, prior_std: float | None, bias_std: float) -> int:
    """Return the blocks per stage, or raise a ``ValueError`` for numbers of no network."""
    if depth < 8 or (depth - 2) % 6:
        raise ValueError(f"depth={depth} must be 6m + 2: 8, 14, 20, 26, 32, …")
    for name, count in (("classes", classes), ("channels", channels), ("width", width)):
        if count < 1:
            raise ValueError(f"{name}={count} must be at least 1")
    for name, std in (("prior_std", prior_std), ("bias_std", bias_std)):
        if std is not None and not 0 < std < float("inf"):
            raise ValueError(f"{name}={std} must be positive and finite")
    return (depth - 2) // 6
