# SPDX-License-Identifier: Apache-2.0
"""Look up parts by name in the table of their family, and libraries that only some users need."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class MissingExtraError(ImportError):
    """A library that only some need is not installed; the message says what to run."""


def import_extra(library: str, extra: str, asker: str) -> Any:
    """Return a library that comes with ``fpovi[extra]`` only; ``asker`` names what needs it."""
    try:
        return import_module(library)
    except ImportError as error:
        message = f"{asker} needs {library}, which is not installed: pip install fpovi[{extra}]"
        raise MissingExtraError(message) from error


def lookup(table: Mapping[str, T], name: str, argument: str) -> T:
    """Return the member of ``table`` called ``name``; raise a ``ValueError`` that lists the known ones otherwise.

    >>> lookup({"svgd": 1, "gfsf": 2}, "gfsf", "flow")
    2
    """
    if name not in table:
        raise ValueError(f"{argument}={name!r} is not known; choose one of {', '.join(sorted(table))}")
    return table[name]


def maker(table: Mapping[str, Callable[..., T]], name: str, argument: str, *offered: str) -> Callable[..., T]:
    """Return the maker called ``name``, for :func:`call_maker` with the keywords ``offered``.

    Args:
        table: makers by name, such as :data:`fpovi.priors.PRIORS`.
        name: which of them.
        argument: what messages call it.
        offered: the keywords that the caller can give, such as "network" and "likelihood".

    Raises:
        ValueError: for an unknown name, or a maker that needs more than is offered.
    """
    make = lookup(table, name, argument)
    missing = _missing(make, *offered)
    if missing:
        raise ValueError(
            f"{argument}={name!r} needs {' and '.join(missing)} from you: give the object, "
            f"{'.'.join(make.__module__.split('.')[:2])}.{make.__qualname__}(…)"
        )
    return make


def call_maker(make: Callable[..., T], **offered: Any) -> T:
    """Return what a maker makes with those of the keywords ``offered`` that it knows, and its own defaults."""
    known = inspect.signature(make).parameters
    return make(**{key: value for key, value in offered.items() if key in known})


def make_part(table: Mapping[str, Callable[..., T]], name: str, argument: str, **offered: Any) -> T:
    """Return what the maker called ``name`` makes; see :func:`maker` and :func:`call_maker`.

    >>> make_part({"flat": lambda: 0.0, "scaled": lambda network: 2 * network}, "scaled", "prior", network=3)
    6
    """
    return call_maker(maker(table, name, argument, *offered), **offered)


def is_made_of(make: Callable[..., Any], *offered: str) -> bool:
    """Tell whether a maker needs nothing but the keywords ``offered``."""
    return not _missing(make, *offered)


def _missing(make: Callable[..., Any], *offered: str) -> list[str]:
    needed = [one for one in inspect.signature(make).parameters.values() if one.default is one.empty]
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in needed if one.kind not in variadic and one.name not in offered]
