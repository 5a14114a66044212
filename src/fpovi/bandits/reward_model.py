# SPDX-License-Identifier: Apache-2.0
"""What every arm would have brought in each logged context, by models that did not see that row."""

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from sklearn.base import clone

from fpovi.bandits.logs import Logs
from fpovi.estimators import BNNRegressor


class PredictedRewards(NamedTuple):
    """Predicted rewards of K arms in N logged contexts, by F models; see :func:`cross_fit`.

    Args:
        per_fold: what each model predicts for every row and arm.
        fold: which model did not see a row.
    """

    per_fold: Float[np.ndarray, "F N K"]
    fold: Int[np.ndarray, " N"]

    @property
    def held_out(self) -> Float[np.ndarray, "N K"]:
        """What the model that did not see a row predicts for it."""
        return self.per_fold[self.fold, np.arange(len(self.fold))]


def cross_fit(logs: Logs, regressor: Any = None, *, folds: int = 5, random_state: int = 0) -> PredictedRewards:
    """Fit a model of the rewards to all rows but those of one fold, for every fold in turn.

    A model sees the columns of the context, and after them one per arm that is 1 where that was chosen and 0 elsewhere
    (called ``arm=NAME`` in data frames). One set of predictions serves for all policies on the same logs.

    Args:
        logs: from :func:`make_logs`.
        regressor: any scikit-learn regressor, ``BNNRegressor(random_state=0)`` by default. A linear one needs products
            of columns to tell arms apart by context: ``make_pipeline(PolynomialFeatures(2), Ridge())``.
        folds: how many models; arms are spread evenly over the folds.
        random_state: which rows come together in a fold.
    """
    if not 2 <= folds <= logs.num_rows:
        raise ValueError(f"folds={folds} must be at least 2 and at most the {logs.num_rows} rows")
    regressor = BNNRegressor(random_state=0) if regressor is None else regressor
    fold = _deal(logs.chosen, folds, random_state)
    seen = _with_arms(logs, logs.chosen)
    each = [_with_arms(logs, np.full_like(logs.chosen, arm)) for arm in range(len(logs.names))]
    every = pd.concat(each, ignore_index=True) if isinstance(seen, pd.DataFrame) else np.concatenate(each)

    def predictions() -> Iterator[Float[np.ndarray, "N K"]]:
        for number in range(folds):
            rows = np.flatnonzero(fold != number)
            kept = seen.iloc[rows].reset_index(drop=True) if isinstance(seen, pd.DataFrame) else seen[rows]
            model = clone(regressor).fit(kept, logs.rewards[rows])
            yield np.asarray(model.predict(every), np.float64).reshape(len(logs.names), logs.num_rows).T

    return PredictedRewards(_finite_rewards(np.stack(list(predictions()))), fold)


def as_predicted(logs: Logs, rewards: Any) -> PredictedRewards:
    """Return predicted rewards as they are; else those ``(N, K)`` made elsewhere, or of a regressor to be fitted."""
    if isinstance(rewards, PredictedRewards):
        found = rewards
    elif rewards is None or hasattr(rewards, "fit"):
        found = cross_fit(logs, rewards)
    else:
        values = _finite_rewards(np.asarray(rewards, np.float64))
        found = PredictedRewards(values[None], np.zeros(len(values), int))
    needed = logs.num_rows, len(logs.names)
    if found.per_fold.shape[1:] != needed:
        raise ValueError(f"rewards are predicted for {found.per_fold.shape[1:]} rows and arms, but logs have {needed}")
    return found


def _deal(chosen: Int[np.ndarray, " N"], folds: int, random_state: int) -> Int[np.ndarray, " N"]:
    """Return a fold for every row, as if the rows were sorted by arm and dealt out like cards."""
    order = np.lexsort((np.random.default_rng(random_state).random(len(chosen)), chosen))
    fold = np.empty_like(chosen)
    fold[order] = np.arange(len(chosen)) % folds
    return fold


def _with_arms(logs: Logs, arms: Int[np.ndarray, " N"]) -> Any:
    """Return contexts with one more column for each arm, 1 where it is that of the row."""
    indicators = (arms[:, None] == np.arange(len(logs.names))).astype(np.float64)
    contexts = logs.contexts
    if isinstance(contexts, pd.DataFrame):
        titles: list[Hashable] = [f"arm={name}" for name in logs.names]
        if len({*map(str, contexts), *titles}) < contexts.shape[1] + len(titles):
            raise ValueError(f"contexts have columns of equal names, or some called like {titles}: rename them")
        named = contexts.set_axis([str(column) for column in contexts], axis=1).reset_index(drop=True)
        return pd.concat([named, pd.DataFrame(indicators, columns=titles)], axis=1)
    if contexts.ndim != 2:
        raise ValueError(f"contexts have shape {contexts.shape}, but a model of rewards needs rows (N, d)")
    plain = contexts.dtype.kind in "biuf"
    return np.concatenate([contexts if plain else contexts.astype(object), indicators], axis=1)


def _finite_rewards(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    if not np.isfinite(values).all():
        raise ValueError("rewards are predicted to be NaN or infinite in some rows: look at the regressor")
    return values
