# SPDX-License-Identifier: Apache-2.0
"""What regressors and classifiers share: validate, choose, fit, answer."""

import os
import re
import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from fpovi._fast.compile_cache import make_room
from fpovi.diagnostics import Diagnostics
from fpovi.estimators.inputs import FitWarning, check_columns, check_rows, learn_inputs, restored_on_failure
from fpovi.export import export_model
from fpovi.fitting.fit import Keys, Rows, RunSettings, fit_particles, hold_out, mesh_of, whole_particles
from fpovi.fitting.model_file import PARTS, ModelFile, write_model
from fpovi.fitting.parts import AUTO, choose_likelihood, layer_sizes, make_spec
from fpovi.fitting.record import Fitted
from fpovi.predictive import Predictive
from fpovi.selection.scales import candidate_scales
from fpovi.selection.schedule import make_schedule
from fpovi.selection.trial import tried_scales
from fpovi.tabular.arrays import collect_rows
from fpovi.tabular.target import Target
from fpovi.types import Key, Likelihood, State

LEAST_STEPS = 50  # of a fit from which something is expected
OF_THE_RUN = ("verbose", "checkpoint", "devices")  # settings that change how a fit is run, and not where it ends


class BaseBNN(BaseEstimator, ABC):
    """A Bayesian neural network as a scikit-learn estimator; see the two that derive from it."""

    fitted_: Fitted
    _likelihood: str  # what "auto" is

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
        likelihood: Any = "auto",
        network: Any = None,
        learning_rate: Any = "auto",
        batch_size: Any = "auto",
        max_epochs: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        scaling: str = "auto",
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
        self.scaling = scaling
        self.max_categories = max_categories
        self.unknown = unknown
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.devices = devices

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    @abstractmethod
    def _check_target(self, y: Any) -> NDArray[Any]:
        """Return targets as an array, or raise a ``ValueError``."""

    def _weigh(self, y: NDArray[Any], weight: NDArray[np.float64], target: Target) -> NDArray[np.float64]:
        """Return the weights of rows with checked targets: those given, unless targets have weights of their own."""
        return weight

    @abstractmethod
    def _learn_target(self, y: NDArray[Any], weight: NDArray[np.float64], likelihood: Likelihood) -> Target:
        """Return what there is to learn of checked targets."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BaseBNN":
        """Learn from rows.

        Args:
            X: a table ``(N, d)``: an array, or a data frame with numbers, categories, dates and missing values. With
                ``network=``, numbers ``(N, *shape)`` of any shape: ``(N, H, W, C)`` for images.
            y: targets ``(N,)``, or ``(N, m)`` for several numbers.
            sample_weight: one weight per row ``(N,)``; a row of weight 2 counts like that row twice.

        Returns:
            The estimator itself.
        """
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError("checkpoint needs a random_state, such as 0: no fit can go on with other random numbers")
        run = self._run_settings()  # too few devices are better known before the search for scales
        make_room()
        with restored_on_failure(self):
            X, weight = check_rows(self, X, y, sample_weight, reset=True)
            parts = {name: getattr(self, name) for name in PARTS}
            if isinstance(self.likelihood, str) and self.likelihood == AUTO:
                parts["likelihood"] = self._likelihood
            likelihood = choose_likelihood(parts["likelihood"])
            y = self._check_target(y)
            target = self._learn_target(y, weight, likelihood)
            weight = self._weigh(y, weight, target)
            kept = weight > 0
            frame = X.iloc[kept] if hasattr(X, "iloc") else np.asarray(X)[kept]
            encoder = learn_inputs(self, frame, weight[kept])
            rows = collect_rows(encoder(frame), target.encode(y[kept]), weight[kept])
            key_scales, *keys = jax.random.split(_key_of(self.random_state), 4)
            sizes = layer_sizes(encoder.shape, self.hidden_layer_sizes, target.outputs(likelihood))
            spec = make_spec(sizes, parts, encoder.shape)
            candidates = candidate_scales(key_scales, self.prior, spec, rows, verbose=bool(self.verbose))
            # as NumPy's: JAX may hold a float for "weak", which is another type of argument and another compilation
            candidates = [jax.tree.map(np.asarray, scales) for scales in candidates]
            schedule = make_schedule(self.learning_rate, self.batch_size, self.max_epochs, len(rows[0]))
            scales = tried_scales(run, schedule, Keys(*keys), spec, candidates, rows)
            known = {"spec": spec, "parts": parts, "scales": scales, "encoder": encoder, "target": target}
            self._train(run, Keys(*keys), rows, known)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BaseBNN":
        """Go on learning with more rows: what was learned stays the start, and all rows so far count.

        Scaling, categories and the prior's scales stay those of the first rows.

        Args:
            X, y, sample_weight: as in :meth:`fit`.
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        if not hasattr(self, "rows_"):
            raise ValueError("partial_fit needs the rows seen so far, which a model from a file does not have: use fit")
        X, weight = check_rows(self, X, y, sample_weight, reset=False)
        before, y = self.fitted_, self._check_target(y)
        new = before.encoder(X, unknown=self.unknown), before.target.encode(y), self._weigh(y, weight, before.target)
        rows = collect_rows(*(np.concatenate(pair) for pair in zip(self.rows_, new, strict=True)))
        keys = jax.random.split(jax.random.fold_in(_key_of(self.random_state), len(rows[0])), 3)
        make_room()
        with restored_on_failure(self):
            known = {name: getattr(before, name) for name in ("spec", "parts", "scales", "encoder", "target")}
            self._train(self._run_settings(), Keys(*keys), rows, known, before.state)
        return self

    def _train(
        self, run: RunSettings, keys: Keys, rows: Rows, known: dict[str, Any], earlier: State | None = None
    ) -> None:
        """Fit particles to rows, from those of ``earlier``, if any, and remember the record they make."""
        training, held = hold_out(keys.hold, rows, self.validation_fraction if self.early_stopping else None)
        schedule = make_schedule(self.learning_rate, self.batch_size, self.max_epochs, len(training[0]))
        done = fit_particles(run, schedule, keys, known["spec"], known["scales"], training, held, earlier)
        fitted = Fitted(state=done.state, history=done.history, **known)
        self.fitted_ = replace(fitted, diagnostics=fitted.diagnose(keys.hold, rows))
        complaints = {finding.name: finding for finding in self.fitted_.diagnostics.complaints}
        if "skill" in complaints and len(fitted.history.noise) >= LEAST_STEPS:
            finding = complaints["skill"]
            warnings.warn(f"the fit is {finding.verdict}: try {finding.remedy}", FitWarning, stacklevel=3)
        self.rows_, self.validation_scores_ = rows, done.scores

    def _run_settings(self) -> RunSettings:
        mesh = mesh_of(self.devices, self.n_particles)
        settled = {name: value for name, value in self.get_params().items() if name not in OF_THE_RUN}
        # where an object happens to lie in memory is left out
        settings = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(sorted(settled.items())))
        n, automatic = whole_particles(self.n_particles), isinstance(self.prior, str) and self.prior == AUTO
        return RunSettings(n, mesh, automatic, bool(self.verbose), self.checkpoint, settings)

    def predict_dist(self, X: Any) -> Predictive:
        """Return what is known about the targets of rows, in their own units.

        Args:
            X: rows with the columns seen in :meth:`fit`.

        Returns:
            The mixture over particles: see :class:`~fpovi.Predictive`.
        """
        check_is_fitted(self, "fitted_")
        return self.fitted_.predictive(check_columns(self, X), self.unknown)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[Any]:
        """Draw all targets together, each draw from one coherent function.

        Args:
            X: rows with the columns seen in :meth:`fit`.
            n_samples: how many draws.
            random_state: a whole number makes draws repeatable.

        Returns:
            ``(n_samples, N)``, or ``(n_samples, N, m)`` for several targets.
        """
        draws = self.predict_dist(X).sample(_key_of(random_state), n_samples)
        return np.asarray(draws)[..., 0] if draws.shape[-1] == 1 else np.asarray(draws)

    def diagnose(self) -> Diagnostics:
        """Return verdicts on the fit in words, each with what to change; warn if something is wrong."""
        check_is_fitted(self, "fitted_")
        for finding in self.fitted_.diagnostics.complaints:
            warnings.warn(f"{finding.name}: {finding.verdict} (try {finding.remedy})", FitWarning, stacklevel=2)
        return self.fitted_.diagnostics

    def save(self, path: str | os.PathLike[str], force: bool = True) -> None:
        """Write the model to one file, which :func:`fpovi.load` reads.

        ``target_names_``, where the caller has set it, is kept.

        Args:
            path: the file, replaced as a whole or left as it was.
            force: whether a file that exists may be replaced.
        """
        check_is_fitted(self, "fitted_")
        columns = list(map(str, self.feature_names_in_)) if hasattr(self, "feature_names_in_") else None
        names, settings = getattr(self, "target_names_", None), self.get_params(deep=False)
        found = ModelFile(self.fitted_, type(self).__name__, settings, self.n_features_in_, columns, names)
        write_model(found, path, force)

    def export(self, path: str | os.PathLike[str], format: str = "stablehlo", force: bool = True) -> None:
        """Write predictions as a program that runs without fpovi: see :mod:`fpovi.export`.

        Args:
            path: the file, replaced as a whole or left as it was.
            format: "stablehlo" or "onnx".
            force: whether a file that exists may be replaced.
        """
        check_is_fitted(self, "fitted_")
        export_model(self.fitted_, path, format, force)


def _key_of(random_state: Any) -> Key:
    return jax.random.key(check_random_state(random_state).randint(np.iinfo(np.int32).max))
