# SPDX-License-Identifier: Apache-2.0
"""The specification of every table on UCI sets: its networks, methods, sets and presets as a record."""

from typing import NamedTuple

from fpovi._lookup import lookup
from fpovi.datasets.uci import UCI
from fpovi.experiments.uci import published
from fpovi.experiments.uci.published import Table

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
FLOW_METHODS = (*(f"{space}-{flow}" for space in "fw" for flow in ("svgd", "w-sgld-b", "pi-sgld", "gfsf")), "ensemble")
BASELINE_METHODS = ("mc-dropout", "bbb", "sghmc", "gp")
SMALL_SETS_ONLY = {"nuts": ("boston", "concrete", "energy", "yacht")}  # methods too slow for more than 1,100 rows
KERNEL_METHODS = ("w-svgd-kf", "w-svgd-ka", "w-w-sgld-b-kf", "w-w-sgld-b-ka")  # weight space, kernels of outputs
SMALL = ("boston", "concrete", "energy", "wine-red", "yacht")
PAPER_PRESET = "paper"  # the preset whose rows may be compared with what is published


class Preset(NamedTuple):
    """The sets and methods to run, how many splits (of protein and of others), and for how long.

    ``epochs`` are those of sets with few rows and of all others, ``gp_rows`` the most that the Gaussian process sees.
    The methods in ``from_paper_preset`` share their rows with the preset ``paper``, which has the same settings.
    """

    datasets: tuple[str, ...]
    splits: int
    protein_splits: int
    epochs: tuple[int, int]
    methods: tuple[str, ...]
    from_paper_preset: tuple[str, ...] = ()
    gp_rows: int = 2000

    def row_preset(self, method: str, name: str) -> str:
        """Return the preset in the rows of a method: this one, called ``name``, or ``paper``."""
        return PAPER_PRESET if self.from_paper_preset and method not in self.methods else name


class Setup(NamedTuple):
    """One table: the networks, what chooses the last epoch, the methods, and what the paper prints.

    ``rows_in`` names the setup to which its cells belong: another's, if the table only shows them in another way.
    With ``held_out`` rows are kept from training, and the epoch is that of the report in which they are most probable.
    ``methods`` may be chosen by a user, beyond those of a preset.
    """

    title: str
    rows_in: str
    hidden: tuple[int, ...]
    protein_hidden: tuple[int, ...]
    presets: dict[str, Preset]
    methods: tuple[str, ...]
    published: Table
    sources: str
    held_out: bool = False

    def preset(self, name: str) -> Preset:
        """Return a preset by name, or raise a ``ValueError`` that lists the known ones."""
        return lookup(self.presets, name, "preset")


_MAIN = {
    "quick": Preset(SMALL, 2, 2, epochs=(200, 800), methods=(*FLOW_METHODS, *BASELINE_METHODS), gp_rows=500),
    "paper": Preset(
        tuple(UCI), 20, 5, epochs=(500, 3000), methods=(*FLOW_METHODS, *BASELINE_METHODS, *SMALL_SETS_ONLY)
    ),
    "best": Preset(tuple(UCI), 20, 5, epochs=(500, 3000), methods=("fpovi",), from_paper_preset=("f-svgd",)),
}
_KERNEL_TABLE = ("f-svgd", "w-svgd", "w-w-sgld-b", *KERNEL_METHODS)
_DEEP_SETS = ("boston", "concrete", "kin8nm", "power", "protein", "wine-red", "yacht")
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
        protein_hidden=(100,),
        presets=_MAIN,
        methods=("fpovi", *FLOW_METHODS, *BASELINE_METHODS, *SMALL_SETS_ONLY, *KERNEL_METHODS),
        published=published.FLOW_TABLE,
        sources="SVGD largely cited from elsewhere",
    ),
    "kernels": Setup(
        title="Kernels in weight space that compare functions (k_f) or activations (k_a)",
        rows_in="uci",
        hidden=(50,),
        protein_hidden=(100,),
        presets={
            "quick": _MAIN["quick"]._replace(datasets=("boston", "yacht"), methods=_KERNEL_TABLE),
            "paper": _MAIN["paper"]._replace(datasets=("boston", "yacht", "concrete"), methods=_KERNEL_TABLE),
        },
        methods=("f-w-sgld-b", *_KERNEL_TABLE),
        published=published.KERNEL_TABLE,
        sources="SVGD largely cited from elsewhere; no RMSE is printed",
    ),
    "uci-deep": Setup(
        title="UCI regression: two hidden layers, the best epoch by held-out rows",
        rows_in="uci-deep",
        hidden=(50, 50),
        protein_hidden=(100, 100),
        presets={
            "quick": Preset(("boston", "concrete", "yacht"), 2, 2, epochs=(200, 200), methods=("f-svgd", "ensemble")),
            "paper": Preset(_DEEP_SETS, 20, 5, epochs=(1000, 1000), methods=("f-svgd", "w-svgd", "ensemble")),
        },
        methods=FLOW_METHODS,
        published=published.DEEP_TABLE,
        sources="MCBN and MNF cited there from Azizpour et al. (2018)",
        held_out=True,
    ),
    "uci-vip": Setup(
        title="UCI regression: two hidden layers of 10",
        rows_in="uci-vip",
        hidden=(10, 10),
        protein_hidden=(10, 10),
        presets=_VIP,
        methods=("fpovi", *FLOW_METHODS, *BASELINE_METHODS),
        published=published.VIP_TABLE,
        sources="VIP-BNN cited there from Ma et al. (2018), who learn the scales of their prior too",
    ),
    "uci-narrow": Setup(
        title="UCI regression: two hidden layers of 10, where weight space does well",
        rows_in="uci-vip",
        hidden=(10, 10),
        protein_hidden=(10, 10),
        presets={
            "quick": _VIP["quick"]._replace(datasets=("boston",), methods=_NARROW_METHODS),
            "paper": _VIP["paper"]._replace(datasets=_NARROW_SETS, methods=_NARROW_METHODS),
        },
        methods=("fpovi", *FLOW_METHODS, *BASELINE_METHODS),
        published=published.NARROW_TABLE,
        sources="MFVI and α-dropout cited there from Ma et al. (2018)",
    ),
}
