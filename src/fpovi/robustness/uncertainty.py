# SPDX-License-Identifier: Apache-2.0
"""How unsure an ensemble of classifiers is, and what that is worth: under attack, and on inputs from elsewhere."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fpovi.calibration import evaluate, ood_aupr, ood_auroc, ood_fpr
from fpovi.calibration.held_out import compute_in_float64
from fpovi.predictive import Predictive, of_classes
from fpovi.robustness.log_probs import BLOCK, attackable, values
from fpovi.robustness.rows import class_places, numbers_of
from fpovi.types import Key, Numbers, Support


def disagreement(predictive: Predictive) -> Float[Array, " B"]:
    r"""Return how many pairs of particles have other most probable classes: :math:`1 - \sum_c v_c(v_c-1)/(n(n-1))`.

    v_c are the particles that vote for class c; of one particle it is 0.

    Args:
        predictive: what n particles say of B inputs.
    """
    each, n = predictive.particle_means, predictive.f.shape[0]
    votes = jnp.sum(jax.nn.one_hot(jnp.argmax(each, axis=-1), each.shape[-1], dtype=each.dtype), axis=0)
    return 1 - jnp.sum(votes * (votes - 1), axis=-1) / (n * (n - 1)) if n > 1 else jnp.zeros_like(votes[:, 0])


# the higher, the less is known of an input
UNCERTAINTIES: dict[str, Callable[[Predictive], Array]] = {
    "entropy": lambda predictive: predictive.entropy,
    "mutual_information": lambda predictive: predictive.mutual_information,
    "disagreement": disagreement,
    "max_probability": lambda predictive: 1 - jnp.max(predictive.probs, axis=-1),
}


def uncertainties(predicted: Any) -> dict[str, Float[np.ndarray, " N"]]:
    """Return how unsure an ensemble is of each row, in four ways.

    Args:
        predicted: a :class:`~fpovi.Predictive` of classes, or the log-probabilities ``(n, N, k)`` of n particles.

    Returns:
        Arrays ``(N,)``, the higher the less is known: "entropy" of the ensemble, in nats; "mutual_information", the
        part of it that is disagreement, in nats; "disagreement", the share of pairs of particles whose most probable
        classes differ; and "max_probability", one less the largest probability.

    >>> found = uncertainties(np.log([[[0.9, 0.1]], [[0.1, 0.9]]]))
    >>> {name: float(values[0].round(3)) for name, values in found.items()}
    {'entropy': 0.693, 'mutual_information': 0.368, 'disagreement': 1.0, 'max_probability': 0.5}
    """
    found = compute_in_float64(_as_predictive(predicted), _all_uncertainties)
    return {name: found[name] for name in UNCERTAINTIES}  # compiled, they come in the order of their names


@jax.jit
def _all_uncertainties(predictive: Predictive) -> dict[str, Float[Array, " B"]]:
    return {name: measure(predictive) for name, measure in UNCERTAINTIES.items()}


def ood_scores(inside: Any, outside: Any) -> dict[str, float]:
    """Return how well uncertainty tells inputs from outside the training distribution.

    Args:
        inside: what is predicted for inputs of the training distribution: a :class:`~fpovi.Predictive` of classes, or
            the log-probabilities ``(n, N, k)`` of n particles.
        outside: the same for inputs from elsewhere.

    Returns:
        For each of :func:`uncertainties`, and inputs from outside as those to be flagged: the area under the ROC curve
        ("auroc_entropy" and so on), the average precision ("aupr_…"), and the share of inputs from inside that are
        flagged where 95 % of those from outside are ("fpr95_…").

    >>> sure, unsure = np.log([[[0.9, 0.1], [0.2, 0.8]]]), np.log([[[0.5, 0.5], [0.6, 0.4]]])
    >>> ood_scores(sure, unsure)["auroc_entropy"]
    1.0
    """
    known, foreign = uncertainties(inside), uncertainties(outside)
    return {
        f"{name}_{kind}": score(known[kind], foreign[kind])
        for name, score in {"auroc": ood_auroc, "aupr": ood_aupr, "fpr95": ood_fpr}.items()
        for kind in known
    }


def under_attack(model: Any, X: Any, y: Any, *, key: Key | None = None, block: int = BLOCK) -> dict[str, float]:
    """Return how a classifier fares on inputs, attacked or not.

    Args:
        model: a fitted :class:`~fpovi.BNNClassifier`, a function ``log_probs(x) -> (n, B, k)``, or a
            :class:`~fpovi.robustness.Redrawn`. Another than the attack went through shows whether the attack transfers.
        X: rows ``(N, *d_x)``.
        y: their labels ``(N,)``.
        key: for networks that are drawn.
        block: rows at a time.

    Returns:
        ``nll``, ``accuracy``, ``brier`` and ``ece`` of the ensemble, and the means over rows of :func:`uncertainties`.
    """
    x, through = numbers_of(model, X), attackable(model)
    predictive = _as_predictive(values(through, x, jax.random.key(0) if key is None else key, block))
    label = class_places(model, y, len(x), predictive.f.shape[-1], "y")
    means = {name: float(np.mean(each)) for name, each in uncertainties(predictive).items()}
    return {**evaluate(predictive, label), **means}


def _as_predictive(predicted: Predictive | Numbers) -> Predictive:
    """Return a mixture of particles from their log-probabilities."""
    if isinstance(predicted, Predictive):
        if predicted.likelihood.support is not Support.CLASSES:
            raise ValueError("uncertainties are those of classes: for numbers see Predictive.epistemic_std")
        return predicted
    f = np.asarray(predicted)
    if f.ndim != 3 or 0 in f.shape or f.dtype.kind != "f" or np.any(np.isnan(f)) or np.any(f > 1e-3):
        raise ValueError(
            f"log-probabilities of shape (particles, rows, classes) are needed, but these have shape {f.shape}, or are "
            "above 0 or NaN"
        )
    return of_classes(f)
