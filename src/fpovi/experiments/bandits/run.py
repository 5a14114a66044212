# SPDX-License-Identifier: Apache-2.0
"""``bandit``: what agents lose while they learn, in per cent of what uniform choice loses.

The optimum is that of the paper's released code, the expected reward of the best arm on mushrooms and tables and the
realised one on the wheel; pseudo-regret, the definition in the paper's text, stands beside. The paper's text has 50,000
rounds and its script 40,000, so both are shown. What uniform choice loses is its expectation on the same rewards.

With ``--splits N`` only the first N seeds are run, those that all problems have first.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from fpovi._lookup import lookup
from fpovi.bandits import Agent, Played, Stream, draw, play, regrets, relative_regret, uniform_regrets
from fpovi.experiments.bandits.figure import figure
from fpovi.experiments.bandits.methods import LABELS, METHODS, make_method
from fpovi.experiments.bandits.problems import PAPER, PROBLEMS
from fpovi.experiments.bandits.view import view
from fpovi.experiments.harness.experiment import Experiment, Options, Watch, grid, silent
from fpovi.experiments.harness.store import Cell, Store

TOGETHER = 50  # rounds between two lessons; agents do not change between them
SCRIPT = 40_000  # rounds of the paper's script
LAST = 500  # rounds of the simple regret
POINTS = 100  # of a curve
BINS = 10  # of propensities
PHASES, GRID = 4, 24  # of the picture of a wheel


class Preset(NamedTuple):
    """How many seeds and rounds a problem has, and which agents play.

    ``first`` are the problems with so many seeds and rounds, ``others`` those with fewer.
    """

    first: tuple[str, ...]
    seeds: int
    rounds: int
    methods: tuple[str, ...]
    others: tuple[str, ...] = ()
    few_seeds: int = 0
    few_rounds: int = 0


OTHERS = tuple(name for name in PROBLEMS if name not in PAPER)
PAPER_METHODS = ("f-svgd", "w-svgd", "bbb", "gp", "bootstrap")
PRESETS = {
    "quick": Preset(("mushroom", "wheel-0.5"), 1, 2_000, ("f-svgd", "w-svgd", "bbb", "bootstrap")),
    "paper": Preset(PAPER, 10, 50_000, PAPER_METHODS, OTHERS, 3, 10_000),
    "best": Preset(
        PAPER, 10, 50_000, ("f-svgd-best", "neural-linear", "linear", "mc-dropout", "greedy"), OTHERS, 3, 10_000
    ),
}  # fmt: skip


def rounds_of(cell: Cell) -> int:
    """Return how many rounds a cell has."""
    preset = lookup(PRESETS, cell.preset, "preset")
    return preset.rounds if cell.dataset in preset.first else preset.few_rounds or preset.rounds


def cells(options: Options) -> list[Cell]:
    """Return the cells of a preset, seed by seed, the paper's problems first."""
    preset = lookup(PRESETS, options.preset, "preset")
    found = grid(
        "bandit", options._replace(splits=None), datasets=(*preset.first, *preset.others), splits=lambda dataset: 1,
        methods=preset.methods, known_datasets=PROBLEMS, known_methods=METHODS,
    )  # fmt: skip
    if options.seed is not None:
        return found
    of = lambda cell: preset.few_seeds if cell.dataset in preset.others else preset.seeds  # noqa: E731
    count = options.splits or preset.seeds
    return [replace(cell, seed=seed) for seed in range(count) for cell in found if seed < of(cell)]


def run_cell(cell: Cell, watch: Watch = silent, store: Store | None = None) -> dict[str, Any]:
    """Return regrets, a curve of them, how propensities and choices agree, and for a wheel where it explored."""
    problem = lookup(PROBLEMS, cell.dataset, "dataset")
    environment = problem.make()
    stream = draw(environment, rounds_of(cell), cell.seed)
    method = make_method(cell.method, cell.preset == "quick")
    agent = Agent(stream.arms, problem.contexts(environment), method, seed=cell.seed)
    checkpoint = None if store is None else store.checkpoint(cell)
    played = play(agent, stream, together=TOGETHER, checkpoint=checkpoint, watch=watch)
    found = scores(stream, played, problem.measure)
    return found | ({"wheel": where_explored(stream, played)} if cell.dataset.startswith("wheel") else {})


def scores(stream: Stream, played: Played, measure: str) -> dict[str, Any]:
    """Return the metrics of a run, in JSON types.

    Args:
        stream, played: the rounds, and what the agent did in them.
        measure: what regret is counted against, a key of :func:`fpovi.bandits.regrets`.
    """
    lost, of_uniform = regrets(stream, played.columns), uniform_regrets(stream)
    rounds = np.unique(np.linspace(len(stream) / POINTS, len(stream), POINTS).astype(int))
    curve = [relative_regret(lost[measure], of_uniform[measure], int(end)) for end in rounds]
    found: dict[str, Any] = {
        "regret": curve[-1],
        "pseudo_regret": relative_regret(lost["pseudo"], of_uniform["pseudo"]),
        "simple_regret": relative_regret(lost[measure], of_uniform[measure], last=LAST),
        "reward": float(played.rewards.sum()),
        "rounds": len(stream),
        "curve": {"rounds": rounds.tolist(), "regret": curve},
        "propensities": calibration(played),
    }
    if len(stream) > SCRIPT:
        found["regret_of_script"] = relative_regret(lost[measure], of_uniform[measure], SCRIPT)
    return found


def calibration(played: Played) -> dict[str, list[float]]:
    """Return, by size of probabilities, how many there were, their mean, and how often their arms were chosen."""
    chosen = np.zeros_like(played.probabilities)
    chosen[np.arange(len(chosen)), played.columns] = 1
    place = np.minimum((played.probabilities * BINS).astype(int), BINS - 1).ravel()
    count, stated, taken = (
        np.bincount(place, weights, BINS) for weights in (None, played.probabilities.ravel(), chosen.ravel())
    )
    some = np.maximum(count, 1)
    return {"count": count.tolist(), "stated": (stated / some).tolist(), "chosen": (taken / some).tolist()}


def where_explored(stream: Stream, played: Played) -> dict[str, Any]:
    """Return, for each part of a run and each cell of a grid, in how many rounds an arm but the last was chosen."""
    edges = np.linspace(-1, 1, GRID + 1)
    parts = np.array_split(np.arange(len(stream)), PHASES)
    explored = played.columns != len(stream.arms) - 1

    def count(rows: Int[np.ndarray, " R"]) -> list[list[int]]:
        x, y = stream.contexts[rows].T
        return np.histogram2d(x, y, bins=(edges, edges))[0].astype(int).tolist()

    return {"all": [count(rows) for rows in parts], "explored": [count(rows[explored[rows]]) for rows in parts]}


def _label(cell: Cell) -> str:
    return f"{cell.dataset}, seed {cell.seed}: {LABELS[cell.method]}"


COST = {"f-svgd": 6.0, "f-svgd-best": 6.0, "w-svgd": 6.0, "gp": 4.0, "bootstrap": 5.0}  # relative to other agents

EXPERIMENTS = {
    "bandit": Experiment(
        cells=cells,
        run=run_cell,
        label=_label,
        view=view,
        figure=figure,
        length=lambda cell: rounds_of(cell) * COST.get(cell.method, 1.0),
    )
}
