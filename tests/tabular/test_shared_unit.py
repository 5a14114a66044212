# SPDX-License-Identifier: Apache-2.0
"""Many numbers of one range are scaled as one, and other tables column by column."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from fpovi.tabular import learn_encoder
from fpovi.tabular.shared_unit import MANY

DIGITS = load_digits().data[:200]
VARIES = np.ptp(DIGITS, axis=0) > 0


@pytest.mark.parametrize("frame", [DIGITS, pd.DataFrame(DIGITS).add_prefix("pixel ")], ids=["array", "frame"])
def test_flat_images_have_the_mean_and_variance_of_all_pixels(frame):
    encoded = learn_encoder(frame)(frame)
    # float64, in another order of summation
    np.testing.assert_allclose(encoded, ((DIGITS - DIGITS.mean()) / DIGITS.std())[:, VARIES], rtol=1e-12, atol=1e-12)


def test_a_row_of_weight_two_is_that_row_twice_to_the_last_bit():
    weight = np.where(np.arange(200) < 50, 2.0, 1.0)
    twice = np.concatenate([DIGITS[:50], DIGITS])
    np.testing.assert_array_equal(learn_encoder(DIGITS, weight)(DIGITS), learn_encoder(twice)(DIGITS))


OTHERS = {
    "few columns": DIGITS[:, VARIES][:, : MANY - 1],
    "columns of their own units": DIGITS * np.geomspace(1, 100, 64),
    "standard normal columns": np.random.default_rng(0).normal(size=(200, 64)) * np.linspace(1, 3, 64),
    "gaps": np.where(DIGITS == 16, np.nan, DIGITS),
    "a word among them": pd.DataFrame(DIGITS).assign(kind="a"),
}


@pytest.mark.parametrize("table", OTHERS.values(), ids=OTHERS)
def test_other_tables_have_columns_of_mean_zero(table):
    encoder = learn_encoder(table)
    measured = [i for i, name in enumerate(encoder.features) if "missing" not in name and "=" not in name]
    assert np.abs(encoder(table)[:, measured].mean(axis=0)).max() < 1e-9
