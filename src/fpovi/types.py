# SPDX-License-Identifier: Apache-2.0
"""Records, protocols and errors that all parts share.

Axis letters, the same in every file: ``n`` particles, ``B`` rows of the measurement set (the first ``B'`` of
them labelled), ``d_x`` features, ``k`` network outputs, ``m`` observed targets per row, ``d = B·k`` a flattened
function value, ``p`` flattened weights.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
from jaxtyping import Array, Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

Key: TypeAlias = jaxtyping.Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""]
PyTree: TypeAlias = Any
# what a user may pass for an array: numbers, lists and tuples of them, NumPy, JAX
Numbers: TypeAlias = ArrayLike | Sequence[Any] | float | int


class Batch(NamedTuple):
    """Rows of data at a fixed shape; rows of ``weight`` 0 are padding.

    ``num_data`` is the sum of the weights of the whole data set: a batch stands for it by the factor
    ``num_data / weight.sum()``.
    """

    x: Float[Array, "B *d_x"]
    y: Shaped[Array, "B m"]
    weight: Float[Array, "B _"]
    num_data: Scalar


class Scales(NamedTuple):
    r"""Prior scales of a multilayer perceptron, shared by the network and its infinite-width covariance.

    Layer ``l`` has weights :math:`\mathcal N(0, v_l/n_{in})`, v being ``weight_variance``, and biases
    :math:`\mathcal N(0, b_l)`, b being ``bias_variance``; inputs are multiplied by ``input``. Nothing here depends on
    widths.
    """

    input: Float[Array, " d_x"]
    weight_variance: Float[Array, " L"]
    bias_variance: Float[Array, " L"]
    noise: Scalar


class Architecture(NamedTuple):
    """A multilayer perceptron with a Gaussian prior, described for priors over its functions.

    Equal to itself only, so that networks are hashable although scales are arrays: a network is an argument of compiled
    programs, and the same one finds its programs again.
    """

    sizes: tuple[int, ...]
    activation: Callable[[Array], Array]
    scales: Scales

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def inputs(self, x: Shaped[Array, "B d_x"]) -> Float[Array, "d_x B"]:
        """Return what the first layer sees of x: real numbers times the input scales, points along the last axis."""
        if x.shape[1] != self.sizes[0]:
            raise ValueError(f"x has {x.shape[1]} features, but the network was made for {self.sizes[0]}")
        x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(self.scales.input.dtype)
        return (x * self.scales.input.astype(x.dtype)).T


class Network(NamedTuple):
    """One network; the particle axis is added elsewhere.

    ``init(key) -> (theta, state)``; ``sample_prior(key) -> theta``; ``log_prior(theta) -> scalar``;
    ``apply(theta, state, x, train) -> (outputs (B, k), state)``. ``activations``, where the network can tell them,
    maps the same arguments to every layer's activations ``(B, h)``. ``architecture``, where there is one, says the same
    in words: priors over functions believe it, so set it to None where you replace ``sample_prior`` or ``apply``.

    ``state`` carries what a forward pass leaves behind (BatchNorm statistics) and is empty for most networks. ``train``
    is False where nothing is learned, True where all rows of x are, and a number where so many leading rows are: what
    follows them are points that are no data, and must leave no trace in the state nor in the outputs of the others.
    Batch statistics are those of the leading rows, and all rows are normalised by them. The same holds for draws from
    the prior, whose leading rows are a quarter of a step's labelled ones.
    """

    init: Callable[[Key], tuple[PyTree, PyTree]]
    sample_prior: Callable[[Key], PyTree]
    log_prior: Callable[[PyTree], Scalar]
    apply: Callable[[PyTree, PyTree, Array, bool | int], tuple[Array, PyTree]]
    activations: Callable[[PyTree, PyTree, Array, bool | int], tuple[Array, PyTree]] | None = None
    architecture: Architecture | None = None


def leading_rows(train: bool | int, rows: Any) -> Any:
    """Return how many of so many rows are learned from, by the ``train`` of a :class:`Network`.

    Args:
        train: whether to learn from all rows, or from how many.
        rows: how many there are: a number, or a symbol in an exported program.

    >>> leading_rows(False, 7), leading_rows(True, 7), leading_rows(5, 7)
    (0, 7, 5)
    """
    return min(train, rows) if not isinstance(train, bool) else rows if train else 0


class Support(Enum):
    """Where the targets of a likelihood lie."""

    REAL = "real numbers"
    POSITIVE = "positive numbers"
    COUNTS = "whole numbers from 0"
    BINARY = "0 or 1"
    CLASSES = "classes"

    @property
    def atoms(self) -> bool:
        """Whether every value has a probability of its own, so that targets have no unit and no density."""
        return self in (Support.COUNTS, Support.BINARY, Support.CLASSES)

    @property
    def labels(self) -> bool:
        """Whether the values are a few labels, with a probability each, and not numbers to average."""
        return self in (Support.BINARY, Support.CLASSES)


class Likelihood(NamedTuple):
    """p(y | f) for one particle with parameters ``params``.

    ``canonical`` maps outputs to an identified f; ``log_prob`` and ``cdf`` give one value per row and target.
    ``width(m)`` is the number of network outputs that ``m`` targets need, ``targets(k)`` how many ``k`` outputs predict
    (classes: one, however many outputs), and ``check(y, k)`` raises a ``ValueError`` for targets they cannot mean.
    ``noise(params)`` is the scalar worth plotting; ``log_prior`` is its density, ``log_jacobian`` log |∂noise/∂params|.
    With ``shared`` all particles keep the same params. ``support`` says where targets lie. Where y, given f, is a
    mixture of c normals, ``normal_components(params, f)`` are their weights, means and scales, each ``(c, B, m)``.
    """

    init: Callable[[], PyTree]
    canonical: Callable[[Array], Array]
    log_prob: Callable[[PyTree, Array, Array], Array]
    log_prior: Callable[[PyTree], Scalar]
    mean: Callable[[PyTree, Array], Array]
    variance: Callable[[PyTree, Array], Array]
    sample: Callable[[Key, PyTree, Array], Array]
    cdf: Callable[[PyTree, Array, Array], Array]
    noise: Callable[[PyTree], Scalar]
    width: Callable[[int], int]
    targets: Callable[[int], int]
    check: Callable[[Any, int], None] = lambda y, k: None
    log_jacobian: Callable[[PyTree], Scalar] = lambda params: jnp.zeros(())
    shared: bool = False
    support: Support = Support.REAL
    normal_components: Callable[[PyTree, Array], tuple[Array, Array, Array]] | None = None


class FunctionPrior(NamedTuple):
    """p(f(x)) at any finite x: ``score(key, f, x) -> like f``; with a density, ``log_prob(key, f, x) -> (n,)``.

    Where an algorithm looks at some outputs only it calls ``score(key, f, x, outputs)``: the score of the marginal
    prior of those columns of f, zero in the others.

    A prior that learns from step to step keeps a carry: ``init(key, particles) -> carry``, which may look at the
    networks as they begin, and ``advance(key, carry, f, x) -> (score, carry)``, which then takes the place of ``score``
    in a run. ``for_classes`` says that it is a prior over normalised logits. With ``takes_context`` the algorithm adds
    ``context=`` to the arguments of ``score``, labelled inputs ``(C, *d_x)`` whose batch statistics its draws have.
    """

    score: Callable[..., Float[Array, "n B k"]]
    log_prob: Callable[[Key, Float[Array, "n B k"], Array], Float[Array, " n"]] | None = None
    init: Callable[[Key, PyTree], PyTree] = lambda key, particles: ()
    advance: Callable[..., tuple[Array, PyTree]] | None = None
    for_classes: bool = False
    takes_context: bool = False


# kernel(a (n, d), b (m, d)) -> gram (n, m): any such function, or a KernelModule
Kernel: TypeAlias = Callable[[Array, Array], Array]


class KernelModule(eqx.Module):
    """A kernel with what a step needs of it; a subclass defines ``__call__``, and overrides what it knows better."""

    def __call__(self, a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
        """Return the gram matrix."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__(a, b)")

    def at(self, f: Float[Array, "n d"]) -> "KernelModule":
        """Return this kernel with its lengthscale settled from all particles ``f`` and held fixed."""
        return self

    def settled_lengthscale(self) -> Array | float:
        """Return the lengthscale for a run's history, NaN where there is none."""
        return jnp.nan

    def repulsion(self, a: Float[Array, "n d"], weight: Float[Array, " n"]) -> Float[Array, "n d"]:
        r"""Return :math:`\sum_j w_j \nabla_j K_{ij}`, the derivative in the second argument, by differentiation."""

        def felt_by(a_i: Array) -> Array:
            from_each = jax.grad(lambda others: jnp.sum(self(a_i[None], others)[0] * weight))(a)
            return jnp.sum(from_each, axis=0)

        return jax.lax.map(felt_by, a)


