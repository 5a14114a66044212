# SPDX-License-Identifier: Apache-2.0
"""The scales of a prior: those that the evidence picks, or fixed ones."""

from typing import Any

import jax.numpy as jnp

from fpovi._progress import progress_bar
from fpovi.fitting import schedule
from fpovi.fitting.fit import Rows
from fpovi.fitting.parts import NOISE_FLOOR, Spec
from fpovi.networks import fan_in_scales
from fpovi.selection import evidence, evident_noise
from fpovi.types import Architecture, Key, Scales


def candidate_scales(key: Key, prior: Any, spec: Spec, rows: Rows, verbose: bool = False) -> list[Scales]:
    """By the evidence where ``prior`` is automatic and the targets are real numbers, else fixed.

    The evidence offers two where there are several features: a scale for each of them, and one for all.

    With ``verbose`` a terminal shows how far the search for the most evidence is, which takes seconds.
    """
    if prior == "auto" and spec.likelihood.classes:
        return [schedule.class_scales(spec.sizes)]
    scales = fan_in_scales(spec.sizes)
    if spec.network is not None or spec.likelihood.discrete:
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
