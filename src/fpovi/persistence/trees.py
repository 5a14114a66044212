# SPDX-License-Identifier: Apache-2.0
"""Turn pytrees into named arrays and back.

A leaf has its path for a name, a typed key its path and the name of its generator.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fpovi.persistence.atomic import FileError
from fpovi.types import PyTree


class _Slot(NamedTuple):
    """Name, shape and dtype of the array that keeps a leaf; for a typed key also its generator."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    generator: Any = None


def flatten_tree(tree: PyTree) -> dict[str, np.ndarray]:
    """Return the leaves of a tree by name.

    Args:
        tree: a pytree of JAX arrays, NumPy arrays and typed keys; from an Equinox module take the arrays with
            ``eqx.filter(module, eqx.is_array)``.

    Raises:
        ValueError: a leaf is no array, or two leaves have one name.

    >>> flatten_tree({"theta": [np.zeros(2), np.ones(1)], "key": jax.random.key(7)})
    {"['key']:threefry2x32": array([0, 7], dtype=uint32), "['theta'][0]": array([0., 0.]), "['theta'][1]": array([1.])}
    """
    arrays: dict[str, np.ndarray] = {}
    for slot, leaf in zip(_slots(tree), jax.tree.leaves(tree), strict=True):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise ValueError(f"leaf {slot.name} is a ShapeDtypeStruct, which has no numbers to keep")
        arrays[slot.name] = np.asarray(jax.random.key_data(leaf) if slot.generator else leaf)
    return arrays


def restore_tree(template: PyTree, arrays: dict[str, np.ndarray]) -> PyTree:
    """Return the tree whose leaves :func:`flatten_tree` named, bit for bit, with NumPy arrays as leaves.

    Args:
        template: a tree of the same structure, of arrays or of the shapes that ``jax.eval_shape`` returns.
        arrays: all leaves by name; shapes and dtypes must be those of the template.

    Raises:
        FileError: the arrays are of another tree; it names the first leaf that differs.

    >>> template = jax.eval_shape(lambda: {"theta": [jnp.zeros(2), jnp.ones(1)]})
    >>> restore_tree(template, {"['theta'][0]": np.zeros(2, "f"), "['theta'][1]": np.ones(3, "f")})
    Traceback (most recent call last):
    fpovi.persistence.atomic.FileError: leaf ['theta'][1] is float32[3], but float32[1] is needed
    """
    slots = _slots(template)
    left_over = [name for name in arrays if name not in {slot.name for slot in slots}]
    leaves = []
    for slot in slots:
        if slot.name not in arrays:
            instead = f"; there is {left_over[0]} instead" if left_over else ""
            raise FileError(f"leaf {slot.name} is missing{instead}")
        array = arrays[slot.name]
        if (array.shape, array.dtype) != (slot.shape, slot.dtype):
            came, needed = _describe(array.dtype, array.shape), _describe(slot.dtype, slot.shape)
            raise FileError(f"leaf {slot.name} is {came}, but {needed} is needed")
        leaves.append(jax.random.wrap_key_data(jnp.asarray(array), impl=slot.generator) if slot.generator else array)
    if left_over:
        raise FileError(f"leaf {left_over[0]} has no place in the tree")
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def _describe(dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _slots(tree: PyTree) -> list[_Slot]:
    slots = [_slot(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
    names = [slot.name for slot in slots]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two leaves are called {twice}: give them distinct keys")
    return slots


def _slot(name: str, leaf: Any) -> _Slot:
    if not isinstance(leaf, np.ndarray | np.generic | jax.Array | jax.ShapeDtypeStruct):
        raise ValueError(f"leaf {name} is a {type(leaf).__name__}, but only arrays and typed keys can be kept")
    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return _Slot(name, leaf.shape, np.dtype(leaf.dtype))
    generator = None

    def data_of(key: jax.Array) -> jax.Array:
        nonlocal generator
        generator = jax.random.key_impl(key)  # answers for a traced key, but not for a ShapeDtypeStruct
        return jax.random.key_data(key)

    data = jax.eval_shape(data_of, leaf)
    return _Slot(f"{name}:{generator}", data.shape, np.dtype(data.dtype), generator)
