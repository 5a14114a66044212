# SPDX-License-Identifier: Apache-2.0
"""What regressors and classifiers share: read a table, wire the parts, run, keep, and say what is known."""

import os
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fpovi.batches import make_batch, pad
from fpovi.diagnostics import Diagnostics, diagnose
from fpovi.estimators import defaults
from fpovi.estimators.training import Progressed, fingerprint_of, train
from fpovi.estimators.wiring import (
    Dials,
    Spec,
    choose_likelihood,
    layer_sizes,
    outputs_of,
    start,
    wire,
)
from fpovi.estimators.writing import write_model
from fpovi.networks import fan_in_scales
from fpovi.predictive import Predictive
from fpovi.preprocessing import Encoder, learn_encoder, merge_rows
from fpovi.priors import evidence
from fpovi.types import Batch, Key, Likelihood, Scales, State

BLOCK = 1024  # rows of one prediction: always as many, so that a row's answer does not depend on its company
MIN_ROWS = 2
MOST_LOOKED_AT, FAR = 256, 2.0  # rows that a diagnosis looks at, and how many standard deviations it goes past them
PARTS = ("activation", "network", "space", "flow", "kernel", "prior", "measurement", "likelihood")


class FitWarning(UserWarning):
    """A fit that one should not trust as it is."""


