# SPDX-License-Identifier: Apache-2.0
"""Regression: real targets and counts."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fpovi.estimators.base import BaseBNN
from fpovi.estimators.inputs import check_columns
from fpovi.predictive import Predictive
from fpovi.tabular.target import RealTarget, Target
from fpovi.types import Likelihood, Support


class BNNRegressor(RegressorMixin, BaseBNN):
    """Bayesian neural network regression: predictions that know how sure they are.

    Args:
        hidden_layer_sizes: units of the hidden layers.
        activation: "relu", "erf", "tanh", "logistic", "gelu", "silu", "identity", or any elementwise JAX function.
        n_particles: how many networks stand for the posterior.
        flow: how they move: "gfsf", "svgd", "w_sgld_b", "pi_sgld", or "ensemble" (no interaction). Under "svgd" a
            particle mostly follows the mean of all scores, and takes longer to explain what it alone gets wrong.
        space: compare particles as functions ("function") or as weights ("weight").
        kernel: "auto" (a wide Gaussian), "rbf", "imq", or an object of :mod:`fpovi.kernels`.
        prior: over functions. "auto" is the network's infinite-width limit with the scales that the evidence of the
            training data picks; "nngp", "width_aware", "moment_matched", "sampled_gp", "ssge" and "flat" have fixed
            ones. With ``network``, "auto" is "sampled_gp", with the covariance of draws from that network. Or an object
            of :mod:`fpovi.priors`, or a function of network and likelihood that makes one: the scale of logits is, say,
            ``partial(priors.sampled_gp, std=3.0)``.
        measurement: where functions are compared beside the data: "auto" ("halo", for rows of several axes
            "shuffled_patches"), "kde", "mixup", "shifts", "uniform_box", "train_only", or an object of
            :mod:`fpovi.measurement`.
        likelihood: "auto" ("gaussian"), "student_t", "heteroscedastic", "mixture", "poisson", or an object of
            :mod:`fpovi.likelihoods`.
        network: a Flax module or a function ``key -> Equinox module`` in the place of hidden layers. It gets arrays
            as they are, scaled, in any shape; of a data frame all columns of numbers, with those that categories and
            gaps add.
        learning_rate, batch_size, max_epochs: numbers, or "auto" to choose them by the size of the table; the fewer
            epochs you give, the smaller the mini-batches of a long table are.
        early_stopping: hold out ``validation_fraction`` of the rows, stop when they are predicted no better, and keep
            the best.
        scaling: how arrays of numbers are brought to mean 0 and variance 1, where ``network`` is given or this is not
            "auto": "entry" (each place of a row by itself), "channel" (each index of the last axis), "whole" (all
            numbers together), "none", or "auto": "channel" for rows of several axes; for vectors "entry", or
            "whole" if 50 entries or more mostly share a range, as the pixels of flat images do.
        max_categories: levels of a categorical column that are told apart.
        unknown: what a category unseen in training is at prediction: an "error", or "missing".
        random_state: a whole number makes fits repeatable, bit for bit.
        verbose: show a progress bar.
        checkpoint: a path; a fit that was killed goes on from there when it is run again.
        devices: how many devices share the particles in training: a number that divides ``n_particles``, or "all" that
            JAX sees, on all hosts (:func:`fpovi.inference.sharding.connect`); None does without.

    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> model = BNNRegressor(max_epochs=200, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> mean, std = model.predict([[0.0], [9.0]], return_std=True)
    >>> bool(std[1] > 3 * std[0])  # far from the data it does not know
    True
    """

    _likelihood = "gaussian"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean of every row's target.

        Args:
            X: rows with the columns seen in :meth:`fit`.
            return_std: return the standard deviations too.

        Returns:
            Means ``(N,)``, or ``(N, m)`` for several targets; with ``return_std`` a pair of such arrays.
        """
        check_is_fitted(self, "fitted_")
        mean, std = self.fitted_.answers(_mean_and_std, check_columns(self, X), self.unknown)
        # to the target's units in float64: in float32, 1e9 and 1e9 + 1 are the same number
        shift, scale = self.fitted_.target.units
        mean = self._shaped(shift + scale * np.asarray(mean, np.float64))
        return (mean, self._shaped(scale * np.asarray(std, np.float64))) if return_std else mean

    def _shaped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[:, 0] if self.fitted_.target.single else values

    def _check_target(self, y: Any) -> NDArray[np.float64]:
        return _numbers(y)

    def _learn_target(self, y: NDArray[Any], weight: NDArray[np.float64], likelihood: Likelihood) -> Target:
        if likelihood.support is Support.CLASSES:
            raise ValueError("likelihood is for classes: use BNNClassifier, or a likelihood of real targets")
        return RealTarget.learn(y, weight, likelihood)


@jax.jit
def _mean_and_std(predictive: Predictive) -> tuple[Float[Array, "B m"], Float[Array, "B m"]]:
    return predictive.mean, predictive.std


def _numbers(y: Any) -> NDArray[np.float64]:
    """Return y as real, finite numbers ``(N,)`` or ``(N, m)``."""
    array = np.asarray(y)
    if np.iscomplexobj(array):
        raise ValueError("y holds complex numbers. Complex data not supported")
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y cannot be read as numbers ({error}): for classes, use BNNClassifier") from error
    if values.ndim not in (1, 2) or values.size == 0:
        raise ValueError(f"y has shape {values.shape}, but (N,) or (N, m) is needed: y should be a 1d array")
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(f"y has {bad.sum()} rows with NaN or infinity, the first at row {int(np.argmax(bad))}")
    return values
