# SPDX-License-Identifier: Apache-2.0
"""A trial before the fit: what rows that were held out say about the prior's scales and about the noise.

The evidence is that of an infinitely wide network, which can neither learn features nor overfit. Networks of finite
width do both, so particles that warm up on most rows are asked about the others.
"""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from fpovi.estimators import defaults
from fpovi.estimators.fitting import Keys, dials_of, generator, padded, some, whole_particles
from fpovi.estimators.phases import can_warm_up, outputs_of, warm_recipe, warm_start
from fpovi.estimators.scales import Rows
from fpovi.estimators.training import train
from fpovi.estimators.wiring import Spec
from fpovi.likelihoods import Floored
from fpovi.types import Scales

LEAST_ROWS, HELD, MOST_HELD, MOST_STEPS = 40, 0.15, 2048, 2000
FREE = 0.1  # of the evidence's noise: how low the noise may fall in a trial
OVERFIT_ROWS = 2000  # with more of them, the noise that a fit leaves is no smaller than that of new rows
NOISES = np.exp(np.linspace(np.log(1e-3), np.log(2.0), 80))  # in units of the standardised targets
TRUST = 0.5  # standard deviation of the log-normal prior around the evidence's noise


def tried_scales(model: Any, keys: Keys, spec: Spec, candidates: list[Scales], rows: Rows) -> Scales:
    """The candidate that predicts held-out rows best after a short warm-up, with the noise they call for.

    The first one, and its own noise, where rows are too few to hold some out or the fit does not warm up.
    """
    count = len(rows[0])
    warms_up = model.prior == "auto" and can_warm_up(spec) and isinstance(spec.likelihood.init(), Floored)
    size = defaults.rows_per_step(model.batch_size, count)
    steps = min(defaults.warm_steps(defaults.total_steps(model.max_epochs, count, size)), MOST_STEPS)
    if not warms_up or count < LEAST_ROWS or steps < 1:
        return candidates[0]
    order = generator(keys.hold).permutation(count)
    number = min(int(HELD * count), MOST_HELD)
    held, kept = (_rows(rows, np.sort(part)) for part in (order[:number], order[number:]))
    options: dict[str, Any] = {"batch_size": min(size, defaults.padded_rows(count)), "verbose": bool(model.verbose)}
    found = [_held_out(model, keys, spec, scales, kept, held, steps, count, options) for scales in candidates]
    best = int(np.argmax([value for value, _ in found]))
    chosen, noise = candidates[best], found[best][1]
    if count > OVERFIT_ROWS:
        noise = min(noise, float(chosen.noise))
    return _with_noise(chosen, noise)


def _held_out(
    model: Any, keys: Keys, spec: Spec, scales: Scales, kept: Rows, held: Rows, steps: int, count: int, options: Any
) -> tuple[float, float]:
    """The log density of held-out rows at the noise that suits them best, and that noise."""
    free = _with_noise(scales, FREE * float(scales.noise))
    dials = dials_of(free, defaults.peak_rate(model.learning_rate), steps)
    state = warm_start(spec, whole_particles(model.n_particles), dials, keys.start, some(keys.start, kept))
    # as many rows, with padding, as the fit will have: the program is compiled once for both
    data, recipe = padded(kept, to=count), warm_recipe(spec, dials)
    state = train(jax.random.fold_in(keys.run, 2), recipe, state, data, steps, label="trial", **options).state
    f = outputs_of(spec, free, state.particles, state.model, padded(held).x)
    return _best_noise(np.asarray(f)[:, : len(held[0])], held[1], held[2], float(scales.noise))


def _rows(rows: Rows, chosen: NDArray[np.int64]) -> Rows:
    x, y, weight = rows
    return x[chosen], y[chosen], weight[chosen]


def _with_noise(scales: Scales, noise: float) -> Scales:
    value: Any = np.asarray(noise, scales.noise.dtype)
    return scales._replace(noise=value)


def _best_noise(f: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64], expected: float) -> tuple[float, float]:
    r"""max over σ of :math:`\sum_b w_b \log\frac1n\sum_i\mathcal N(y_b; f^i_b, \sigma^2)` plus its log-prior."""
    squared = np.sum((f - y) ** 2, axis=2)[None] / NOISES[:, None, None] ** 2
    log_normal = -squared / 2 - y.shape[1] * np.log(NOISES * np.sqrt(2 * np.pi))[:, None, None]
    log_density = (logsumexp(log_normal, axis=1) - np.log(len(f))) @ weight
    total = log_density - (np.log(NOISES / expected) / TRUST) ** 2 / 2
    best = int(np.argmax(total))
    return float(total[best]), float(NOISES[best])
