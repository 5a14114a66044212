# SPDX-License-Identifier: Apache-2.0
"""A table of few rows, and settings of few steps."""

import numpy as np

from fpovi.datasets.uci import Split
from fpovi.experiments.uci.paper_learners import TrainingLength

SHORT_RUN = TrainingLength(steps=12, batch_size=10, report_every=6)


def a_split(seed=0, rows=40):
    rng = np.random.default_rng(seed)
    x = 5 + 2 * rng.normal(size=(rows, 3))
    y = 100 + 10 * (x[:, 0] + 0.1 * rng.normal(size=rows))
    return Split(x[:-10], y[:-10], x[-10:], y[-10:])
