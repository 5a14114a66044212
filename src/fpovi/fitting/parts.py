# SPDX-License-Identifier: Apache-2.0
"""From names and objects to parts: the only place where a string chooses a part.

A :class:`Spec` holds everything that decides the compiled program and no number that does not, so that all fits of one
shape, whatever their data and scales, share one compilation. Parts are compared as objects, so a name stands for one
object however often it is asked for, as long as it has the same maker.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Array

from fpovi._lookup import call_maker, is_made_of, lookup, maker
from fpovi.fitting.own_network import choose_network
from fpovi.flows import FLOWS
from fpovi.inference import function_space, weight_space
from fpovi.kernels import KERNELS, RepresentationKernel, median_lengthscale, rbf
from fpovi.likelihoods import LIKELIHOODS
from fpovi.measurement import MEASUREMENTS
from fpovi.networks import ACTIVATIONS, mlp
from fpovi.priors import PRIORS
from fpovi.types import Flow, FunctionPrior, Kernel, Likelihood, Measurement, Network, Scales, Support

SPACES = {"function": function_space, "weight": weight_space}
AUTO = "auto"
# what a prior over functions may ask for
OFFERED = ("network", "likelihood")


# what is made in the place of parts that predictions do not need
STAND_INS = {"flow": "ensemble", "kernel": AUTO, "prior": "flat", "measurement": "train_only"}


@dataclass(frozen=True)
class MissingPart:
    """In the place of a part that was an object, in a model from a file; predictions do without it, fits do not.

    Attributes:
        part: the name of its setting.
        kind: what the object was.
    """

    part: str
    kind: str


def wide_rbf() -> Kernel:
    """Return a kernel wider than the literature's: particles spread rightly in more than a few dimensions too."""
    return rbf(partial(median_lengthscale, factor=2.0))


def part_names(argument: str) -> list[str]:
    """Return the names that an estimator's ``argument`` may have.

    >>> part_names("flow")
    ['ensemble', 'gfsf', 'pi_sgld', 'svgd', 'w_sgld_b']
    """
    functions: dict[str, Mapping[str, Any]] = {"activation": ACTIVATIONS, "flow": FLOWS, "space": SPACES}
    if argument in functions:
        return sorted(functions[argument])
    tables: dict[str, tuple[Mapping[str, Any], tuple[str, ...]]] = {
        "kernel": (KERNELS, ()),
        "likelihood": (LIKELIHOODS, ()),
        "measurement": (MEASUREMENTS, ()),
        "prior": (PRIORS, OFFERED),
    }
    table, offered = lookup(tables, argument, "argument")
    return [AUTO, *sorted(name for name in table if is_made_of(table[name], *offered))]


