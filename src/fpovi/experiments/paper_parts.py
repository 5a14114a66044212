# SPDX-License-Identifier: Apache-2.0
"""The flows and kernels of Wang et al. (2019) with every setting named: no default of the library decides a result."""

from functools import partial

from fpovi.flows import ensemble, gfsf, pi_sgld, svgd, w_sgld_b
from fpovi.kernels import RepresentationKernel, StationaryKernel, activation, function_value, median_lengthscale, rbf
from fpovi.types import Flow

PAPER_FLOWS: dict[str, Flow] = {
    "svgd": svgd,
    "w_sgld_b": w_sgld_b,
    "pi_sgld": pi_sgld,
    "gfsf": partial(gfsf, ridge=0.0),
    "ensemble": ensemble,
}


def median_rbf(factor: float = 1.0) -> StationaryKernel:
    """Return the RBF kernel whose lengthscale is ``factor`` times the median heuristic's; 1 is the paper's."""
    return rbf(partial(median_lengthscale, factor=factor, floor=1e-5))


PAPER_KERNELS: dict[str, StationaryKernel | RepresentationKernel] = {
    "rbf": median_rbf(),
    "function_value": function_value(median_rbf()),
    "activation": activation(median_rbf()),
}
