# SPDX-License-Identifier: Apache-2.0
"""A user's own network, made one of ours and tried on a row: what is wrong with it is said before a fit begins."""

from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from fpovi.networks import from_equinox, from_flax
from fpovi.types import Network

WANTED = "a Flax module, a function key -> Equinox module, or a fpovi.Network is needed"
ROWS = 2  # a network is tried on


def choose_network(network: Any, shape: tuple[int, ...], outputs: int, classes: bool) -> Network | None:
    """Return the network that stands for an estimator's setting ``network``, None for none.

    Args:
        network: None, one of ours, a Flax module, or a function ``key -> Equinox module``.
        shape: that of an encoded row.
        outputs: how many outputs it must have.
        classes: whether these are classes.

    Raises:
        ValueError: of one line, for what is no network, fails on rows of this shape, or has other outputs.
    """
    if network is None:
        if len(shape) > 1:
            raise ValueError(
                f"X has rows of shape {shape}: give a network= that takes them, or X.reshape(len(X), -1) for hidden "
                "layers"
            )
        return None
    _check_kind(network)
    try:
        adapted = _adapt(network, shape)
        theta, state = jax.eval_shape(adapted.init, jax.random.key(0))
        rows = jax.ShapeDtypeStruct((ROWS, *shape), jnp.float32)
        answer, _ = jax.eval_shape(lambda theta, state, x: adapted.apply(theta, state, x, True), theta, state, rows)
        given = tuple(answer.shape)
    except Exception as error:  # a user's network can fail in any way
        reason = " ".join(str(error).split())
        raise ValueError(
            f"network fails on rows of shape {shape}, which is that of the rows of X: {type(error).__name__}: "
            f"{reason:.250}"
        ) from error
    if not jax.tree.leaves(theta):
        raise ValueError(f"network has no weights to learn: {WANTED}")
    if given != (ROWS, outputs):
        found = f"{given[1]} for a row" if len(given) == 2 and given[0] == ROWS else f"{given} for {ROWS} rows"
        needed = "one for each class" if classes else "as many as y and the likelihood ask for"
        raise ValueError(f"network gives outputs of another shape than needed: {found}, not {outputs}, {needed}")
    return adapted


def _check_kind(network: Any) -> None:
    """Raise a ``ValueError`` for what cannot be a network, or is one in another form."""
    if isinstance(network, Network):
        return
    if isinstance(network, type) and _is_flax(network):
        name = network.__name__
        raise ValueError(f"network is the class {name}, but an object of it is needed, such as {name}(…)")
    if isinstance(network, eqx.Module):
        name = type(network).__name__
        raise ValueError(
            f"network is a {name}, but particles need one each: give the function that makes it, such as "
            f"lambda key: {name}(…, key=key)"
        )
    if not callable(network):
        raise ValueError(f"network is a {type(network).__name__}, but {WANTED}")


def _adapt(network: Any, shape: tuple[int, ...]) -> Network:
    if isinstance(network, Network):
        return network
    try:
        hash(network)
    except TypeError:  # of a class that compares by value: made anew, and compiled anew, in every fit
        return _adapted.__wrapped__(network, shape)
    return _adapted(network, shape)


@lru_cache(maxsize=64)
def _adapted(network: Any, shape: tuple[int, ...]) -> Network:
    return from_flax(network, jnp.zeros((1, *shape))) if _is_flax(type(network)) else from_equinox(network)


def _is_flax(kind: type) -> bool:
    return any(base.__module__.startswith("flax.") for base in kind.__mro__)
