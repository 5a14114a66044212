# SPDX-License-Identifier: Apache-2.0
"""Turn predictions into columns of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array
from numpy.typing import NDArray

from fpovi.predictive import Predictive
from fpovi.tabular.blocks import BLOCK
from fpovi.types import Support

CLASSES = ("probs", "entropy", "mutual_information")
NUMBERS = ("mean", "std", "epistemic_std", "lower", "upper")


def prediction_columns(
    predictive: Predictive, targets: Sequence[str], level: float = 0.95, classes: NDArray[Any] | None = None
) -> pd.DataFrame:
    """Return the predictions of all rows as a table with columns called after the targets.

    Args:
        predictive: the predictive distribution of N rows.
        targets: what each target T is called.
        level: the probability inside the central interval.
        classes: the names of the classes, for classification.

    Returns:
        For numbers ``T_mean``, ``T_std``, ``T_epistemic_std``, ``T_lower`` and ``T_upper``. For classes
        ``T_predicted``, the most probable one, ``p_C`` for every class C, ``entropy`` and ``mutual_information`` in
        nats.

    >>> import jax.numpy as jnp
    >>> from fpovi.likelihoods import categorical
    >>> sure = Predictive(categorical(), jnp.log(jnp.asarray([[[0.75, 0.25]]])), (), jnp.zeros(()), jnp.ones(()))
    >>> prediction_columns(sure, ["bean"], classes=np.array(["arabica", "robusta"])).round(2)
      bean_predicted  p_arabica  p_robusta  entropy  mutual_information
    0        arabica       0.75       0.25     0.56                 0.0
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie strictly between 0 and 1")
    found = [_block_columns(part, level, count) for part, count in predictive_blocks(predictive)]
    answers = {name: np.concatenate([block[name] for block in found]) for name in found[0]}
    if classes is not None:
        return pd.DataFrame(_class_columns(answers, targets[0], classes))
    return pd.DataFrame(
        {f"{target}_{name}": values[:, i] for i, target in enumerate(targets) for name, values in answers.items()}
    )


def predictive_blocks(predictive: Predictive) -> Iterator[tuple[Predictive, int]]:
    """Yield ``BLOCK`` rows at a time, the last row repeated to fill the last block, and how many are no padding.

    Programs for tables of another length round differently. In blocks of one size, a row's prediction does not depend
    on the other rows.
    """
    f = np.asarray(predictive.f)
    for first in range(0, f.shape[1], BLOCK):
        some = f[:, first : first + BLOCK]
        count = some.shape[1]
        full = np.pad(some, ((0, 0), (0, BLOCK - count), (0, 0)), mode="edge")
        yield replace(predictive, f=jnp.asarray(full)), count


def _block_columns(predictive: Predictive, level: float, count: int) -> dict[str, NDArray[Any]]:
    answers = _compiled(predictive)
    if predictive.likelihood.support is not Support.CLASSES:
        answers["lower"], answers["upper"] = predictive.interval(level)
    return {name: np.asarray(answers[name])[:count] for name in CLASSES + NUMBERS if name in answers}


@jax.jit
def _compiled(predictive: Predictive) -> dict[str, Array]:
    names = CLASSES if predictive.likelihood.support is Support.CLASSES else NUMBERS[:3]
    return {name: getattr(predictive, name) for name in names}


def _class_columns(answers: dict[str, NDArray[Any]], target: str, classes: NDArray[Any]) -> dict[str, NDArray[Any]]:
    probs = answers["probs"]
    return {
        f"{target}_predicted": classes[probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, i] for i, name in enumerate(classes)},
        "entropy": answers["entropy"],
        "mutual_information": answers["mutual_information"],
    }
