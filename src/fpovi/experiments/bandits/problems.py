# SPDX-License-Identifier: Apache-2.0
"""The problems: the paper's two, the wheel with other radii, and two tables."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fpovi.bandits import Environment, mushroom, table, wheel
from fpovi.datasets.tables import load_table


class Problem(NamedTuple):
    """A problem.

    Attributes:
        make: returns the environment.
        measure: what regret is counted against, a key of :func:`fpovi.bandits.regrets`: as in the paper's code.
        contexts: ``contexts(environment)`` returns how agents take contexts: d for numbers as they are, or examples: of
            a table all rows, without classes.
    """

    make: Callable[[], Environment]
    measure: str
    contexts: Callable[[Any], Any]


def _of_table(name: str) -> Environment:
    features, target = load_table(name)
    return table(features, target.astype(str))


def _inputs(environment: Any) -> int:
    return int(environment.contexts.shape[1])


def _examples(environment: Any) -> Any:
    return environment.contexts


PROBLEMS = {
    "mushroom": Problem(mushroom, "expected", _inputs),
    **{f"wheel-{delta}": Problem(partial(wheel, delta), "realised", lambda environment: 2)
       for delta in (0.95, 0.5, 0.9, 0.99)},
    **{name: Problem(partial(_of_table, name), "expected", _examples) for name in ("hpc", "flchain")},
}  # fmt: skip
PAPER = ("mushroom", "wheel-0.95")
# cumulative regret in per cent of that of uniform choice, mean and standard error over ten runs (Wang et al. 2019)
PUBLISHED = {
    ("mushroom", "bbb"): "19.15 ± 5.98",
    ("mushroom", "gp"): "16.75 ± 1.63",
    ("mushroom", "bootstrap"): "2.71 ± 0.22",
    ("mushroom", "f-svgd"): "4.39 ± 0.39",
    ("wheel-0.95", "bbb"): "55.77 ± 8.29",
    ("wheel-0.95", "gp"): "60.80 ± 4.40",
    ("wheel-0.95", "bootstrap"): "42.16 ± 7.80",
    ("wheel-0.95", "f-svgd"): "7.54 ± 0.41",
}
