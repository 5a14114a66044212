# SPDX-License-Identifier: Apache-2.0
"""Other libraries' regressors, behind one face: they learn a table and answer with a Gaussian for every row."""

import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from fpovi.likelihoods import heteroscedastic
from fpovi.predictive import Predictive
from fpovi.tabular import learn_encoder, learn_target
from fpovi.types import import_extra

MOST_ROWS = 2000  # of a Gaussian process, whose time grows with their cube
FLOOR = 1e-6

Rows = NDArray[np.float64]
Answer = tuple[Rows, Rows]


def gaussian_process(seed: int, x: Rows, y: Rows, x_new: Rows, most_rows: int = MOST_ROWS) -> Answer:
    """scikit-learn's GP: a Gaussian kernel with a lengthscale per feature plus noise, by marginal likelihood."""
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 10.0))
    chosen = np.random.default_rng(seed).permutation(len(x))[:most_rows]
    model = GaussianProcessRegressor(kernel, n_restarts_optimizer=1, random_state=seed)
    with warnings.catch_warnings():
        # a lengthscale at its upper bound is a feature that says nothing, which is an answer
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[chosen], y[chosen])
    mean, std = model.predict(x_new, return_std=True)
    return mean, std


def ngboost(seed: int, x: Rows, y: Rows, x_new: Rows) -> Answer:
    """NGBoost (Duan et al. 2020) with its default settings."""
    regressor = import_extra("ngboost", "compare", "method ngboost").NGBRegressor
    found = regressor(random_state=seed, verbose=False).fit(x, y).pred_dist(x_new)
    return found.loc, found.scale


def answer(method: Callable[[int, Rows, Rows, Rows], Answer], seed: int, x: Rows, y: Rows, x_new: Rows) -> Predictive:
    """A method's Gaussians, in the target's own units; it sees a table encoded and standardised like ours."""
    encoder, target = learn_encoder(x), learn_target(y)
    mean, std = method(seed, encoder(x), target(y[:, None])[:, 0], encoder(x_new))
    raw = np.log(np.expm1(np.maximum(std - FLOOR, FLOOR)))
    f: Any = np.stack([mean, raw], axis=-1)[None]
    return Predictive(
        heteroscedastic(FLOOR), jnp.asarray(f, jnp.float32), (), *(jnp.asarray(u, jnp.float32) for u in target)
    )
