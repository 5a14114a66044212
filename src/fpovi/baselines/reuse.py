# SPDX-License-Identifier: Apache-2.0
"""Algorithms made once: JAX compiles a program for a function as an object, and one made anew is another."""

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, TypeVar

from fpovi.types import Likelihood, Network

T = TypeVar("T")
MOST = 64  # of each kind; with one that is forgotten, its programs may go too


class _Same:
    """An argument that equals itself alone: networks hold arrays, which cannot be looked up by value."""

    def __init__(self, it: Any):
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it


def made_once(make: Callable[..., T]) -> Callable[..., T]:
    """``make(network, likelihood, *settings)``, remembered for these very two and equal settings.

    Fits of one model to several data sets of a shape then share their programs.

    >>> from fpovi.likelihoods import gaussian
    >>> from fpovi.networks import mlp
    >>> pair, network, noise = made_once(lambda *parts: list(parts)), mlp((1, 1)), gaussian()
    >>> pair(network, noise, 0.1) is pair(network, noise, 0.1), pair(network, noise, 0.1) is pair(network, noise, 0.2)
    (True, False)
    """

    @lru_cache(maxsize=MOST)
    def remembered(network: _Same, likelihood: _Same, *settings: Hashable) -> T:
        return make(network.it, likelihood.it, *settings)

    @wraps(make)
    def call(network: Network, likelihood: Likelihood, *settings: Hashable) -> T:
        return remembered(_Same(network), _Same(likelihood), *settings)

    return call
