# SPDX-License-Identifier: Apache-2.0
"""How a run went, from the history it returns."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from fpovi.plots.style import FUNCTION_SPACE, INK, MUTED, WEIGHT_SPACE
from fpovi.types import Info

# a panel each: what belongs on one axis
PANELS = (
    ("log_likelihood",),
    ("likelihood_norm", "prior_norm", "repulsion_norm"),
    ("similarity",),
    ("noise",),
)
COLOURS = (FUNCTION_SPACE, WEIGHT_SPACE, INK, MUTED)
MOST_POINTS = 200


def training_history(axes: Axes, history: Info, fields: Sequence[str] = PANELS[0]) -> None:
    """Fields of :class:`~fpovi.types.Info` over the steps of a run; several together on a logarithmic axis.

    Long runs are thinned to running medians with the range between the 5 % and 95 % quantiles behind them.
    """
    unknown = [name for name in fields if name not in Info._fields]
    if unknown or not 1 <= len(fields) <= len(COLOURS):
        raise ValueError(f"fields={tuple(fields)} must be one to four of {', '.join(Info._fields)}")
    for name, colour in zip(fields, COLOURS, strict=False):
        values = np.asarray(getattr(history, name), float)
        if values.ndim != 1 or values.size == 0:
            raise ValueError(f"history.{name} has shape {values.shape}, but one value per step is needed")
        chunks = np.array_split(values, min(values.size, MOST_POINTS))
        ends = np.cumsum([chunk.size for chunk in chunks])
        low, middle, high = np.transpose([np.quantile(chunk, (0.05, 0.5, 0.95)) for chunk in chunks])
        axes.fill_between(ends, low, high, color=colour, alpha=0.22, linewidth=0)
        axes.plot(ends, middle, color=colour, linewidth=1.5, label=name.replace("_", " "))
    if len(fields) > 1:
        axes.set_yscale("log")
        axes.legend(fontsize=9)
    else:
        axes.set_ylabel(fields[0].replace("_", " "))
    axes.set(xlabel="step")
