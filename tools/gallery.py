# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of the documentation that need fits: ``python tools/gallery.py [FOLDER]``."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fpovi.datasets.sine import sine
from fpovi.estimators import BNNRegressor
from fpovi.likelihoods import gaussian
from fpovi.measurement import kde
from fpovi.plots import FUNCTION_SPACE, MUTED, STYLE, fan, observations, save

SEED, GRID = 3, np.linspace(-1, 2, 300)
SHARED: dict[str, Any] = {"prior": "width_aware", "likelihood": gaussian(0.2)}  # all but the measurement set
MEASUREMENT_SETS: dict[str, Any] = {
    'no extra points\nmeasurement="train_only"': {**SHARED, "measurement": "train_only"},
    "close to the data\nmeasurement=kde(20, 0.1)": {**SHARED, "measurement": kde(20, 0.1)},
    'between the data\nmeasurement="mixup"': {**SHARED, "measurement": "mixup"},
    'near and far\nmeasurement="auto"': {**SHARED, "measurement": "auto"},
}
PRIORS: dict[str, Any] = {
    'unit scales\nprior="nngp"': {"prior": "nngp"},
    'scales by the evidence\nprior="auto"': {"prior": "auto"},
}


def wiggly(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of a fast wave with little noise; a prior with unit scales expects slower functions."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-0.5, 1.5, 60))
    return x, np.sin(14 * x) + 0.05 * rng.normal(size=60)


def panels(data: tuple[NDArray[np.float64], NDArray[np.float64]], variants: dict[str, Any]) -> Figure:
    """Draw the posterior of each variant beside the others."""
    x, y = data
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(3.4 * len(variants), 3.3), layout="constrained")
        axes = drawing.subplots(1, len(variants), sharey=True, squeeze=False)[0]
        for panel, (title, settings) in zip(axes, variants.items(), strict=True):
            model = BNNRegressor(hidden_layer_sizes=(50, 50), random_state=0, **settings).fit(x[:, None], y)
            answer = model.predict_dist(GRID[:, None])
            curves = np.asarray(answer.particle_means)[:8, :, 0]
            band = [np.asarray(answer.mean - 2 * answer.epistemic_std)[:, 0]]
            band.append(np.asarray(answer.mean + 2 * answer.epistemic_std)[:, 0])
            panel.axvspan(x.min(), x.max(), color=MUTED, alpha=0.1, linewidth=0)
            fan(panel, GRID, np.asarray(answer.mean)[:, 0], band, list(curves), FUNCTION_SPACE)
            observations(panel, x, y)
            panel.set_title(title, fontsize=10)
            panel.set(xlim=(GRID[0], GRID[-1]), ylim=(y.min() - 2.5, y.max() + 2.5), xlabel="x")
        axes[0].set_ylabel("y")
    return drawing


def main(folder: Path) -> None:
    """Draw and save all pictures."""
    save(panels(sine(SEED), MEASUREMENT_SETS), folder / "measurement-sets")
    save(panels(wiggly(0), PRIORS), folder / "priors")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/figures"))
