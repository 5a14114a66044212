# SPDX-License-Identifier: Apache-2.0
"""Predictions as columns of a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fpovi.predictive import Predictive


def prediction_columns(
    predictive: Predictive, targets: Sequence[str], level: float = 0.95, classes: NDArray[Any] | None = None
) -> pd.DataFrame:
    """What is predicted of every row, in columns called after the ``targets``.

    Numbers: ``T_mean``, ``T_std``, ``T_epistemic_std`` and ``T_lower``, ``T_upper``, the central interval of ``level``.
    Classes: ``T_predicted``, the most probable one, ``p_C`` for every class C, ``entropy`` and ``mutual_information``,
    in nats.

    >>> import jax.numpy as jnp
    >>> from fpovi.likelihoods import categorical
    >>> sure = Predictive(categorical(), jnp.log(jnp.asarray([[[0.75, 0.25]]])), (), jnp.zeros(()), jnp.ones(()))
    >>> prediction_columns(sure, ["bean"], classes=np.array(["arabica", "robusta"])).round(2)
      bean_predicted  p_arabica  p_robusta  entropy  mutual_information
    0        arabica       0.75       0.25     0.56                 0.0
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie strictly between 0 and 1")
    if classes is not None:
        return pd.DataFrame(_of_classes(predictive, targets[0], classes))
    lower, upper = predictive.interval(level)
    answers = {
        "mean": predictive.mean,
        "std": predictive.std,
        "epistemic_std": predictive.epistemic_std,
        "lower": lower,
        "upper": upper,
    }
    found = {name: np.asarray(values) for name, values in answers.items()}
    return pd.DataFrame(
        {f"{target}_{name}": values[:, i] for i, target in enumerate(targets) for name, values in found.items()}
    )


def _of_classes(predictive: Predictive, target: str, classes: NDArray[Any]) -> dict[str, NDArray[Any]]:
    probs = np.asarray(predictive.probs)
    return {
        f"{target}_predicted": classes[probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, i] for i, name in enumerate(classes)},
        "entropy": np.asarray(predictive.entropy),
        "mutual_information": np.asarray(predictive.mutual_information),
    }
