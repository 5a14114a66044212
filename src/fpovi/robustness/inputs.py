# SPDX-License-Identifier: Apache-2.0
"""From inputs as users have them to what a network sees, as maps that JAX differentiates."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from fpovi.tabular import ArrayEncoder, Encoder
from fpovi.tabular.encoder import FARTHEST, Empty
from fpovi.tabular.measured import Measured


class Pixels(eqx.Module):
    """The map (x − shift)/scale of an :class:`~fpovi.tabular.ArrayEncoder`."""

    shift: Float[Array, "*"]
    scale: Float[Array, "*"]

    def __call__(self, x: Float[Array, "B *d_x"]) -> Float[Array, "B *d_x"]:
        return (x - self.shift) / self.scale


class Columns(eqx.Module):
    """The map of an :class:`~fpovi.tabular.Encoder` whose columns are numbers, none of them missing.

    ``source`` is the column that a feature comes from; where ``bent``, arcsinh((x − centre)/width) comes before shift
    and scale. A feature that tells whether a value is missing has ``here`` 0, and so has the only one of a table in
    which nothing varied.
    """

    source: Int[Array, " d"]
    bent: Bool[Array, " d"]
    centre: Float[Array, " d"]
    width: Float[Array, " d"]
    shift: Float[Array, " d"]
    scale: Float[Array, " d"]
    here: Float[Array, " d"]

    def __call__(self, x: Float[Array, "B columns"]) -> Float[Array, "B d"]:
        x = x[:, self.source]
        x = jnp.where(self.bent, jnp.arcsinh((x - self.centre) / self.width), x)
        return self.here * jnp.clip((x - self.shift) / self.scale, -FARTHEST, FARTHEST)


def differentiable(encoder: Encoder | ArrayEncoder) -> Columns | Pixels:
    """Return what an encoder does to numbers, in float32.

    Args:
        encoder: one of arrays, or of a table of numbers.

    Raises:
        ValueError: if a column is no number: a gradient cannot move a category, a time or a duration.

    >>> from fpovi.tabular import learn_encoder
    >>> differentiable(learn_encoder([[1.0, 5.0], [3.0, 5.0]]))(jnp.asarray([[4.0, 7.0]])).tolist()
    [[2.0]]
    """
    if isinstance(encoder, ArrayEncoder):
        return Pixels(jnp.asarray(encoder.shift, jnp.float32), jnp.asarray(encoder.scale, jnp.float32))
    rows: list[tuple[float, ...]] = []
    for place, column in enumerate(encoder.learned):
        if isinstance(column, Empty):
            continue
        if not isinstance(column, Measured) or column.kind != "number":
            name = encoder.names[place] if encoder.names else place
            raise ValueError(f"column {name} is a {column.kind}, but attacks move numbers only: fit without it")
        if column.scale is not None:
            rows.append((place, column.squash is not None, *(column.squash or (0, 1)), column.shift, column.scale, 1))
        if column.missing:
            rows.append((place, False, 0, 1, 0, 1, 0))
    source, bent, *numbers = np.asarray(rows or [(0, False, 0, 1, 0, 1, 0)], np.float64).T
    return Columns(
        jnp.asarray(source, jnp.int32), jnp.asarray(bent, bool), *(jnp.asarray(one, jnp.float32) for one in numbers)
    )