class BaseBNN(BaseEstimator):
    """A Bayesian neural network as a scikit-learn estimator; see the two that derive from it."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (50,),
        activation: Any = "relu",
        *,
        n_particles: int = 20,
        flow: Any = "svgd",
        space: str = "function",
        kernel: Any = "auto",
        prior: Any = "auto",
        measurement: Any = "auto",
        likelihood: Any = "gaussian",
        network: Any = None,
        learning_rate: Any = "auto",
        batch_size: Any = "auto",
        max_epochs: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        max_categories: int = 50,
        unknown: str = "error",
        random_state: Any = None,
        verbose: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.n_particles = n_particles
        self.flow = flow
        self.space = space
        self.kernel = kernel
        self.prior = prior
        self.measurement = measurement
        self.likelihood = likelihood
        self.network = network
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.max_categories = max_categories
        self.unknown = unknown
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    # what regressors and classifiers answer differently

    def _learn_target(self, y: Any, weight: NDArray[np.float64], likelihood: Likelihood) -> NDArray[Any]:
        raise NotImplementedError

    def _encode_target(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _num_outputs(self, targets: int, likelihood: Likelihood) -> int:
        raise NotImplementedError

    def _surrogate(self, y: NDArray[Any], likelihood: Likelihood) -> NDArray[np.float64] | None:
        """Real numbers in the place of y, by which the evidence may choose the prior's scales."""
        raise NotImplementedError

    def _units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shift and scale of the targets."""
        raise NotImplementedError

    def _target_to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    def _target_from_json(self, fields: dict[str, Any]) -> None:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BaseBNN":
        """Learn from a table X ``(N, d)`` and targets y, one weight per row optional.

        X may be a data frame with numbers, categories, dates and missing values. A row of weight 2 counts like that
        row twice.
        """
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError("checkpoint needs a random_state, such as 0: no fit can go on with other random numbers")
        X, weight = self._check_rows(X, y, sample_weight, reset=True)
        likelihood = choose_likelihood(self.likelihood)
        targets = self._learn_target(y, weight, likelihood)
        kept = weight > 0
        frame = X.iloc[kept] if hasattr(X, "iloc") else np.asarray(X)[kept]
        self.encoder_: Encoder = learn_encoder(frame, weight[kept], max_categories=self.max_categories)
        rows = merge_rows(self.encoder_(frame), targets[kept], weight[kept])
        key_scales, key_start, key_run, key_hold = jax.random.split(self._key(), 4)
        outputs = self._num_outputs(rows[1].shape[1], likelihood)
        self.sizes_ = layer_sizes(rows[0].shape[1], self.hidden_layer_sizes, outputs)
        self.parts_ = {name: getattr(self, name) for name in PARTS}
        spec = self.spec_
        # as NumPy's: JAX may hold a float for "weak", which is another type of argument and another compilation
        scales = jax.tree.map(np.asarray, self._choose_scales(key_scales, spec, *rows))
        self._train(key_start, key_run, key_hold, spec, scales, rows)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BaseBNN":
        """Go on learning with more rows: what was learned stays the start, and all rows so far count.

        Scaling, categories and the prior's scales stay those of the first rows.
        """
        if not hasattr(self, "state_"):
            return self.fit(X, y, sample_weight)
        if not hasattr(self, "rows_"):
            raise ValueError("partial_fit needs the rows seen so far, which a model from a file does not have: use fit")
        X, weight = self._check_rows(X, y, sample_weight, reset=False)
        new = self.encoder_(X, unknown=self.unknown), self._encode_target(y), weight
        rows = merge_rows(*(np.concatenate(pair) for pair in zip(self.rows_, new, strict=True)))
        key_start, key_run, key_hold = jax.random.split(jax.random.fold_in(self._key(), len(rows[0])), 3)
        self._train(key_start, key_run, key_hold, self.spec_, self.scales_, rows, self.state_)
        return self

    @property
    def spec_(self) -> Spec:
        """The parts of the fitted model; made anew from their names, which is what can be kept in files."""
        return wire(self.sizes_, self.parts_)

    def predict_dist(self, X: Any) -> Predictive:
        """What is known about the targets of the rows of X, in their own units: see :class:`~fpovi.Predictive`."""
        check_is_fitted(self, "state_")
        return self._predictive(X, *self._units())

    def _predictive(self, X: Any, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> Predictive:
        check_is_fitted(self, "state_")
        units = (jnp.asarray(unit, jnp.float32) for unit in (shift, scale))
        params = jax.tree.map(jnp.asarray, self.state_.params)
        return Predictive(self.spec_.likelihood, jnp.asarray(self._functions(self._encode(X))), params, *units)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draws of all targets together: ``(n_samples, N)`` or ``(n_samples, N, m)``, each one coherent function."""
        draws = self.predict_dist(X).sample(_key_of(random_state), n_samples)
        return np.asarray(draws)[..., 0] if draws.shape[-1] == 1 else np.asarray(draws)

    def diagnose(self) -> Diagnostics:
        """Is the fit sound? Verdicts in words, each with the knob to turn; a warning if something is wrong."""
        check_is_fitted(self, "state_")
        for finding in self.diagnostics_.complaints:
            warnings.warn(f"{finding.name}: {finding.verdict} (try {finding.remedy})", FitWarning, stacklevel=2)
        return self.diagnostics_

    def save(self, path: str | os.PathLike[str], force: bool = True) -> None:
        """Write the model to one file, which :func:`fpovi.load` reads; an existing one is replaced if ``force``."""
        check_is_fitted(self, "state_")
        write_model(self, path, force)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, NDArray[np.float64]]:
        """X as given, names and number of columns noted or compared, and one finite weight per row."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        given, X = X, _table(X)
        validate_data(self, given, reset=reset, skip_check_array=True)
        check_consistent_length(X, y)
        rows = X.shape[0]
        if reset and rows < MIN_ROWS:
            raise ValueError(f"X has n_samples={rows} rows, but at least {MIN_ROWS} are needed to learn from")
        weight = _check_sample_weight(sample_weight, np.zeros((rows, 1)), dtype=np.float64, ensure_non_negative=True)
        if np.sum(weight > 0) < (MIN_ROWS if reset else 1):
            raise ValueError(f"sample_weight leaves {np.sum(weight > 0)} rows, but at least {MIN_ROWS} are needed")
        return X, weight

    def _encode(self, X: Any) -> Float[np.ndarray, "N d"]:
        table = _table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.encoder_(table, unknown=self.unknown)

    def _key(self) -> Key:
        return _key_of(self.random_state)

    def _choose_scales(
        self, key: Key, spec: Spec, x: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64]
    ) -> Scales:
        """By the evidence where the prior is automatic and the targets are real numbers, else by fan-in."""
        surrogate = self._surrogate(y, spec.likelihood)
        if self.prior != "auto" or spec.network is not None or surrogate is None:
            return fan_in_scales(spec.sizes)
        return evidence(key, x, surrogate, spec.sizes, spec.activation, weight=weight)

    def _train(
        self,
        key_start: Key,
        key_run: Key,
        key_hold: Key,
        spec: Spec,
        scales: Scales,
        rows: tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]],
        earlier: State | None = None,
    ) -> None:
        n = self.n_particles
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"n_particles={n!r} must be a positive whole number")
        training, held = self._hold_out(key_hold, rows)
        count = len(training[0])
        size = defaults.rows_per_step(self.batch_size, count)
        steps = defaults.total_steps(self.max_epochs, count, size)
        dials = Dials(scales, jnp.asarray(defaults.peak_rate(self.learning_rate)), jnp.asarray(float(steps)))
        state = start(spec, int(n), dials, key_start)
        if earlier is not None:
            state = state._replace(particles=earlier.particles, params=earlier.params, model=earlier.model)
        data = pad(_batch(*training), defaults.padded_rows(count))
        held_batch = None if held is None else pad(_batch(*held), defaults.padded_rows(len(held[0])))
        # of a first fit only: run again, a program gets there at once, and from there takes the same way on
        checkpoint = self.checkpoint if earlier is None else None
        done: Progressed = train(
            key_run, spec.recipe(dials), state, data, steps, batch_size=min(size, data.x.shape[0]),
            chunk_size=defaults.CHUNK, checkpoint=checkpoint, verbose=bool(self.verbose),
            validate=None if held_batch is None else lambda state: _held_out_nll(spec, scales, state, held_batch),
            fingerprint="" if checkpoint is None else fingerprint_of(self._settings(), data, held_batch, dials, state),
        )  # fmt: skip
        self.scales_, self.rows_ = scales, rows
        self.state_, self.history_ = done.state, done.history
        self.validation_scores_ = done.scores
        self.diagnostics_ = self._look(key_hold, rows[0])

    def _look(self, key: Key, x: NDArray[np.float64]) -> Diagnostics:
        """Diagnose the fit at some training inputs, and at as many points well past them."""
        rng = _generator(key)
        at = x[rng.permutation(len(x))[:MOST_LOOKED_AT]]
        past = at + FAR * rng.normal(size=at.shape)
        likelihood, params = self.spec_.likelihood, self.state_.params
        has_noise = bool(jax.tree.leaves(params))
        noise = float(np.mean(jax.vmap(likelihood.noise)(params))) if has_noise else None
        return diagnose(self.history_, self._functions(at), self._functions(past), noise)

    def _settings(self) -> str:
        """What else a checkpoint depends on; where an object happens to lie in memory is left out."""
        settled = {name: value for name, value in self.get_params().items() if name not in ("verbose", "checkpoint")}
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(sorted(settled.items())))

    def _hold_out(self, key: Key, rows: Any) -> tuple[Any, Any]:
        """Training rows and, for early stopping, validation rows."""
        if not self.early_stopping:
            return rows, None
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction={self.validation_fraction} must lie strictly between 0 and 1")
        count = len(rows[0])
        held = int(np.clip(round(self.validation_fraction * count), 1, count - 1))
        order = _generator(key).permutation(count)
        return tuple(a[np.sort(order[held:])] for a in rows), tuple(a[np.sort(order[:held])] for a in rows)

    def _functions(self, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "n N k"]:
        """f of all particles at encoded rows, block by block."""
        blocks = []
        for first in range(0, len(x), BLOCK):
            block = np.asarray(x[first : first + BLOCK], np.float32)
            full = np.pad(block, ((0, BLOCK - len(block)), (0, 0)))
            f = outputs_of(self.spec_, self.scales_, self.state_.particles, self.state_.model, full)
            blocks.append(np.asarray(f)[:, : len(block)])
        return np.concatenate(blocks, axis=1)


def _table(X: Any) -> Any:
    """A data frame as it is, all else as an array of rows and columns; words and numbers stay what they are."""
    if issparse(X):
        raise ValueError("X is sparse, but sparse input is not supported: use X.toarray()")
    if not hasattr(X, "iloc"):
        X = np.asarray(X, object) if isinstance(X, list | tuple) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(
            f"X has shape {X.shape}, but rows and columns (N, d) are needed. Reshape your data: "
            "X.reshape(-1, 1) if it has a single feature, X.reshape(1, -1) if it is a single row"
        )
    return X


def _batch(x: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float64]) -> Batch:
    return make_batch(x.astype(np.float32), y if y.dtype.kind in "iu" else y.astype(np.float32), weight)


def _key_of(random_state: Any) -> Key:
    return jax.random.key(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _generator(key: Key) -> np.random.Generator:
    """NumPy's random numbers, which need no compilation for every number of rows."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def _held_out_nll(spec: Spec, scales: Scales, state: State, held: Batch) -> float:
    """Mean negative log predictive density of the mixture, weighted."""
    f = outputs_of(spec, scales, state.particles, state.model, held.x)
    predictive = Predictive(spec.likelihood, f, jax.tree.map(jnp.asarray, state.params), jnp.zeros(()), jnp.ones(()))
    weight = np.asarray(held.weight).mean(axis=1)
    return float(-np.sum(np.asarray(predictive.log_prob(held.y)) * weight) / np.sum(weight))
