# SPDX-License-Identifier: Apache-2.0
"""Who takes part: a name, what it is to be compared as, and how to get it ready at a setting."""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from fpovi.bench import ours, peers
from fpovi.bench.bare import LAYOUTS, bare_pass
from fpovi.bench.machine import MATMUL_SIZES, matmul
from fpovi.bench.repeated import Run
from fpovi.bench.settings import Setting
from fpovi.flows import FLOWS
from fpovi.priors import PRIORS

FUNCTION_SPACE, WEIGHT_SPACE, REFERENCE = "function space", "weight space", "reference"
BARE, MATMUL, PEER = "bare pass", "matmul", "peer"


class Contestant(NamedTuple):
    """``prepare(setting)`` gives a callable that takes so many steps and returns when they are done.

    ``rival`` is, for a peer, the contestant of ours that computes the same; ``longer`` the seconds that a sample has to
    last where a call costs something by itself.
    """

    name: str
    kind: str
    prepare: Callable[[Setting], Run]
    rival: str = ""
    longer: float | None = None


def _all() -> list[Contestant]:
    return [
        Contestant("ensemble", REFERENCE, ours.plain_ensemble),
        *(
            Contestant(f"function:{flow}:{prior}", FUNCTION_SPACE, partial(ours.function_step, flow, prior))
            for flow in FLOWS
            for prior in PRIORS
        ),
        *(Contestant(f"weight:{flow}", WEIGHT_SPACE, partial(ours.weight_step, flow)) for flow in FLOWS),
        Contestant("loop:svgd:nngp", FUNCTION_SPACE, ours.through_the_loop, longer=1.0),
        *(
            Contestant(f"fits-{count}:svgd:nngp", FUNCTION_SPACE, partial(ours.fits_together, count), longer=0.3)
            for count in FITS_TOGETHER
        ),
        *(Contestant(f"bare:{layout}", BARE, partial(bare_pass, layout)) for layout in LAYOUTS),
        *(Contestant(f"matmul:{size}", MATMUL, partial(matmul, size)) for size in MATMUL_SIZES),
        Contestant("peer:blackjax", PEER, peers.blackjax_svgd, "weight:svgd"),
        Contestant("peer:numpyro", PEER, peers.numpyro_stein_vi, "weight:svgd"),
        Contestant("peer:pyro", PEER, peers.pyro_svgd, "weight:svgd"),
        Contestant("peer:torch-eager", PEER, partial(peers.torch_f_svgd, compiled=False), TORCH_RIVAL),
        Contestant("peer:torch-compile", PEER, partial(peers.torch_f_svgd, compiled=True), TORCH_RIVAL),
    ]


FITS_TOGETHER = (2, 5, 20)
TORCH_RIVAL = "function:svgd:moment_matched"
CONTESTANTS = {contestant.name: contestant for contestant in _all()}
# what every ratio is taken to, so always there
REFERENCES = ("ensemble", "bare:*", "matmul:*")
QUICK = ("function:svgd:*", "function:*:nngp", "weight:svgd", "loop:*", "peer:*")
SWEPT = ("function:svgd:nngp", "function:svgd:moment_matched", "weight:svgd")


def chosen(patterns: Sequence[str]) -> list[Contestant]:
    """Those whose names match one of ``patterns``, with ``*`` for anything, and the references."""
    for pattern in patterns:
        if not _matching(CONTESTANTS, [pattern]):
            raise ValueError(f"contestants={pattern!r} matches none of {', '.join(sorted(CONTESTANTS))}")
    return [CONTESTANTS[name] for name in _matching(CONTESTANTS, [*REFERENCES, *patterns])]


def _matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
