# SPDX-License-Identifier: Apache-2.0
"""Columns of numbers: against scikit-learn's scaler, at any scale, with any tails."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.preprocessing import StandardScaler

from fpovi.tabular import Encoder, learn_encoder
from fpovi.tabular.measured import EXTREME_KURTOSIS

NAN = float("nan")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_numbers_are_standardised_as_by_scikit_learn(rng):
    X, weight = rng.normal(size=(60, 3)) * [1e-6, 1.0, 1e6] + [0, -3, 1e7], rng.uniform(size=60)
    ours = learn_encoder(X, weight)(X)
    theirs = StandardScaler().fit(X, sample_weight=weight).transform(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)  # theirs updates a running mean


def test_missing_values_do_not_count_and_are_marked(rng):
    X = rng.normal(size=(30, 2))
    X[[3, 7], 0] = NAN
    ours = learn_encoder(X)(X)
    theirs = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(ours[:, [0, 2]], np.nan_to_num(theirs, nan=0.0), rtol=1e-9, atol=1e-12)  # as above
    np.testing.assert_array_equal(ours[:, 1], np.isnan(X[:, 0]))
    assert learn_encoder(X).features == ("x0", "x0 is missing", "x1")


def test_a_value_missing_only_later_is_the_mean_without_a_mark():
    np.testing.assert_array_equal(learn_encoder([[1.0], [3.0]])([[NAN], [2.0], [None]]), np.zeros((3, 1)))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, -5e-324])
def test_a_constant_column_is_left_out_whatever_comes_later(value):
    X = np.column_stack([np.full(1000, value), np.arange(1000.0)])
    encoder = learn_encoder(X)
    assert encoder.features == ("x1",)
    np.testing.assert_array_equal(encoder([[1e9, 499.5]]), [[0.0]])


def test_a_constant_column_with_gaps_keeps_their_mark():
    encoder = learn_encoder([[5.0], [NAN], [5.0]])
    assert encoder.features == ("x0 is missing",)
    np.testing.assert_array_equal(encoder([[NAN], [7.0]]), [[1.0], [0.0]])


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_any_unit_of_measurement_gives_the_same_numbers(rng, scale):
    """Powers that are no powers of two: they round, by a few units in the last place."""
    X = rng.normal(size=(50, 1)) + 3
    np.testing.assert_allclose(learn_encoder(X * scale)(X * scale), learn_encoder(X)(X), rtol=1e-9, atol=1e-12)


def test_numbers_at_the_end_of_the_range_do_not_overflow():
    X = np.asarray([[1.7e308], [-1.7e308], [-1.7e308]])
    np.testing.assert_allclose(learn_encoder(X)(X)[:, 0], np.asarray([2, -1, -1]) / 2**0.5, rtol=1e-12)  # by hand


def test_values_far_from_all_training_stay_within_float32():
    encoder = learn_encoder([[0.0, 1.0], [1.0, 2.0]])
    encoded = encoder([[1.7e308, -1.7e308]])
    np.testing.assert_array_equal(encoded, [[1e6, -1e6]])


def test_light_tails_are_left_alone(rng):
    columns = np.column_stack([rng.normal(size=5000), rng.uniform(size=5000), rng.exponential(size=5000)])
    assert all(column.squash is None for column in learn_encoder(columns).learned)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: 10 ** rng.uniform(-12, 12, 2000),
        lambda rng: -(10 ** rng.uniform(-12, 12, 2000)),
        lambda rng: np.exp(2 * rng.normal(size=2000)),
        lambda rng: stats.cauchy.rvs(size=2000, random_state=rng),
        lambda rng: np.append(rng.normal(1000, 1, 1999), 1e12),
        lambda rng: np.where(rng.uniform(size=2000) < 0.9, 0.0, np.exp(3 * rng.normal(size=2000))),
    ],
)
def test_heavy_tails_are_drawn_in_and_order_is_kept(rng, draw):
    x = draw(rng)
    assert stats.kurtosis(x, fisher=False) > EXTREME_KURTOSIS
    encoded = learn_encoder(x[:, None])(x[:, None])[:, 0]
    assert np.abs(encoded).max() < 45  # one of 2000 has at most √1999 standard deviations, and then is alone
    assert stats.kurtosis(encoded, fisher=False) < stats.kurtosis(x, fisher=False)
    assert np.all(np.diff(encoded[np.argsort(x)]) >= 0)
    assert encoded.std() == pytest.approx(1)


def test_decades_become_a_logarithm_that_float32_resolves(rng):
    x = 10 ** np.sort(rng.uniform(-12, 12, 2000))
    encoded = learn_encoder(x[:, None])(x[:, None])[:, 0].astype(np.float32)
    assert np.abs(encoded).max() < 3
    assert stats.pearsonr(np.log(x), encoded).statistic > 0.998  # all but the lowest 5 % is a logarithm
    assert len(np.unique(encoded)) > 1900


def test_an_outlier_leaves_the_bulk_spread_out(rng):
    """Temperatures with a slip of the keyboard: plain standardising would make all others one and the same."""
    x = np.append(rng.normal(300, 5, 999), 1e9)[:, None]
    assert np.ptp(StandardScaler().fit_transform(x)[:-1]) < 1e-5
    assert learn_encoder(x)(x)[:-1].std() > 0.5


def test_a_rare_event_is_not_squashed():
    """Two values look the same under any monotone map: kurtosis is high, and nothing can be gained."""
    x = np.append(np.zeros(500), 1.0)[:, None]
    assert learn_encoder(x).learned[0].squash is None


def test_times_are_seconds():
    frame = pd.DataFrame({"t": pd.to_datetime(["2024-01-01", "2024-01-03"]), "d": pd.to_timedelta([1, 3], unit="h")})
    encoder = learn_encoder(frame)
    assert encoder.columns.kinds == ("time", "duration")
    assert [column.scale for column in encoder.learned] == [86400.0, 3600.0]
    np.testing.assert_array_equal(encoder(frame), [[-1, -1], [1, 1]])


def test_times_without_a_zone_are_in_utc():
    naive = pd.DataFrame({"t": pd.to_datetime(["2024-01-01 12:00", "2024-07-03 12:00"])})
    aware = naive.apply(lambda t: t.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    assert learn_encoder(naive) == learn_encoder(aware)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("known", [True, False])
def test_infinite_values_are_named(bad, known):
    good, X = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, bad]})
    with pytest.raises(ValueError, match=rf"X has {bad} in column 'b', row 1, but values must be finite"):
        learn_encoder(good)(X) if known else learn_encoder(X)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["7", 1.0], "'7' in column 'a', row 0, where numbers were seen in fit"),
        ([1.0, "seven"], "'seven' in column 'a', row 1, where numbers were seen in fit"),
        (pd.to_datetime(["2024-01-01"] * 2), r"Timestamp\(.2024-01-01 00:00:00.\) in column 'a', row 0"),
        (pd.Series([np.timedelta64(1, "s")] * 2, dtype=object), "in column 'a', row 0, where numbers were seen"),
        ([1.0, [2.0]], r"\[2.0\], a list, in column 'a', row 1, but cells must hold strings, numbers or dates"),
        ([1, 10**400], "cannot be read as numbers"),
    ],
)
def test_other_values_where_numbers_were_learned_are_named(values, said):
    encoder = learn_encoder(pd.DataFrame({"a": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=said):
        encoder(pd.DataFrame({"a": values}))


def test_text_or_numbers_where_times_were_learned_are_named():
    encoder = learn_encoder(pd.DataFrame({"a": pd.to_datetime(["2024-01-01", "2024-01-02"])}))
    for value in ("2024-01-01", 5):
        with pytest.raises(ValueError, match=rf"X has {value!r} in column 'a', row 0, where times were seen in fit"):
            encoder(pd.DataFrame({"a": [value]}))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32, np.longdouble, object])
def test_numbers_of_any_type_will_do(dtype):
    X = np.asarray([[0], [1], [1], [0]]).astype(dtype)
    np.testing.assert_array_equal(learn_encoder(X)(X), [[-1], [1], [1], [-1]])


def test_numbers_held_by_a_categorical_are_numbers_where_numbers_were_learned():
    encoder = learn_encoder(pd.DataFrame({"a": [1, 3]}))
    np.testing.assert_array_equal(encoder(pd.DataFrame({"a": pd.Categorical([3, None])})), [[1], [0]])


def test_squash_survives_json(rng):
    x = np.exp(3 * rng.normal(size=(200, 1)))
    encoder = learn_encoder(x)
    assert encoder.learned[0].squash is not None
    assert Encoder.from_json(encoder.to_json()) == encoder