class FunctionKernel(KernelModule):
    """A kernel given as a function."""

    function: Kernel = eqx.field(static=True)

    def __call__(self, a: Float[Array, "n d"], b: Float[Array, "m d"]) -> Float[Array, "n m"]:
        return self.function(a, b)


def as_kernel(kernel: Kernel) -> KernelModule:
    """Return ``kernel`` as a :class:`KernelModule`."""
    if not isinstance(kernel, KernelModule) and {"at", "repulsion"} & set(dir(kernel)):
        raise ValueError(f"kernel is a {type(kernel).__name__} with at or repulsion: derive it from types.KernelModule")
    return kernel if isinstance(kernel, KernelModule) else FunctionKernel(kernel)


Flow: TypeAlias = Callable[[Float[Array, "n d"], Float[Array, "n d"], Kernel], Float[Array, "n d"]]
Measurement: TypeAlias = Callable[[Key, Float[Array, "B_ *d_x"]], Float[Array, "B *d_x"]]
# transform(key, x) -> x of the same shape, a random change of labelled inputs that keeps their targets
Transform: TypeAlias = Callable[[Key, Float[Array, "B *d_x"]], Float[Array, "B *d_x"]]
Schedule: TypeAlias = float | Callable[[Array], Array]
# forward(network, particles, state, x, train) -> (outputs (n, B, k), state)
Forward: TypeAlias = Callable[..., tuple[Float[Array, "n B k"], PyTree]]


