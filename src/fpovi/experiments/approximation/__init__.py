# SPDX-License-Identifier: Apache-2.0
"""The error that networks and mini-batches add, against an exact posterior (the paper's appendix on approximations)."""

from fpovi.experiments.approximation import run, view
from fpovi.experiments.harness.experiment import Experiment

EXPERIMENTS = {
    "approximation": Experiment(
        cells=run.cells,
        run=run.run_cell,
        label=lambda cell: f"draw {cell.seed}: {run.LABELS[cell.method]}",
        view=view.view,
        figure=view.figure,
    )
}
