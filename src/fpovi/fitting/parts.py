# SPDX-License-Identifier: Apache-2.0
"""From names and objects to one algorithm: the only place where a string chooses a part.

A :class:`Spec` holds everything that decides the compiled program and no number that does not, so that all fits of one
shape, whatever their data and scales, share one compilation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fpovi.flows import FLOWS, gfsf
from fpovi.inference import function_space, weight_space
from fpovi.kernels import KERNELS, RepresentationKernel, median_lengthscale, rbf
from fpovi.likelihoods import LIKELIHOODS, gaussian
from fpovi.measurement import MEASUREMENTS, halo, kde, mixup, train_only
from fpovi.networks import from_equinox, from_flax, mlp
from fpovi.priors import PRIORS, flat, moment_matched, nngp, ssge, width_aware
from fpovi.types import (
    Flow,
    FunctionPrior,
    Kernel,
    Likelihood,
    Measurement,
    Network,
    Scales,
    lookup,
)

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "erf": jax.scipy.special.erf,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "identity": lambda h: h,
}
SPACES = {"function": function_space, "weight": weight_space}
# wider than the literature's: the spread of the particles comes out right in more than a few dimensions
WIDE_RBF = rbf(partial(median_lengthscale, factor=2.0))
SAFE_GFSF = partial(gfsf, ridge=1e-3)  # two particles may come to say the same
EXTRA_POINTS, NOISE_FLOOR = 20, 1e-3

AnyKernel = Kernel | RepresentationKernel
PriorMaker = Callable[[Network, Likelihood], FunctionPrior]
PRIOR_MAKERS: dict[str, PriorMaker] = {
    "nngp": lambda network, likelihood: nngp(network, jitter=1e-3, centred=likelihood.classes),
    "width_aware": lambda network, likelihood: width_aware(network, centred=likelihood.classes),
    "moment_matched": lambda network, likelihood: moment_matched(network, canonical=_canonical(likelihood)),
    "ssge": lambda network, likelihood: ssge(network, canonical=_canonical(likelihood)),
    "flat": lambda network, likelihood: flat(),
}


MEASUREMENT_MAKERS: dict[str, Callable[[], Measurement]] = {
    "auto": lambda: halo(EXTRA_POINTS),
    "halo": lambda: halo(EXTRA_POINTS),
    "kde": lambda: kde(EXTRA_POINTS, bandwidth=1.0),
    "mixup": lambda: mixup(EXTRA_POINTS),
    "train_only": train_only,
}


def _canonical(likelihood: Likelihood) -> Callable[[Array], Array] | None:
    return likelihood.canonical if likelihood.classes else None


@dataclass(frozen=True, eq=False)
class Spec:
    """What decides the program of a fit. ``network`` is a user's own; otherwise an mlp of ``sizes``.

    Equal if all parts are; those that hold arrays, and so have no hash, only equal themselves.
    """

    sizes: tuple[int, ...]
    activation: Callable[[Array], Array]
    network: Network | None
    space: str
    flow: Flow
    kernel: AnyKernel
    prior: PriorMaker
    measurement: Measurement
    likelihood: Likelihood

    def _identity(self) -> tuple[Any, ...]:
        return tuple(_hashable(getattr(self, field.name)) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def build_network(self, scales: Scales) -> Network:
        """The network; ours has unit weights, so that the optimiser sees every coordinate on one scale."""
        return self.network or mlp(self.sizes, self.activation, scales, unit_weights=True)


def _hashable(part: Any) -> Any:
    try:
        hash(part)
    except TypeError:
        return id(part)  # of no other object as long as a program is kept, which keeps its spec
    return part


def wire(sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Spec:
    """The parts, looked up by name or taken as they are."""
    network = _network(parts["network"], sizes[0])
    return Spec(
        sizes=sizes,
        activation=_choose(ACTIVATIONS, parts["activation"], "activation"),
        network=network,
        space=lookup({name: name for name in SPACES}, str(parts["space"]), "space"),
        flow=_choose({**FLOWS, "gfsf": SAFE_GFSF}, parts["flow"], "flow"),
        kernel=_kernel(parts["kernel"]),
        prior=_prior(parts["prior"], "nngp" if network is None else "moment_matched"),
        measurement=_measurement(parts["measurement"]),
        likelihood=choose_likelihood(parts["likelihood"]),
    )


def _choose(table: Mapping[str, Any], part: Any, argument: str) -> Any:
    return lookup(table, part, argument) if isinstance(part, str) else _function(part, argument)


def _function(part: Any, argument: str) -> Any:
    if not callable(part):
        raise ValueError(f"{argument} is a {type(part).__name__}, but a name or a function is needed")
    return part


# Parts are functions, and equal programs need identical ones: one object per name, however often it is asked for.


def choose_likelihood(likelihood: Any) -> Likelihood:
    """By name or as it is."""
    if isinstance(likelihood, str):
        return _named_likelihood(likelihood)
    if not isinstance(likelihood, Likelihood):
        raise ValueError(f"likelihood is a {type(likelihood).__name__}, but a name or an object of fpovi is needed")
    return likelihood


@lru_cache(maxsize=64)
def _named_likelihood(name: str) -> Likelihood:
    make: Any = lookup({**LIKELIHOODS, "gaussian": partial(gaussian, floor=NOISE_FLOOR)}, name, "likelihood")
    return make()


def _kernel(kernel: Any) -> AnyKernel:
    if isinstance(kernel, RepresentationKernel):
        return kernel
    return _named_kernel(kernel) if isinstance(kernel, str) else _function(kernel, "kernel")


@lru_cache(maxsize=64)
def _named_kernel(name: str) -> AnyKernel:
    make: Any = lookup({"auto": lambda: WIDE_RBF, **KERNELS}, name, "kernel")
    return make()


def _measurement(measurement: Any) -> Measurement:
    return _named_measurement(measurement) if isinstance(measurement, str) else _function(measurement, "measurement")


@lru_cache(maxsize=64)
def _named_measurement(name: str) -> Measurement:
    """The sampler of a name, for standardised inputs."""
    if name in MEASUREMENTS and name not in MEASUREMENT_MAKERS:
        raise ValueError(f"measurement={name!r} needs numbers of yours: give the object, fpovi.measurement.{name}(…)")
    return lookup(MEASUREMENT_MAKERS, name, "measurement")()


@dataclass(frozen=True)
class _Given:
    prior: FunctionPrior

    def __call__(self, network: Network, likelihood: Likelihood) -> FunctionPrior:
        return self.prior


def _prior(prior: Any, automatic: str) -> PriorMaker:
    if isinstance(prior, FunctionPrior):
        return _Given(prior)
    if not isinstance(prior, str):
        raise ValueError(f"prior is a {type(prior).__name__}, but a name or an object of fpovi.priors is needed")
    if prior in PRIORS and prior not in PRIOR_MAKERS:
        raise ValueError(f"prior={prior!r} needs a covariance: give the object, fpovi.priors.{prior}(…)")
    return lookup({**PRIOR_MAKERS, "auto": PRIOR_MAKERS[automatic]}, prior, "prior")


def _network(network: Any, features: int) -> Network | None:
    """A user's network: one of ours, a Flax module, or a function ``key -> Equinox module``."""
    if network is None or isinstance(network, Network):
        return network
    if not callable(network) or isinstance(network, eqx.Module):
        raise ValueError(
            f"network is a {type(network).__name__}, but a Flax module, a function key -> Equinox module, or a "
            "fpovi.Network is needed"
        )
    return _adapted(network, features)


@lru_cache(maxsize=64)
def _adapted(network: Any, features: int) -> Network:
    if any(base.__module__.startswith("flax.") for base in type(network).__mro__):
        return from_flax(network, jnp.zeros((1, features)))
    return from_equinox(network)


def layer_sizes(features: int, hidden: Any, outputs: int) -> tuple[int, ...]:
    """Inputs, hidden layers, outputs."""
    sizes = list(hidden) if isinstance(hidden, Sequence | np.ndarray) else [hidden]
    if not all(isinstance(size, int | np.integer) and not isinstance(size, bool) for size in sizes):
        raise ValueError(f"hidden_layer_sizes={hidden!r} must be whole numbers, such as (50,)")
    if any(size < 1 for size in sizes):
        raise ValueError(f"hidden_layer_sizes={hidden!r} must be at least 1 each")
    return (features, *map(int, sizes), outputs)
