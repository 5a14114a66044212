# SPDX-License-Identifier: Apache-2.0
"""A trial before the fit: held-out rows choose the prior's scales and the noise.

The evidence is that of an infinitely wide network, which can neither learn features nor overfit. Networks of finite
width do both, so particles that warm up on most rows are asked about the others.
"""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from fpovi.fitting.fit import (
    FitSchedule,
    Keys,
    Rows,
    RunSettings,
    generator,
    padded,
    padded_rows,
    phase_settings,
    some,
    take_rows,
)
from fpovi.fitting.parts import Spec
from fpovi.fitting.phases import can_warm_up, outputs_of, warm_start, warm_up_phase
from fpovi.fitting.training import train
from fpovi.likelihoods import Floored
from fpovi.types import Scales

LEAST_ROWS, HELD, MOST_STEPS = 40, 0.15, 2000
ENOUGH_HELD, MOST_FOLDS, MOST_HELD = 160, 6, 2048  # rows to judge by, in how many parts they may come, and at most
FREE = 0.1  # of the evidence's noise: how low the noise may fall in a trial
OVERFIT_ROWS = 2000  # with more of them, the noise that a fit leaves is no smaller than that of new rows
NOISES = np.exp(np.linspace(np.log(1e-3), np.log(2.0), 80))  # in units of the standardised targets
TRUST = 0.5  # standard deviation of the log-normal prior around the evidence's noise


def tried_scales(
    run: RunSettings, schedule: FitSchedule, keys: Keys, spec: Spec, candidates: list[Scales], rows: Rows
) -> Scales:
    """Return the candidate that predicts held-out rows best after a short warm-up, with the noise they call for.

    The first one, and its own noise, where rows are too few to hold some out or the fit does not warm up.

    Args:
        run, schedule, keys, spec: those of the fit.
        candidates: scales to choose from.
        rows: encoded rows, some of which are held out.
    """
    count = len(rows[0])
    warms_up = run.warm_up and can_warm_up(spec) and isinstance(spec.likelihood.init(), Floored)
    steps = min(schedule.warm_up_steps, MOST_STEPS)
    if not warms_up or count < LEAST_ROWS or steps < 1:
        return candidates[0]
    judged = [_judged(run, schedule, keys, spec, scales, rows, steps) for scales in candidates]
    best = int(np.argmax([value for value, _ in judged]))
    chosen, noise = candidates[best], judged[best][1]
    return _with_noise(chosen, min(noise, float(chosen.noise)) if count > OVERFIT_ROWS else noise)


def _judged(
    run: RunSettings, schedule: FitSchedule, keys: Keys, spec: Spec, scales: Scales, rows: Rows, steps: int
) -> tuple[float, float]:
    """Return the log density of all held-out rows at the noise that suits them best, and that noise."""
    count = len(rows[0])
    order, number = generator(keys.hold).permutation(count), min(int(HELD * count), MOST_HELD)
    folds = int(np.clip(round(ENOUGH_HELD / number), 1, MOST_FOLDS))
    free = _with_noise(scales, FREE * float(scales.noise))
    settings = phase_settings(free, schedule.rate, steps)
    options: dict[str, Any] = {"batch_size": min(schedule.batch_size, padded_rows(count)), "verbose": run.verbose}
    log_density = np.zeros(len(NOISES))
    for fold in range(folds):
        part = slice(fold * number, (fold + 1) * number)
        held, kept = take_rows(rows, np.sort(order[part])), take_rows(rows, np.sort(np.delete(order, part)))
        state = warm_start(spec, run.n_particles, settings, keys.start, some(keys.start, kept))
        # as many rows, with padding, as the fit will have: the program is compiled once for both
        key, data, label = (
            jax.random.fold_in(keys.run, 2 + fold),
            padded(kept, to=count),
            f"trial {fold + 1} of {folds}",
        )
        state = train(key, warm_up_phase(spec, settings, run.mesh), state, data, steps, label=label, **options).state
        f = outputs_of(spec, free, state.particles, state.network_state, padded(held).x)
        log_density += _log_density(np.asarray(f)[:, :number], held[1], held[2])
    return _best_noise(log_density, float(scales.noise))


def _with_noise(scales: Scales, noise: float) -> Scales:
    value: Any = np.asarray(noise, scales.noise.dtype)
    return scales._replace(noise=value)


def _log_density(f: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return :math:`\sum_b w_b \log\frac1n\sum_i\mathcal N(y_b; f^i_b, \sigma^2)` for every σ of :data:`NOISES`."""
    squared = np.sum((f - y) ** 2, axis=2)[None] / NOISES[:, None, None] ** 2
    log_normal = -squared / 2 - y.shape[1] * np.log(NOISES * np.sqrt(2 * np.pi))[:, None, None]
    return (logsumexp(log_normal, axis=1) - np.log(len(f))) @ weight


def _best_noise(log_density: NDArray[np.float64], expected: float) -> tuple[float, float]:
    """Return the largest value, with the log-prior of the noise, and the noise where it is."""
    total = log_density - (np.log(NOISES / expected) / TRUST) ** 2 / 2
    best = int(np.argmax(total))
    return float(total[best]), float(NOISES[best])