class State(NamedTuple):
    """What the next step needs.

    ``params`` are the likelihood's parameters and ``network_state`` what networks carry (BatchNorm statistics), both
    with a leading axis n; ``prior`` is what the function prior carries from step to step.
    """

    step: Int[Array, ""]
    particles: PyTree
    params: PyTree
    network_state: PyTree
    prior: PyTree
    optimiser: PyTree
    noise_optimiser: PyTree


class StepContext(NamedTuple):
    """What an optimiser of ``function_space`` is told of a step beside the gradient, as ``context=``.

    ``params`` and ``network_state`` are those of the state before the step; ``key`` is for what the optimiser draws.
    """

    key: Key
    batch: Batch
    params: PyTree
    network_state: PyTree


class Info(NamedTuple):
    """What a person wants to see of a step; norms are root mean squares over particles and coordinates.

    ``finite`` tells whether the state it leaves is fit for another step; :func:`fpovi.inference.loop.run` asks.
    """

    log_likelihood: Scalar
    likelihood_norm: Scalar
    prior_norm: Scalar
    repulsion_norm: Scalar
    velocity_norm: Scalar
    similarity: Scalar
    lengthscale: Scalar
    noise: Scalar
    finite: Bool[Array, ""]


class Algorithm(NamedTuple):
    """``init(key, n, particles=None) -> State`` and ``step(key, state, batch) -> (State, Info)``.

    ``check(state, data)`` looks at the whole data once before a run and raises a ``ValueError`` if they do not fit.
    """

    init: Callable[..., State]
    step: Callable[[Key, State, Batch], tuple[State, Info]]
    check: Callable[[State, Batch], None] = lambda state, data: None


class ParametrisedAlgorithm(NamedTuple):
    """An algorithm whose numeric settings are arguments of its compiled program: ``build(numbers) -> Algorithm``.

    Fits that differ in nothing but prior scales or rates then share one program. ``build`` has to be the same
    object each time.
    """

    build: Callable[[PyTree], Algorithm]
    numbers: PyTree

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm with its numbers as they are."""
        return self.build(self.numbers)


class DivergedError(ArithmeticError):
    """A run met a number that is not finite. ``particles`` are the last finite ones, ``step`` where it happened."""

    def __init__(self, step: int, particles: PyTree, hint: str):
        super().__init__(f"the run diverged at step {step}: {hint}")
        self.step = step
        self.particles = particles
        self.hint = hint