@dataclass(frozen=True, eq=False)
class Spec:
    """What decides the program of a fit.

    ``network`` is a user's own; otherwise an mlp of ``sizes``. ``prior`` is an object, or makes one for a network.
    Equal if all parts are; those that hold arrays, and so have no hash, only equal themselves.
    """

    sizes: tuple[int, ...]
    activation: Callable[[Array], Array]
    network: Network | None
    space: str
    flow: Flow
    kernel: Kernel | RepresentationKernel
    prior: FunctionPrior | Callable[..., FunctionPrior]
    measurement: Measurement
    likelihood: Likelihood

    def _identity(self) -> tuple[Any, ...]:
        return tuple(_hashable(getattr(self, field.name)) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def build_network(self, scales: Scales) -> Network:
        """Return the network; ours has unit weights, so that the optimiser sees every coordinate on one scale."""
        return self.network or mlp(self.sizes, self.activation, scales, unit_weights=True)

    def build_prior(self, network: Network) -> FunctionPrior:
        """Return the prior over the functions of the network."""
        if isinstance(self.prior, FunctionPrior):
            return self.prior
        return call_maker(self.prior, network=network, likelihood=self.likelihood)


def _hashable(part: Any) -> Any:
    try:
        hash(part)
    except TypeError:
        return id(part)  # of no other object as long as a program is kept, which keeps its spec
    return part


def make_spec(sizes: tuple[int, ...], parts: Mapping[str, Any], shape: tuple[int, ...] | None = None) -> Spec:
    """Look up the parts by name, or take them as they are.

    Args:
        sizes: inputs, hidden layers and outputs of the network.
        parts: an estimator's settings ``activation``, ``network``, ``space``, ``flow``, ``kernel``, ``prior``,
            ``measurement`` and ``likelihood``.
        shape: that of an encoded row, a vector by default; of several axes only for a network given in ``parts``.

    Raises:
        ValueError: for what is no part, and for a :class:`MissingPart`.
    """
    for name, part in parts.items():
        if isinstance(part, MissingPart):
            raise ValueError(
                f"the model's {name} was an object ({part.kind}), which no file holds, and learning needs it: give it, "
                f"model.set_params({name}=…)"
            )
    shape = sizes[:1] if shape is None else shape
    likelihood = choose_likelihood(parts["likelihood"])
    network = choose_network(parts["network"], shape, sizes[-1], likelihood.support is Support.CLASSES)
    return Spec(
        sizes=sizes,
        activation=_function(ACTIVATIONS, parts["activation"], "activation"),
        network=network,
        space=lookup({name: name for name in SPACES}, str(parts["space"]), "space"),
        flow=_function(FLOWS, parts["flow"], "flow"),
        kernel=_kernel(parts["kernel"]),
        prior=_prior(parts["prior"], "nngp" if network is None else "sampled_gp"),
        measurement=_measurement(parts["measurement"], "halo" if len(shape) == 1 else "shuffled_patches"),
        likelihood=likelihood,
    )


def make_spec_to_predict(sizes: tuple[int, ...], parts: Mapping[str, Any], shape: tuple[int, ...]) -> Spec:
    """Look up parts as :func:`make_spec` does; those that only fits need may be a :class:`MissingPart`."""
    there = {name: STAND_INS[name] if isinstance(part, MissingPart) else part for name, part in parts.items()}
    return make_spec(sizes, there, shape)


def _named(argument: str, name: str) -> Any:
    """Return the one object that stands for a name."""
    tables: dict[str, Mapping[str, Callable[..., Any]]] = {
        "kernel": {AUTO: wide_rbf, **KERNELS},
        "likelihood": {AUTO: LIKELIHOODS["gaussian"], **LIKELIHOODS},
        "measurement": MEASUREMENTS,
    }
    return _made(maker(tables[argument], name, argument))


@lru_cache(maxsize=256)
def _made(make: Callable[[], Any]) -> Any:
    return make()


def choose_likelihood(likelihood: Any) -> Likelihood:
    """Return a likelihood given by name or as an object."""
    if isinstance(likelihood, str):
        return _named("likelihood", likelihood)
    if not isinstance(likelihood, Likelihood):
        raise ValueError(f"likelihood is a {type(likelihood).__name__}, but a name or an object of fpovi is needed")
    return likelihood


def _function(table: Mapping[str, Any], part: Any, argument: str) -> Any:
    return lookup(table, part, argument) if isinstance(part, str) else _callable(part, argument)


def _callable(part: Any, argument: str) -> Any:
    if not callable(part):
        raise ValueError(f"{argument} is a {type(part).__name__}, but a name or a function is needed")
    return part


def _kernel(kernel: Any) -> Kernel | RepresentationKernel:
    if isinstance(kernel, RepresentationKernel):
        return kernel
    return _named("kernel", kernel) if isinstance(kernel, str) else _callable(kernel, "kernel")


def _measurement(measurement: Any, automatic: str) -> Measurement:
    if isinstance(measurement, str):
        return _named("measurement", automatic if measurement == AUTO else measurement)
    return _callable(measurement, "measurement")


def _prior(prior: Any, automatic: str) -> FunctionPrior | Callable[..., FunctionPrior]:
    if isinstance(prior, str):
        return maker(PRIORS, automatic if prior == AUTO else prior, "prior", *OFFERED)
    if isinstance(prior, FunctionPrior) or (callable(prior) and is_made_of(prior, *OFFERED)):
        return prior
    raise ValueError(
        f"prior is a {type(prior).__name__}, but a name, an object of fpovi.priors or a function of network and "
        "likelihood that returns one is needed"
    )


def layer_sizes(shape: tuple[int, ...], hidden: Any, outputs: int) -> tuple[int, ...]:
    """Return the sizes of inputs of a shape, hidden layers and outputs."""
    sizes = list(hidden) if isinstance(hidden, Sequence | np.ndarray) else [hidden]
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in sizes):
        raise ValueError(f"hidden_layer_sizes={hidden!r} must be whole numbers, such as (50,)")
    if any(size < 1 for size in sizes):
        raise ValueError(f"hidden_layer_sizes={hidden!r} must be at least 1 each")
    return (math.prod(shape), *map(int, sizes), outputs)
