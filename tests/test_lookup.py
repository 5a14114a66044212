# SPDX-License-Identifier: Apache-2.0
import pytest

from fpovi._lookup import lookup
from fpovi.flows import FLOWS


def test_lookup_lists_what_is_known():
    assert lookup(FLOWS, "svgd", "flow") is FLOWS["svgd"]
    with pytest.raises(
        ValueError, match=r"flow='sgvd' is not known; choose one of ensemble, gfsf, pi_sgld, svgd, w_sgld_b"
    ):
        lookup(FLOWS, "sgvd", "flow")
