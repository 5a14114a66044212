# SPDX-License-Identifier: Apache-2.0
"""All experiments by name."""

from typing import Any

from fpovi.experiments import adaptation, approximation, asking, bandits, defaults, images, sine, tables, uci
from fpovi.experiments.harness.experiment import Watch
from fpovi.experiments.harness.store import Cell, Store

EXPERIMENTS = {
    **sine.EXPERIMENTS,
    **approximation.EXPERIMENTS,
    **defaults.EXPERIMENTS,
    **uci.EXPERIMENTS,
    **adaptation.EXPERIMENTS,
    **images.EXPERIMENTS,
    **bandits.EXPERIMENTS,
    **tables.EXPERIMENTS,
    **asking.EXPERIMENTS,
}


def run_cell(experiment: str, store: Store, watch: Watch, cell: Cell) -> dict[str, Any]:
    """Return the metrics of a cell of the experiment called ``experiment``; also called in other processes."""
    return EXPERIMENTS[experiment].run(cell, watch, store)
