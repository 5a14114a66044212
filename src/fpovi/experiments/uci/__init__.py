# SPDX-License-Identifier: Apache-2.0
"""The paper's UCI regression tables, its plot of NLL over epochs, and the best we know for the same networks."""

from functools import partial

from fpovi.experiments.harness.experiment import Experiment, label_of_split
from fpovi.experiments.uci import convergence, figure, run, view
from fpovi.experiments.uci.setups import LABELS, SETUPS

EXPERIMENTS = {
    **{
        name: Experiment(
            cells=partial(run.cells, setup),
            run=run.run_cell,
            label=label_of_split(LABELS),
            view=partial(view.view, setup),
            figure=partial(figure.figure, setup),
            length=run.length,
        )
        for name, setup in SETUPS.items()
    },
    "convergence": Experiment(
        cells=convergence.cells,
        run=convergence.run_cell,
        label=label_of_split(LABELS),
        view=convergence.view,
        figure=convergence.figure,
    ),
}
