# SPDX-License-Identifier: Apache-2.0
"""The contestants of the bench: every flow and prior of the library, references and peers, and rows of their times."""

import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from fpovi.bench.contestants import ours, peers
from fpovi.bench.contestants.bare import LAYOUTS, bare_pass
from fpovi.bench.machine import MATMUL_SIZES, matmul, matmul_flops
from fpovi.bench.settings import Setting
from fpovi.bench.timing import SAMPLE_SECONDS, Run, UnavailableError, time_in_turns
from fpovi.experiments.harness.store import Cell, Row, versions
from fpovi.flows import FLOWS
from fpovi.priors import PRIORS

FUNCTION_SPACE, WEIGHT_SPACE, REFERENCE = "function space", "weight space", "reference"
BARE, MATMUL, PEER = "bare pass", "matmul", "peer"
FITS_TOGETHER = (2, 5, 20)
TORCH_RIVAL = "function:svgd:moment_matched"
# every ratio is taken to these, so they always take part
REFERENCES = ("ensemble", "bare:*", "matmul:*")
QUICK = ("function:svgd:*", "function:*:nngp", "weight:svgd", "loop:*", "peer:*")
SWEPT = ("function:svgd:nngp", "function:svgd:moment_matched", "weight:svgd")


class Contestant(NamedTuple):
    """A step to be timed.

    Args:
        name: what rows, tables and the command line call it.
        kind: what it is compared as, such as ``"function space"``.
        prepare: ``prepare(setting)`` returns ``run(steps)``, or raises an :class:`UnavailableError`.
        rival: for a peer, the contestant of ours that computes the same.
        longer: seconds that a sample has to last, where a call costs something by itself.
    """

    name: str
    kind: str
    prepare: Callable[[Setting], Run]
    rival: str = ""
    longer: float | None = None


def list_contestants() -> list[Contestant]:
    """Return all contestants: one for each flow with each prior that the bench can make, and those to compare with."""
    return [
        Contestant("ensemble", REFERENCE, ours.plain_ensemble),
        *(
            Contestant(f"function:{flow}:{prior}", FUNCTION_SPACE, partial(ours.function_step, flow, prior))
            for flow in FLOWS
            for prior in PRIORS
            if ours.can_make(prior)
        ),
        *(Contestant(f"weight:{flow}", WEIGHT_SPACE, partial(ours.weight_step, flow)) for flow in FLOWS),
        Contestant("loop:svgd:nngp", FUNCTION_SPACE, ours.run_loop, longer=1.0),
        *(
            Contestant(f"fits-{count}:svgd:nngp", FUNCTION_SPACE, partial(ours.vectorised_fits, count), longer=0.3)
            for count in FITS_TOGETHER
        ),
        *(Contestant(f"bare:{layout}", BARE, partial(bare_pass, layout)) for layout in LAYOUTS),
        *(Contestant(f"matmul:{size}", MATMUL, partial(matmul, size)) for size in MATMUL_SIZES),
        Contestant("peer:blackjax", PEER, peers.blackjax_svgd, "weight:svgd"),
        Contestant("peer:numpyro", PEER, peers.numpyro_stein_vi, "weight:svgd"),
        Contestant("peer:pyro", PEER, peers.pyro_svgd, "weight:svgd"),
        Contestant("peer:torch-eager", PEER, partial(peers.torch_f_svgd, compiled=False), TORCH_RIVAL),
        Contestant("peer:torch-compile", PEER, partial(peers.torch_f_svgd, compiled=True), TORCH_RIVAL),
        Contestant("peer:torch-vmap", PEER, peers.torch_vmap, TORCH_RIVAL),
    ]


CONTESTANTS = {contestant.name: contestant for contestant in list_contestants()}
LEFT_OUT = {
    prior: f"function:*:{prior} is left out: the prior needs arguments that the bench cannot choose"
    for prior in PRIORS
    if not ours.can_make(prior)
}


def choose(patterns: Sequence[str]) -> list[Contestant]:
    """Return the references and the contestants whose names match one of ``patterns``.

    Args:
        patterns: names, with ``*`` for anything.

    Raises:
        ValueError: if a pattern matches no contestant.
    """
    for pattern in patterns:
        if not _matching(CONTESTANTS, [pattern]):
            if reasons := left_out([pattern]):
                raise ValueError(f"contestants={pattern!r}: {'; '.join(reasons)}")
            raise ValueError(f"contestants={pattern!r} matches none of {', '.join(sorted(CONTESTANTS))}")
    return [CONTESTANTS[name] for name in _matching(CONTESTANTS, [*REFERENCES, *patterns])]


def left_out(patterns: Sequence[str]) -> list[str]:
    """Return why priors that ``patterns`` ask for are not among the contestants, a sentence for each."""
    return [
        reason
        for prior, reason in LEFT_OUT.items()
        if any(_matching([f"function:{flow}:{prior}"], patterns) for flow in FLOWS)
    ]


def _matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def measure(
    setting: Setting,
    contestants: Sequence[Contestant],
    machine: dict[str, Any],
    rounds: int,
    preset: str = "full",
    sample_seconds: float = SAMPLE_SECONDS,
    watch: Callable[[str], None] = lambda name: None,
) -> list[Row]:
    """Time all contestants side by side at a setting, and return a row for each.

    The row of a contestant that cannot run here has the reason in place of times.

    Args:
        setting: the shapes.
        contestants: what to time.
        machine: :func:`~fpovi.bench.machine.describe_machine`, kept in every row.
        rounds, sample_seconds, watch: as in :func:`~fpovi.bench.timing.time_in_turns`.
        preset: what the rows are filed under.
    """
    started = time.perf_counter()
    runs, missing = {}, {}
    for contestant in contestants:
        try:
            runs[contestant.name] = contestant.prepare(setting)
        except UnavailableError as error:
            missing[contestant.name] = str(error)
    longer = {contestant.name: contestant.longer for contestant in contestants if contestant.longer is not None}
    timings = time_in_turns(runs, rounds, sample_seconds, longer, watch)
    seconds = round((time.perf_counter() - started) / len(contestants), 3)
    common = {"setting": setting._asdict(), "machine": machine, "run": round(time.time())}

    def row(contestant: Contestant) -> Row:
        name = contestant.name
        found: dict[str, Any] = {"kind": contestant.kind, "rival": contestant.rival}
        if name in missing:
            found["missing"] = missing[name]
        else:
            found |= timings[name].summary()
            found["flops"] = step_flops(contestant, setting)
            found["gflops"] = found["flops"] / found["median"] / 1e9
        cell = Cell("bench", name, setting.name, preset=preset)
        return Row(cell, found | common, seconds, versions())

    return [row(contestant) for contestant in contestants]


def step_flops(contestant: Contestant, setting: Setting) -> int:
    """Return the useful work of a step: the pass through the networks. What a method adds to it is its cost."""
    return matmul_flops(int(contestant.name.split(":")[1])) if contestant.kind == MATMUL else setting.pass_flops
