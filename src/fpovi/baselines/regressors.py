# SPDX-License-Identifier: Apache-2.0
"""Other libraries' regressors, called alike: each learns a table and returns a Gaussian for every new row."""

import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from fpovi._lookup import import_extra
from fpovi.likelihoods import heteroscedastic
from fpovi.predictive import Predictive
from fpovi.tabular import learn_encoder, learn_target

MOST_ROWS = 2000  # of a Gaussian process, whose time grows with their cube
FLOOR = 1e-6

Rows = NDArray[np.float64]
Gaussians = tuple[Rows, Rows]  # means and standard deviations
Regressor = Callable[[int, Rows, Rows, Rows], Gaussians]


def gaussian_process(seed: int, x: Rows, y: Rows, x_new: Rows, most_rows: int = MOST_ROWS) -> Gaussians:
    """Fit scikit-learn's GP: a Gaussian kernel with a lengthscale per feature plus noise, by marginal likelihood.

    Args:
        seed: chooses rows, where there are too many, and restarts.
        x: standardised inputs, shape (N, d).
        y: standardised targets, shape (N,).
        x_new: where to predict, shape (M, d).
        most_rows: how many rows to learn from at most.

    Returns:
        Means and standard deviations at ``x_new``, each of shape (M,).
    """
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 10.0))
    chosen = np.random.default_rng(seed).permutation(len(x))[:most_rows]
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=seed)
    with warnings.catch_warnings():
        # a lengthscale at its upper bound is a feature that says nothing, which is a result
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[chosen], y[chosen])
    mean, std = model.predict(x_new, return_std=True)
    return mean, std


def ngboost(seed: int, x: Rows, y: Rows, x_new: Rows) -> Gaussians:
    """Fit NGBoost (Duan et al. 2020) with its default settings.

    Args:
        seed: its random state.
        x, y, x_new: as in :func:`gaussian_process`.

    Returns:
        Means and standard deviations at ``x_new``, each of shape (M,).
    """
    regressor = import_extra("ngboost", "compare", "method ngboost").NGBRegressor
    found = regressor(random_state=seed, verbose=False).fit(x, y).pred_dist(x_new)
    return found.loc, found.scale


def predict_dist(method: Regressor, seed: int, x: Rows, y: Rows, x_new: Rows) -> Predictive:
    """Return a method's predictive distribution in the target's own units.

    Args:
        method: :func:`gaussian_process` or :func:`ngboost`; it sees a table encoded and standardised as ours are.
        seed: what ``method`` gets.
        x: training inputs, shape (N, d).
        y: training targets, shape (N,).
        x_new: inputs to predict at, shape (M, d).
    """
    encoder, target = learn_encoder(x), learn_target(y)
    mean, std = method(seed, encoder(x), target(y[:, None])[:, 0], encoder(x_new))
    raw = np.log(np.expm1(np.maximum(std - FLOOR, FLOOR)))
    f: Any = np.stack([mean, raw], axis=-1)[None]
    return Predictive(
        heteroscedastic(FLOOR), jnp.asarray(f, jnp.float32), (), *(jnp.asarray(u, jnp.float32) for u in target)
    )
