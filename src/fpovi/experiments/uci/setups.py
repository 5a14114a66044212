# SPDX-License-Identifier: Apache-2.0
"""The tables on UCI sets as data: what sets one apart from another is a record, and one program runs them all."""

from typing import NamedTuple

from fpovi.datasets.uci import UCI
from fpovi.experiments.uci import published
from fpovi.experiments.uci.published import Table
from fpovi.types import lookup

LABELS = {
    "fpovi": "fpovi",
    "f-svgd": "f-SVGD",
    "f-w-sgld-b": "f-w-SGLD-B",
    "f-pi-sgld": "f-pi-SGLD",
    "f-gfsf": "f-GFSF",
    "w-svgd": "SVGD",
    "w-svgd-kf": "SVGD, k_f",
    "w-svgd-ka": "SVGD, k_a",
    "w-w-sgld-b": "w-SGLD-B",
    "w-w-sgld-b-kf": "w-SGLD-B, k_f",
    "w-w-sgld-b-ka": "w-SGLD-B, k_a",
    "w-pi-sgld": "pi-SGLD",
    "w-gfsf": "GFSF",
    "ensemble": "deep ensemble",
    "mc-dropout": "MC dropout",
    "bbb": "Bayes by backprop",
    "sghmc": "SGHMC",
    "gp": "Gaussian process",
    "nuts": "NUTS",
}
# methods that the paper cites and we do not run
CITED = {
    "mcbn": "MCBN, cited",
    "mnf": "MNF, cited",
    "vip": "VIP-BNN, cited",
    "mfvi": "MFVI, cited",
    "alpha-dropout": "α-dropout, cited",
}
FLOWS = ("f-svgd", "f-w-sgld-b", "f-pi-sgld", "f-gfsf", "w-svgd", "w-w-sgld-b", "w-pi-sgld", "w-gfsf", "ensemble")
OTHERS = ("mc-dropout", "bbb", "sghmc", "gp")
ON_FEW_ROWS = {"nuts": ("boston", "concrete", "energy", "yacht")}  # methods too slow for more than 1,100 rows
ON_FUNCTIONS = ("w-svgd-kf", "w-svgd-ka", "w-w-sgld-b-kf", "w-w-sgld-b-ka")  # kernels that look at what networks say
SMALL = ("boston", "concrete", "energy", "wine-red", "yacht")
WHOLE = "paper"  # the preset whose rows may be compared with what is published


class Preset(NamedTuple):
    """What is run: sets and methods, how many splits (of protein and of others), and how long.

    ``epochs`` are those of sets with few rows and of all others, ``gp_rows`` the most that the Gaussian process sees.
    ``beside`` are methods whose rows are those of the preset ``paper``: they run there, for both.
    """

    datasets: tuple[str, ...]
    splits: int
    splits_of_protein: int
    epochs: tuple[int, int]
    methods: tuple[str, ...]
    beside: tuple[str, ...] = ()
    gp_rows: int = 2000

    def owner(self, method: str, name: str) -> str:
        """Whose row the cell of a method is: that of this preset, called ``name``, or of ``paper``."""
        return WHOLE if self.beside and method not in self.methods else name


class Setup(NamedTuple):
    """One table: the networks, what chooses the last epoch, the methods, and what the paper prints.

    ``rows_in`` names the setup to which its cells belong: another's, if the table only shows them in another way.
    With ``held_out`` rows are kept from training, and the epoch is that of the look at which they are most probable.
    ``methods`` may be asked for, beyond those of a preset.
    """

    title: str
    rows_in: str
    hidden: tuple[int, ...]
    hidden_of_protein: tuple[int, ...]
    presets: dict[str, Preset]
    methods: tuple[str, ...]
    published: Table
    sources: str
    held_out: bool = False

    def preset(self, name: str) -> Preset:
        """By name, or a ``ValueError`` that lists those there are."""
        return lookup(self.presets, name, "preset")


