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


def test_numbers_of_another_unit_are_refused():
    encoder = learn_encoder(DIGITS / 16)
    for strange in (DIGITS * 16, np.full((1, 64), 255.0)):
        with pytest.raises(ValueError, match="pixels of 0…255"):
            encoder(strange)
        with pytest.raises(ValueError, match="pixels of 0…255"):
            type(encoder).from_json(encoder.to_json())(strange)
    encoder(DIGITS[:1] / 1000)  # small fractions may be just that
    with pytest.raises(ValueError, match="pixels of 0…255"):
        learn_encoder(DIGITS * 15)(DIGITS / 16)  # but not where numbers were whole
    learn_encoder(DIGITS * 15)(np.zeros((1, 64)))
    learn_encoder(DIGITS * np.geomspace(1, 100, 64))(DIGITS * 1e6)  # columns of their own units


def test_constant_columns_may_be_kept():
    encoded = learn_encoder(DIGITS, every_column=True)(DIGITS)
    # float64, in another order of summation
    np.testing.assert_allclose(encoded, (DIGITS - DIGITS.mean()) / DIGITS.std(), rtol=1e-12, atol=1e-12)
    few = learn_encoder([[1.0, 5.0], [2.0, 5.0]], every_column=True)
    np.testing.assert_allclose(few([[1.5, 5.0], [1.5, 6.0]]), [[0, 0], [0, 1]])
