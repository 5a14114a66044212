# SPDX-License-Identifier: Apache-2.0
"""The encoder in JAX, from numbers, beside the encoder itself, from tables."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings

from fpovi.export import encode
from fpovi.tabular import learn_encoder
from support.frames import every_kind, tables


def in_jax(encoder, numbers):
    numbers = np.asarray(numbers)
    full = np.pad(numbers, ((0, -len(numbers) % 8), (0, 0)), constant_values=np.nan)  # few shapes, few compilations
    with jax.enable_x64(True):
        encoded = encode(encoder, jnp.asarray(full, jnp.float64))
        assert encoded.dtype == jnp.float64
        return np.asarray(encoded)[: len(numbers)]


def heavy(rows=400):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "heavy": np.where(rng.uniform(size=rows) < 0.1, np.nan, np.exp(4 * rng.normal(size=rows))),
            "both sides": rng.standard_cauchy(rows),
            "far": 1e15 + rng.integers(0, 100, rows),
            "constant": 7.0,
            "nothing": np.nan,
            "word": pd.Series(rng.choice(list("abcdef"), rows), dtype=object).where(rng.uniform(size=rows) < 0.9, None),
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 60, rows), unit="s"),
        }
    )


@pytest.mark.parametrize(("frame", "most"), [(every_kind(), 50), (heavy(), 50), (heavy(), 3)])
def test_same_numbers_as_the_encoder(frame, most):
    encoder = learn_encoder(frame, max_categories=most)
    encoded = in_jax(encoder, encoder.numbers(frame))
    # the same operations in the same precision, but for arcsinh, which is written out and rounds elsewhere
    np.testing.assert_allclose(encoded, encoder(frame), rtol=1e-12, atol=1e-12)
    squashed = [column for column in encoder.learned if getattr(column, "squash", None) is not None]
    assert len(squashed) == (2 if "heavy" in frame else 0)


@settings(max_examples=15, deadline=None)
@given(tables())
def test_same_numbers_for_any_table(frame):
    # XLA takes what is below 2e-308 for 0, and so the reciprocal of a scale beyond 4e307
    sizes = np.abs(frame["number"].dropna())
    assume(not ((sizes > 0) & (sizes < 1e-290)).any() and not (sizes > 1e290).any())
    encoder = learn_encoder(frame)
    np.testing.assert_allclose(in_jax(encoder, encoder.numbers(frame)), encoder(frame), rtol=1e-9, atol=1e-9)


def test_arcsinh_is_that_of_numpy_at_any_size():
    encoder = learn_encoder(pd.DataFrame({"heavy": np.exp(4 * np.random.default_rng(0).normal(size=500))}))
    (column,) = encoder.learned
    sizes = np.array([0.0, 1e-300, 1e-9, 0.5, 1.0, 1e3, 1e8, 1e200, 1e300])
    x = column.squash.centre + column.squash.scale * np.append(sizes, -sizes)
    wanted = (np.arcsinh((x - column.squash.centre) / column.squash.scale) - column.shift) / column.scale
    np.testing.assert_allclose(in_jax(encoder, x[:, None])[:, 0], wanted, rtol=1e-12, atol=1e-12)


def test_codes_of_categories():
    words = pd.DataFrame({"word": [*"aaabbbcccde", None]})
    for most, others in ((50, "missing"), (3, "another")):
        encoder = learn_encoder(words, max_categories=most)
        (column,) = encoder.learned
        levels, (*known, missing) = len(column.levels), column.codebook()
        assert len(known) == levels + column.other
        rows = in_jax(encoder, np.array([[0.0], [levels - 1.0], [-1.0], [np.nan], [levels], [99.0], [np.inf]]))
        beyond = {"missing": missing, "another": known[-1]}[others]
        np.testing.assert_array_equal(rows, [known[0], known[levels - 1], missing, missing, *3 * [beyond]])


def test_nothing_varies():
    for cell, numbers in ((1.0, [[1.0], [5.0], [np.nan]]), ("a", [[0.0], [1.0], [-1.0]]), (None, [[1.0], [np.nan]])):
        encoder = learn_encoder([[cell], [cell]])
        np.testing.assert_array_equal(in_jax(encoder, numbers), np.zeros((len(numbers), 1)))


def test_far_and_infinite_values_stop_at_a_million():
    encoder = learn_encoder([[1.0], [3.0]])
    np.testing.assert_array_equal(in_jax(encoder, [[1e300], [-np.inf], [np.inf]])[:, 0], [1e6, -1e6, 1e6])
    squashed = learn_encoder(heavy()[["both sides"]])
    assert in_jax(squashed, [[np.inf]])[0, 0] == 1e6


def test_numbers_come_in_the_learned_order():
    encoder = learn_encoder(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    numbers = encoder.numbers(pd.DataFrame({"b": ["y", None], "more": [0, 0], "a": [5, None]}))
    np.testing.assert_array_equal(numbers, [[5.0, 1.0], [np.nan, -1.0]])
    with pytest.raises(ValueError, match="'z' in column 'b', row 0"):
        encoder.numbers([[1.0, "z"]])
    np.testing.assert_array_equal(encoder.numbers([[1.0, "z"]], unknown="missing"), [[1.0, -1.0]])
