# SPDX-License-Identifier: Apache-2.0
"""What regressors and classifiers share: read a table, wire the parts, run, keep, and say what is known."""

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fpovi._fast.compile_cache import make_room
from fpovi.diagnostics import Diagnostics, diagnose
from fpovi.estimators.all_or_nothing import all_or_nothing
from fpovi.estimators.writing import write_model
from fpovi.export.program import export_model
from fpovi.fitting.fit import Keys, Rows, fit_particles, generator, mesh_of
from fpovi.fitting.parts import Spec, choose_likelihood, layer_sizes, wire
from fpovi.fitting.phases import outputs_of
from fpovi.predictive import Predictive
from fpovi.selection.scales import candidate_scales
from fpovi.selection.trial import tried_scales
from fpovi.tabular import Encoder, learn_encoder, merge_rows
from fpovi.tabular.arrays import as_table
from fpovi.tabular.blocks import blocks, slabs
from fpovi.types import Key, Likelihood, Scales, State

MIN_ROWS = 2
MOST_LOOKED_AT, FAR = 256, 2.0  # rows that a diagnosis looks at, and how many standard deviations it goes past them
PARTS = ("activation", "network", "space", "flow", "kernel", "prior", "measurement", "likelihood")


class FitWarning(UserWarning):
    """A fit that one should not trust as it is."""


