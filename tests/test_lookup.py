# SPDX-License-Identifier: Apache-2.0
import pytest

from fpovi._lookup import lookup
from fpovi.flows import FLOWS
from fpovi.types import DivergedError


def test_lookup_lists_what_is_known():
    assert lookup(FLOWS, "svgd", "flow") is FLOWS["svgd"]
    with pytest.raises(
        ValueError, match=r"flow='sgvd' is not known; choose one of ensemble, gfsf, pi_sgld, svgd, w_sgld_b"
    ):
        lookup(FLOWS, "sgvd", "flow")


def test_diverged_error_carries_what_a_caller_needs():
    error = DivergedError(7, {"w": 1.0}, "lower the learning rate")
    assert (error.step, error.particles) == (7, {"w": 1.0})
    assert "step 7" in str(error)
    assert "lower the learning rate" in str(error)