_MAIN = {
    "quick": Preset(SMALL, 2, 2, epochs=(200, 800), methods=(*FLOWS, *OTHERS), gp_rows=500),
    "paper": Preset(tuple(UCI), 20, 5, epochs=(500, 3000), methods=(*FLOWS, *OTHERS, *ON_FEW_ROWS)),
    "best": Preset(tuple(UCI), 20, 5, epochs=(500, 3000), methods=("fpovi",), beside=("f-svgd",)),
}
_OF_KERNELS = ("f-svgd", "w-svgd", "w-w-sgld-b", *ON_FUNCTIONS)
_IN_DEEP = ("boston", "concrete", "kin8nm", "power", "protein", "wine-red", "yacht")
_NARROW_SETS, _NARROW_METHODS = ("boston", "kin8nm", "power", "protein"), ("f-svgd", "w-svgd")
_VIP = {
    "quick": Preset(SMALL, 2, 2, epochs=(200, 800), methods=("f-svgd",)),
    "paper": Preset(tuple(UCI), 10, 5, epochs=(500, 3000), methods=("f-svgd",)),
}

SETUPS = {
    "uci": Setup(
        title="UCI regression: one hidden layer, 20 networks",
        rows_in="uci",
        hidden=(50,),
        hidden_of_protein=(100,),
        presets=_MAIN,
        methods=("fpovi", *FLOWS, *OTHERS, *ON_FEW_ROWS, *ON_FUNCTIONS),
        published=published.FLOWS,
        sources="SVGD largely cited from elsewhere",
    ),
    "kernels": Setup(
        title="Kernels in weight space that look at functions (k_f) or activations (k_a)",
        rows_in="uci",
        hidden=(50,),
        hidden_of_protein=(100,),
        presets={
            "quick": _MAIN["quick"]._replace(datasets=("boston", "yacht"), methods=_OF_KERNELS),
            "paper": _MAIN["paper"]._replace(datasets=("boston", "yacht", "concrete"), methods=_OF_KERNELS),
        },
        methods=("f-w-sgld-b", *_OF_KERNELS),
        published=published.KERNELS,
        sources="SVGD largely cited from elsewhere; no RMSE is printed",
    ),
    "uci-deep": Setup(
        title="UCI regression: two hidden layers, the best epoch by held-out rows",
        rows_in="uci-deep",
        hidden=(50, 50),
        hidden_of_protein=(100, 100),
        presets={
            "quick": Preset(("boston", "concrete", "yacht"), 2, 2, epochs=(200, 200), methods=("f-svgd", "ensemble")),
            "paper": Preset(_IN_DEEP, 20, 5, epochs=(1000, 1000), methods=("f-svgd", "w-svgd", "ensemble")),
        },
        methods=FLOWS,
        published=published.DEEP,
        sources="MCBN and MNF cited there from Azizpour et al. (2018)",
        held_out=True,
    ),
    "uci-vip": Setup(
        title="UCI regression: two hidden layers of 10",
        rows_in="uci-vip",
        hidden=(10, 10),
        hidden_of_protein=(10, 10),
        presets=_VIP,
        methods=("fpovi", *FLOWS, *OTHERS),
        published=published.VIP,
        sources="VIP-BNN cited there from Ma et al. (2018), who learn the scales of their prior too",
    ),
    "uci-narrow": Setup(
        title="UCI regression: two hidden layers of 10, where weight space does well",
        rows_in="uci-vip",
        hidden=(10, 10),
        hidden_of_protein=(10, 10),
        presets={
            "quick": _VIP["quick"]._replace(datasets=("boston",), methods=_NARROW_METHODS),
            "paper": _VIP["paper"]._replace(datasets=_NARROW_SETS, methods=_NARROW_METHODS),
        },
        methods=("fpovi", *FLOWS, *OTHERS),
        published=published.NARROW,
        sources="MFVI and α-dropout cited there from Ma et al. (2018)",
    ),
}
