# SPDX-License-Identifier: Apache-2.0
"""The prior scales that a fit may choose from: by the evidence, or fixed."""

from typing import Any

import jax.numpy as jnp

from fpovi._progress import progress_bar
from fpovi.fitting.fit import Rows
from fpovi.fitting.parts import Spec
from fpovi.networks import fan_in_scales
from fpovi.selection import evidence, evident_noise
from fpovi.types import Architecture, Key, Scales, Support

LOGIT_WEIGHT = 10.0  # variance of the first and last layer's weights, times their number
NOISE_FLOOR = 1e-3


def class_scales(sizes: tuple[int, ...]) -> Scales:
    """Return prior scales for logits: wide enough that a network may be certain of a class."""
    scales = fan_in_scales(sizes)
    ends = jnp.arange(len(sizes) - 1) % max(len(sizes) - 2, 1) == 0
    weights = jnp.where(ends, LOGIT_WEIGHT, 2.0).astype(scales.weight_variance.dtype)
    return scales._replace(weight_variance=weights)


def candidate_scales(key: Key, prior: Any, spec: Spec, rows: Rows, verbose: bool = False) -> list[Scales]:
    """Return prior scales to choose from: by the evidence for automatic priors and real targets, else fixed ones.

    The evidence offers two where there are several features: a scale for each of them, and one for all.

    Args:
        key: chooses the rows that the evidence looks at.
        prior: the estimator's setting.
        spec: the parts.
        rows: encoded rows.
        verbose: show on a terminal how far the search is, which takes seconds.
    """
    if prior == "auto" and spec.likelihood.support is Support.CLASSES:
        return [class_scales(spec.sizes)]
    scales = fan_in_scales(spec.sizes)
    if spec.network is not None or spec.likelihood.support.atoms:
        return [scales._replace(noise=jnp.asarray(NOISE_FLOOR))]
    x, y, weight = rows
    if prior != "auto":
        noise = evident_noise(key, Architecture(spec.sizes, spec.activation, scales), x, y, weight)
        return [scales._replace(noise=jnp.asarray(noise))]
    found = []
    with progress_bar(quiet=not verbose) as bar:
        for per_feature in (True, False) if x.shape[1] > 1 else (False,):
            task = bar.add_task("evidence", total=1, note="compiling")

            def watch(done: int, total: int, log_evidence: float, task: Any = task) -> None:
                bar.update(task, completed=done, total=total, note=f"log-evidence {log_evidence:.1f}")

            options: dict[str, Any] = {"weight": weight, "per_feature": per_feature, "watch": watch}
            found.append(evidence(key, x, y, spec.sizes, spec.activation, **options))
    return found
