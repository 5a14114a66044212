# SPDX-License-Identifier: Apache-2.0
"""The UCI mushrooms: 22 attributes in letters, and whether one may eat them (Schlimmer 1981)."""

from pathlib import Path

import pandas as pd

from fpovi.datasets.folder import data_file

ATTRIBUTES = (
    "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing", "gill-size",
    "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring", "stalk-surface-below-ring",
    "stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
    "spore-print-color", "population", "habitat",
)  # fmt: skip


def load_mushroom(folder: Path | str | None = None) -> tuple[pd.DataFrame, pd.Series]:
    """Return the attributes of 8,124 mushrooms in letters, and whether each is poisonous.

    Args:
        folder: the data folder, which holds ``mushroom/agaricus-lepiota.data``; by default what FPOVI_DATA names.
    """
    path = data_file("mushroom/agaricus-lepiota.data", folder)
    frame = pd.read_csv(path, header=None, names=["class", *ATTRIBUTES], dtype=str, keep_default_na=False)
    return frame[list(ATTRIBUTES)], (frame["class"] == "p").rename("poisonous")
