# SPDX-License-Identifier: Apache-2.0
"""The mean of numbers among which few are large, as importance weights are, and how far it can be trusted."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Mean(NamedTuple):
    """A mean with its standard error, and the degrees of freedom of that."""

    value: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, level: float) -> tuple[float, float]:
        """Return the interval of Student's t that holds the true mean with probability ``level``, about."""
        half = float(stats.t.ppf((1 + level) / 2, self.degrees_of_freedom)) * self.standard_error
        return self.value - half, self.value + half

    def p_value(self, hypothesis: float) -> float:
        """Return how probable a mean at least as far from ``hypothesis`` is, if that is true."""
        if self.standard_error == 0:
            return float(np.isclose(self.value, hypothesis))
        return float(2 * stats.t.sf(abs(self.value - hypothesis) / self.standard_error, self.degrees_of_freedom))


def mean_of(terms: Float[np.ndarray, " N"]) -> Mean:
    r"""Return the mean of N independent terms.

    Heavy tails make the standard error s/√N itself uncertain. Its degrees of freedom are those of a χ² law with the
    variance that s² has at the sample's kurtosis κ (Satterthwaite's rule):

    .. math:: \nu = \frac{2N}{\kappa - (N-3)/(N-1)}, \qquad 1 \le \nu \le N - 1

    A normal sample has κ = 3 and ν = N − 1, as in Student's law.

    >>> mean_of(np.array([1.0, 2.0, 3.0])).value
    2.0
    """
    n = len(terms)
    if n < 2:
        raise ValueError(f"an interval needs at least 2 rows, but there is {n}")
    value, variance = float(terms.mean()), float(terms.var(ddof=1))
    if variance <= (1e-12 * np.abs(terms).max()) ** 2:  # all equal, but for rounding
        return Mean(value, 0.0, n - 1.0)
    kurtosis = float(np.mean((terms - value) ** 4) / terms.var() ** 2)
    freedom = 2 * n / (kurtosis - (n - 3) / (n - 1)) if n > 2 else 1.0
    return Mean(value, float(np.sqrt(variance / n)), float(np.clip(freedom, 1.0, n - 1.0)))
