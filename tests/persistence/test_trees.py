# SPDX-License-Identifier: Apache-2.0
"""Check that trees come back from named arrays to the last bit, or that the first leaf that differs is named."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fpovi import function_space, likelihoods, make_batch, networks, priors, run
from fpovi.persistence import FileError, flatten_tree, read_file, restore_tree, write_file
from support.forgery import same_bits


class Pair(NamedTuple):
    left: object
    right: object


def assert_same_tree(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jax.dtypes.issubdtype(other.dtype, jax.dtypes.prng_key):
            assert one.dtype == other.dtype
            one, other = map(jax.random.key_data, (one, other))
        assert same_bits(np.asarray(one), np.asarray(other))


def through_a_file(tmp_path, tree):
    write_file(tmp_path / "tree", {}, flatten_tree(tree), kind="checkpoint")
    return read_file(tmp_path / "tree", kind="checkpoint")[1]


leaves = st.sampled_from(["f4", "f8", "i4", "u4", "?"]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3))
)
trees = st.recursive(
    leaves | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(tree=trees)
def test_any_tree_comes_back(tree):
    """Doubles come back too, though JAX itself would make floats of them here."""
    arrays = flatten_tree(tree)
    assert len(arrays) == len(jax.tree.leaves(tree))
    assert_same_tree(restore_tree(tree, arrays), tree)


def test_modules_optimiser_states_and_keys_come_back_from_a_file(key, tmp_path):
    module = eqx.filter(eqx.nn.MLP(2, 1, 4, 1, key=key), eqx.is_array)
    tree = {
        "module": module,
        "optimiser": optax.adam(1e-3).init(module),
        "key": key,
        "keys": jax.random.wrap_key_data(jnp.arange(24, dtype=jnp.uint32).reshape(2, 3, 4), impl="rbg"),
        "brain": jnp.array([1.5, jnp.nan], jnp.bfloat16),
        "empty": [(), {}, None, jnp.zeros((0, 3))],
        "count": jnp.asarray(3),
    }
    arrays = through_a_file(tmp_path, tree)
    for template in (tree, jax.eval_shape(lambda: tree)):
        back = restore_tree(template, arrays)
        assert_same_tree(back, tree)
    np.testing.assert_array_equal(jax.random.normal(back["key"], 3), jax.random.normal(key, 3))


def test_a_single_leaf_is_a_tree(tmp_path):
    leaf = np.arange(3.0)
    assert_same_tree(restore_tree(leaf, through_a_file(tmp_path, leaf)), leaf)


def test_names_are_paths(key):
    tree = {"state": Pair([np.zeros(1)], key)}
    assert list(flatten_tree(tree)) == ["['state'].left[0]", "['state'].right:threefry2x32"]


@pytest.mark.usefixtures("loose_dtypes")
def test_a_run_goes_on_from_a_file_as_if_nothing_had_happened(key, tmp_path):
    algorithm = function_space(
        networks.mlp((1, 4, 1)), likelihoods.gaussian(floor=0.0), priors.flat(), optimiser=optax.adam(0.1)
    )
    x = np.linspace(-1, 1, 10, dtype="f")[:, None]
    data = make_batch(x, np.sin(3 * x))
    start = algorithm.init(key, 3)
    whole = run(key, algorithm, start, data, 6, chunk_size=3)
    half = run(key, algorithm, start, data, 3, chunk_size=3)
    arrays = through_a_file(tmp_path, {"state": half.state, "key": key})
    template = jax.eval_shape(lambda: {"state": algorithm.init(key, 3), "key": key})
    back = restore_tree(template, arrays)
    resumed = run(back["key"], algorithm, back["state"], data, 3, chunk_size=3)
    assert_same_tree(resumed.state, whole.state)


TEMPLATE = {"a": jax.ShapeDtypeStruct((2,), np.float32), "b": [jax.ShapeDtypeStruct((), np.float64)]}
FITTING = {"['a']": np.zeros(2, "f"), "['b'][0]": np.zeros(())}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"['a']": np.zeros(3, "f")}, r"leaf \['a'\] is float32\[3\], but float32\[2\] is needed"),
        ({"['a']": np.zeros(2)}, r"leaf \['a'\] is float64\[2\], but float32\[2\] is needed"),
        ({"['a']": np.zeros(2, "i4")}, r"leaf \['a'\] is int32\[2\], but float32\[2\] is needed"),
        ({"['b'][0]": np.zeros(1)}, r"leaf \['b'\]\[0\] is float64\[1\], but float64\[\] is needed"),
        ({"['b'][0]": None}, r"leaf \['b'\]\[0\] is missing$"),
        ({"['b'][0]": None, "['c']": np.zeros(1)}, r"leaf \['b'\]\[0\] is missing; there is \['c'\] instead"),
        ({"['c']": np.zeros(1)}, r"leaf \['c'\] has no place in the tree"),
    ],
)
def test_the_first_leaf_that_differs_is_named(change, said):
    changed = {name: array for name, array in (FITTING | change).items() if array is not None}
    with pytest.raises(FileError, match=said):
        restore_tree(TEMPLATE, changed)


def test_keys_of_another_generator_are_not_taken(key):
    arrays = flatten_tree({"key": jax.random.key(0, impl="rbg")})
    with pytest.raises(FileError, match=r"leaf \['key'\]:threefry2x32 is missing; there is \['key'\]:rbg instead"):
        restore_tree({"key": key}, arrays)


@pytest.mark.parametrize("leaf", [1.5, "text", jnp.tanh, object()])
def test_a_leaf_that_is_no_array_is_named(leaf):
    with pytest.raises(ValueError, match=r"leaf \['a'\] is a \w+, but only arrays and typed keys can be kept"):
        flatten_tree({"a": leaf})
    with pytest.raises(ValueError, match=r"leaf \['a'\] is a \w+, but only arrays and typed keys can be kept"):
        restore_tree({"a": leaf}, {})


def test_a_template_has_nothing_to_keep():
    with pytest.raises(ValueError, match=r"leaf \['a'\] is a ShapeDtypeStruct, which has no numbers to keep"):
        flatten_tree(TEMPLATE)


class Anonymous:
    """A dictionary key whose repr is that of every other."""

    def __init__(self, rank):
        self.rank = rank

    def __repr__(self):
        return "Anonymous"

    def __lt__(self, other):
        return self.rank < other.rank


def test_two_leaves_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"two leaves are called \[Anonymous\]: give them distinct keys"):
        flatten_tree({Anonymous(0): np.zeros(1), Anonymous(1): np.zeros(1)})
