# SPDX-License-Identifier: Apache-2.0
"""The check at the door, and how mini-batches visit the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fpovi.inference.batches import check_batch_size, epoch_order, fill, make_batch, pad, take

compiled_order, compiled_take = jax.jit(epoch_order, static_argnums=3), jax.jit(take)

X = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
Y = [1.0, 2.0, 3.0]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "x",
    [
        X,
        tuple(map(tuple, X)),
        np.array(X),
        np.array(X, np.float32),
        np.array(X, int),
        np.array(X, np.uint8),
        np.array(X, object),
        jnp.asarray(X),
    ],
)
def test_anything_that_holds_numbers_is_accepted(x):
    batch = make_batch(x, Y)
    np.testing.assert_array_equal(batch.x, X)
    np.testing.assert_array_equal(batch.y, [[1.0], [2.0], [3.0]])
    np.testing.assert_array_equal(batch.weight, np.ones((3, 1)))
    assert batch.num_data == 3
    assert batch.x.dtype == batch.y.dtype == batch.weight.dtype == batch.num_data.dtype == jnp.float32


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64])
def test_dtype_follows_x(dtype, x64):
    batch = make_batch(jnp.asarray(X, dtype), np.array(Y, np.float64), weight=[1, 1, 1])
    assert batch.x.dtype == batch.y.dtype == batch.weight.dtype == batch.num_data.dtype == dtype


def test_inputs_may_have_any_shape():
    assert make_batch(np.zeros((3, 4, 4, 1)), Y).x.shape == (3, 4, 4, 1)


def test_targets_may_be_several():
    assert make_batch(X, np.zeros((3, 2))).y.shape == (3, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_classes_stay_whole_numbers(dtype):
    batch = make_batch(X, np.array([2, 0, 1], dtype))
    assert jnp.issubdtype(batch.y.dtype, jnp.integer)
    np.testing.assert_array_equal(batch.y, [[2], [0], [1]])


@pytest.mark.parametrize("y", [[3_000_000_000, 1, 2], [-3_000_000_000, 1, 2], np.array([2**63, 1, 2], np.uint64)])
def test_whole_numbers_too_large_for_int32_do_not_wrap_around(y):
    np.testing.assert_allclose(make_batch(X, y).y[:, 0], np.asarray(y, float), rtol=1e-7)  # float32


def test_true_and_false_are_one_and_zero():
    np.testing.assert_array_equal(make_batch(X, [True, False, True]).y, [[1.0], [0.0], [1.0]])


@pytest.mark.parametrize("weight", [[1, 0, 2], np.array([[1.0], [0.0], [2.0]]), jnp.asarray([1.0, 0.0, 2.0])])
def test_weights_of_rows(weight):
    batch = make_batch(X, Y, weight)
    np.testing.assert_array_equal(batch.weight, [[1.0], [0.0], [2.0]])
    assert batch.num_data == 3


def test_weights_of_rows_and_targets():
    weight = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    batch = make_batch(X, np.zeros((3, 2)), weight)
    np.testing.assert_array_equal(batch.weight, weight)
    assert batch.num_data == 4


GOOD = {"x": X, "y": Y, "weight": [1.0, 1.0, 1.0]}


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("x", [[0.0, 1.0], [NAN, 3.0], [4.0, INF]], r"x has 2 NaN or infinite values, the first \(nan\) at row 1"),
        ("y", [1.0, 2.0, -INF], r"y has 1 NaN or infinite values, the first \(-inf\) at row 2.*only finite"),
        ("weight", [NAN, 1.0, 1.0], r"weight has 1 NaN or infinite values, the first \(nan\) at row 0"),
        ("x", [[0.0, 1.0], [1e39, 3.0], [4.0, 5.0]], r"x has 1 .*first \(1e\+39\) at row 1.* finite values of float32"),
        ("y", [1.0, 1e300, 2.0], r"y has 1 .*first \(1e\+300\) at row 1.* finite values of float32"),
        ("y", [1.0, 2.0], r"y has shape \(2, 1\), but x has 3 rows"),
        ("y", np.zeros((3, 1, 1)), r"y has shape \(3, 1, 1\), but x has 3 rows"),
        ("y", np.zeros((3, 0)), r"y has shape \(3, 0\), but .* one row of targets each is needed"),
        ("x", [0.0, 1.0, 2.0], r"x has shape \(3,\), but rows of features \(N, d\) are needed"),
        ("x", np.zeros((3, 0)), r"x has shape \(3, 0\), but rows of features"),
        ("x", np.float64(1.0), r"x has shape \(\), but rows of features"),
        ("weight", [1.0, 1.0], r"weight has shape \(2, 1\), but \(3, 1\) or \(3, 1\) is needed"),
        ("weight", np.ones((3, 2)), r"weight has shape \(3, 2\), but"),
        ("weight", [1.0, -0.5, 1.0], r"weight has -0.5 at row 1, but none may be negative"),
        ("weight", [0.0, 0.0, 0.0], r"weight is 0 everywhere, but at least one must be positive"),
        ("x", [["a", "b"], ["c", "d"], ["e", "f"]], r"x has values of type <U1, but real numbers are needed"),
        ("y", ["1", "2", "3"], r"y has values of type <U1, but real numbers are needed"),
        ("y", [1.0, None, 2.0], r"y has 1 NaN or infinite values, the first \(nan\) at row 1"),
        ("x", [[0.0, "a"], [1.0, object()], [2.0, 3.0]], r"x cannot be read as an array of numbers"),
        ("x", [[0.0, 1.0], [2.0], [4.0, 5.0]], r"x cannot be read as an array of numbers"),
        ("y", [1j, 2.0, 3.0], r"y has values of type complex128, but real numbers are needed"),
        ("y", np.array(["2020-01-01"] * 3, "datetime64[D]"), r"y has values of type datetime64\[D\], but real numbers"),
        ("weight", ["a", "b", "c"], r"weight has values of type <U1, but real numbers are needed"),
    ],
)
def test_bad_input_is_named(argument, value, said):
    with pytest.raises(ValueError, match=said):
        make_batch(**{**GOOD, argument: value})


@pytest.mark.parametrize("y", [np.zeros(0), np.zeros((0, 1))])
def test_no_rows_are_too_few(y):
    with pytest.raises(ValueError, match=r"x has shape \(0, 2\), no rows: at least one is needed"):
        make_batch(np.zeros((0, 2)), y)


def test_batch_size_is_at_most_all_rows():
    assert check_batch_size(3, 10) == 3
    assert check_batch_size(30, 10) == 10


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_must_be_positive(size):
    with pytest.raises(ValueError, match=f"batch_size={size} must be at least 1"):
        check_batch_size(size, 10)


SIZES = st.integers(1, 12).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(1, rows)))


@given(sizes=SIZES, seed=st.integers(0, 3), epoch=st.integers(0, 2**31 - 1))
@settings(max_examples=12, deadline=None, derandomize=True)  # a new shape is a new program to compile
def test_an_epoch_visits_every_row_once_and_fills_up_the_last_batch(sizes, seed, epoch):
    rows, size = sizes
    order = np.asarray(compiled_order(jax.random.key(seed), jnp.asarray(epoch), jnp.ones(rows, bool), size))
    assert order.shape == (-(-rows // size), size)
    assert sorted(order.ravel()[:rows]) == list(range(rows))
    assert set(order.ravel()[rows:]) <= set(range(rows))


@given(sizes=SIZES)
@settings(max_examples=12, deadline=None, derandomize=True)
def test_over_an_epoch_every_row_has_its_weight_once(sizes):
    rows, size = sizes
    numbers = np.arange(1.0, rows + 1)
    data = make_batch(numbers[:, None], numbers, weight=numbers)
    order = compiled_order(jax.random.key(0), jnp.asarray(0), jnp.ones(rows, bool), size)
    seen = np.zeros(rows + 1)
    for position, index in enumerate(np.asarray(order)):
        batch = compiled_take(data, index, jnp.asarray(position * size + np.arange(size) < rows))
        np.testing.assert_array_equal(batch.x[:, 0], batch.y[:, 0])
        np.testing.assert_array_equal(batch.x[:, 0], numbers[index])
        np.add.at(seen, np.asarray(batch.x[:, 0], int), np.asarray(batch.weight[:, 0]))
        assert batch.num_data == data.num_data
    np.testing.assert_array_equal(seen, np.arange(rows + 1.0))


def test_epochs_differ_and_can_be_repeated(key):
    orders = [np.asarray(epoch_order(key, jnp.asarray(epoch), jnp.ones(50, bool), 7)) for epoch in (0, 1, 0)]
    assert not np.array_equal(orders[0], orders[1])
    np.testing.assert_array_equal(orders[0], orders[2])


@pytest.mark.parametrize("rows", [1, 2, 3, 1024, 1025, 2**16, 2**16 + 1])
def test_all_rows_once_whether_there_is_room_for_their_numbers_or_not(rows):
    order = np.asarray(compiled_order(jax.random.key(0), 0, jnp.arange(rows) < max(rows - 5, 1), rows)).ravel()
    real = max(rows - 5, 1)
    np.testing.assert_array_equal(np.sort(order[:real]), np.arange(real))


def test_every_row_is_anywhere_equally_often():
    """2,000 orders of 6 rows: the table of rows and places against a uniform one, by scipy."""
    epochs = jnp.arange(2000)
    orders = np.asarray(
        jax.vmap(lambda epoch: compiled_order(jax.random.key(1), epoch, jnp.ones(6, bool), 6)[0])(epochs)
    )
    table = np.stack([np.bincount(orders[:, place], minlength=6) for place in range(6)])
    assert stats.chisquare(table.ravel(), ddof=10).pvalue > 0.01
    kinds = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(kinds) > 650  # of 720, each with 2.8 on average: e^-2.8 or 44 are missed
    assert stats.chisquare(np.append(kinds, np.zeros(720 - len(kinds)))).pvalue > 0.01


def test_padding_weighs_nothing():
    data = make_batch(X, np.zeros((3, 2)), weight=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    batch = take(data, jnp.asarray([2, 0, 2]), jnp.asarray([True, True, False]))
    np.testing.assert_array_equal(batch.weight, [[5.0, 6.0], [1.0, 2.0], [0.0, 0.0]])
    np.testing.assert_array_equal(batch.x, [X[2], X[0], X[2]])


def test_padding_is_never_drawn_and_its_inputs_are_real_ones():
    data = pad(make_batch(np.arange(1.0, 6.0)[:, None], np.arange(5.0)), 8)
    garbage = data._replace(x=data.x.at[5:].set(99.0))
    filled = fill(garbage)
    np.testing.assert_array_equal(filled.x[:5], data.x[:5])
    assert set(np.asarray(filled.x[5:, 0]).tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    np.testing.assert_array_equal(filled.weight, data.weight)
    order = np.asarray(epoch_order(jax.random.key(0), jnp.asarray(0), jnp.arange(8) < 5, 2))
    assert sorted(order.ravel()[:5]) == [0, 1, 2, 3, 4]
    assert order.max() < 5


def test_padding_cannot_shrink():
    with pytest.raises(ValueError, match="rows=2 is less than the 3 rows"):
        pad(make_batch(X, np.zeros(3)), 2)
