# SPDX-License-Identifier: Apache-2.0
from fpovi.types import DivergedError


def test_diverged_error_carries_what_a_caller_needs():
    error = DivergedError(7, {"w": 1.0}, "lower the learning rate")
    assert (error.step, error.particles) == (7, {"w": 1.0})
    assert "step 7" in str(error)
    assert "lower the learning rate" in str(error)
