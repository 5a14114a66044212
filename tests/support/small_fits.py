# SPDX-License-Identifier: Apache-2.0
"""Tables and settings for quick fits; all of one shape, two columns and up to 32 rows, so that they share a program."""

import numpy as np

SETTINGS = {"hidden_layer_sizes": (8,), "n_particles": 4, "prior": "flat", "max_epochs": 20, "random_state": 0}
WORDS = np.array(["low", "middle", "high"])


def plane(rows: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns, and a target that depends on both."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    return X, X[:, 0] - np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=rows)


def named_classes(rows: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two columns, and three classes called by words."""
    X, y = plane(rows, seed)
    return X, WORDS[np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))]


def same_fit(a, b) -> bool:
    """Whether two fitted models are equal to the last bit: particles, noise and history."""
    import jax

    trees = ((model.fitted_.state.particles, model.fitted_.state.params, model.fitted_.history) for model in (a, b))
    (leaves, treedef), (others, other_treedef) = map(jax.tree.flatten, trees)
    pairs = zip(leaves, others, strict=True)
    return treedef == other_treedef and all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)
