# SPDX-License-Identifier: Apache-2.0
"""Unlabelled inputs of the target domain as measurement points: a suggestion of the paper, put to the test."""

from fpovi.experiments.adaptation import run, view
from fpovi.experiments.harness.experiment import Experiment, label_of_split

EXPERIMENTS = {
    "adaptation": Experiment(
        cells=run.cells, run=run.run_cell, label=label_of_split(run.LABELS), view=view.view, figure=view.figure
    )
}