class BaseBNN(BaseEstimator, ABC):
    """A Bayesian neural network as a scikit-learn estimator; see the two that derive from it."""

    def __init__(
        self,
        hidden_layer_sizes: Any = (50,),
        activation: Any = "relu",
        *,
        n_particles: int = 20,
        flow: Any = "gfsf",
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
        devices: int | str | None = None,
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
        self.devices = devices

    # what regressors and classifiers answer differently

    @abstractmethod
    def _learn_target(self, y: Any, weight: NDArray[np.float64], likelihood: Likelihood) -> NDArray[Any]:
        """Remember what the targets are like, and encode them."""

    @abstractmethod
    def _encode_target(self, y: Any) -> NDArray[Any]:
        """Targets as numbers, in the units learned before."""

    @abstractmethod
    def _num_outputs(self, targets: int, likelihood: Likelihood) -> int:
        """Of the network, for so many targets."""

    @abstractmethod
    def _units(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Shift and scale of the targets."""

    @abstractmethod
    def _target_to_json(self) -> dict[str, Any]:
        """What was learned about the targets, for a file."""

    @abstractmethod
    def _target_from_json(self, fields: dict[str, Any]) -> None:
        """The reverse."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BaseBNN":
        """Learn from a table X ``(N, d)`` and targets y, one weight per row optional.

        X may be a data frame with numbers, categories, dates and missing values. A row of weight 2 counts like that
        row twice.
        """
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError("checkpoint needs a random_state, such as 0: no fit can go on with other random numbers")
        mesh_of(self)  # too few devices are better known before the search for scales
        make_room()
        with all_or_nothing(self):
            X, weight = self._check_rows(X, y, sample_weight, reset=True)
            likelihood = choose_likelihood(self.likelihood)
            targets = self._learn_target(y, weight, likelihood)
            kept = weight > 0
            frame = X.iloc[kept] if hasattr(X, "iloc") else np.asarray(X)[kept]
            self.encoder_: Encoder = learn_encoder(frame, weight[kept], max_categories=self.max_categories)
            rows = merge_rows(self.encoder_(frame), targets[kept], weight[kept])
            key_scales, *keys = jax.random.split(_key_of(self.random_state), 4)
            outputs = self._num_outputs(rows[1].shape[1], likelihood)
            self.sizes_ = layer_sizes(rows[0].shape[1], self.hidden_layer_sizes, outputs)
            self.parts_ = {name: getattr(self, name) for name in PARTS}
            candidates = candidate_scales(key_scales, self.prior, self.spec_, rows, verbose=bool(self.verbose))
            # as NumPy's: JAX may hold a float for "weak", which is another type of argument and another compilation
            candidates = [jax.tree.map(np.asarray, scales) for scales in candidates]
            self._train(Keys(*keys), tried_scales(self, Keys(*keys), self.spec_, candidates, rows), rows)
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
        keys = jax.random.split(jax.random.fold_in(_key_of(self.random_state), len(rows[0])), 3)
        make_room()
        with all_or_nothing(self):
            self._train(Keys(*keys), self.scales_, rows, self.state_)
        return self

    def _train(self, keys: Keys, scales: Scales, rows: Rows, earlier: State | None = None) -> None:
        done = fit_particles(self, keys, self.spec_, scales, rows, earlier)
        self.scales_, self.rows_ = scales, rows
        self.state_, self.history_ = done.state, done.history
        self.validation_scores_ = done.scores
        self.diagnostics_ = self._look(keys.hold, rows[0])

    @property
    def spec_(self) -> Spec:
        """The parts of the fitted model; made anew from their names, which is what can be kept in files."""
        return wire(self.sizes_, self.parts_)

    def predict_dist(self, X: Any) -> Predictive:
        """What is known about the targets of the rows of X, in their own units: see :class:`~fpovi.Predictive`."""
        check_is_fitted(self, "state_")
        x = self.encoder_(self._check_columns(X), unknown=self.unknown)
        return self._predictive(jnp.asarray(self._functions(x)), *self._units())

    def _answers(self, ask: Callable[[Predictive], Any], X: Any) -> Any:
        """The arrays that ``ask`` makes of the rows of X, in standardised units, with f of one block in memory."""
        check_is_fitted(self, "state_")
        units, answers = (np.zeros(()), np.ones(())), []
        for x in slabs(self.encoder_, self._check_columns(X), self.unknown):
            for block, count in blocks(x):
                found = ask(self._predictive(self._outputs(block), *units))
                answers.append(jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], found))
        return jax.tree.map(lambda *parts: np.concatenate(parts), *answers)

    def _predictive(self, f: Float[Array, "n N k"], shift: Any, scale: Any) -> Predictive:
        units = (jnp.asarray(unit, jnp.float32) for unit in (shift, scale))
        return Predictive(self.spec_.likelihood, f, jax.tree.map(jnp.asarray, self.state_.params), *units)

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

    def export(self, path: str | os.PathLike[str], format: str = "stablehlo", force: bool = True) -> None:
        """Write predictions as a program that runs without fpovi: see :mod:`fpovi.export.program`."""
        check_is_fitted(self, "state_")
        export_model(self, path, format, force)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, NDArray[np.float64]]:
        """X as given, names and number of columns noted or compared, and one finite weight per row."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        given, X = X, as_table(X)
        validate_data(self, given, reset=reset, skip_check_array=True)
        check_consistent_length(X, y)
        rows = X.shape[0]
        if reset and rows < MIN_ROWS:
            raise ValueError(f"X has n_samples={rows} rows, but at least {MIN_ROWS} are needed to learn from")
        weight = _check_sample_weight(sample_weight, np.zeros((rows, 1)), dtype=np.float64, ensure_non_negative=True)
        if np.sum(weight > 0) < (MIN_ROWS if reset else 1):
            raise ValueError(f"sample_weight leaves {np.sum(weight > 0)} rows, but at least {MIN_ROWS} are needed")
        return X, weight

    def _check_columns(self, X: Any) -> Any:
        """X as a table with as many columns, and as called, as those seen in fit."""
        table = as_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return table

    def _look(self, key: Key, x: NDArray[np.float64]) -> Diagnostics:
        """Diagnose the fit at some training inputs, and at as many points well past them."""
        rng = generator(key)
        at = x[rng.permutation(len(x))[:MOST_LOOKED_AT]]
        past = at + FAR * rng.normal(size=at.shape)
        likelihood, params = self.spec_.likelihood, self.state_.params
        has_noise = bool(jax.tree.leaves(params))
        noise = float(np.mean(jax.vmap(likelihood.noise)(params))) if has_noise else None
        return diagnose(self.history_, self._functions(at), self._functions(past), noise)

    def _functions(self, x: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "n N k"]:
        """f of all particles at encoded rows, block by block."""
        parts = [np.asarray(self._outputs(block))[:, :count] for block, count in blocks(x)]
        return np.concatenate(parts, axis=1)

    def _outputs(self, block: Float[np.ndarray, "B d"]) -> Float[Array, "n B k"]:
        return outputs_of(self.spec_, self.scales_, self.state_.particles, self.state_.network_state, block)


def _key_of(random_state: Any) -> Key:
    return jax.random.key(check_random_state(random_state).randint(np.iinfo(np.int32).max))
