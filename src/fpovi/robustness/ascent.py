# SPDX-License-Identifier: Apache-2.0
"""Signed gradient steps on many rows, a block at a time: what all attacks are made of."""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from fpovi.robustness.limits import Limits
from fpovi.robustness.log_probs import Model, drawn, in_blocks, values
from fpovi.robustness.losses import Loss
from fpovi.types import Key

Rows = Float[np.ndarray, "N *d_x"]


@eqx.filter_jit
def signed_step(
    model: Model,
    loss: Loss,
    limits: Limits,
    key: Key,
    x: Float[Array, "B *d_x"],
    origin: Float[Array, "B *d_x"],
    label: Int[Array, " B"],
) -> tuple[Float[Array, "B *d_x"], Float[Array, "n B k"]]:
    r"""Return :math:`\mathrm{clip}(x + \text{step} \cdot \mathrm{sign} \nabla_x \text{loss})`, and f at x.

    Args:
        model: a function ``log_probs(x)``, or networks to draw with ``key``.
        loss: one of :data:`fpovi.robustness.losses.LOSSES`.
        limits: the step, the ball and the valid range.
        key: for what is drawn.
        x: B inputs.
        origin: the centre of the ball for each.
        label: to get away from, or to get to if the step is negative.
    """

    def total(x: Array) -> tuple[Array, Array]:
        f = drawn(model, key)(x)
        return jnp.sum(loss(f, label)), f

    gradient, f = jax.grad(total, has_aux=True)(x)
    return limits.clip(x + limits.step * jnp.sign(gradient), origin), f


@jax.jit
def _random_start(
    limits: Limits, key: Key, rows: Int[Array, " B"], origin: Float[Array, "B *d_x"]
) -> Float[Array, "B *d_x"]:
    """Return points uniform in the ball, clipped to the valid range; a row's does not depend on the others."""
    keys = jax.vmap(lambda row: jax.random.fold_in(key, row))(rows)
    shares = jax.vmap(lambda key: jax.random.uniform(key, origin.shape[1:], origin.dtype, -1, 1))(keys)
    return limits.clip(origin + limits.radius * shares, origin)


class Ascent(NamedTuple):
    """An attack that is ready to run: rows ``(N, *d_x)``, their labels ``(N,)``, and the rules for a step."""

    model: Model
    loss: Loss
    limits: Limits
    key: Key
    origin: Rows
    label: Int[np.ndarray, " N"]
    block: int

    def run(self, start: Rows, steps: int) -> Rows:
        """Return where so many steps lead."""
        x = start
        for step in range(steps):
            x, _ = self.advance(x, step)
        return x

    def walk(self, steps: int) -> Iterator[tuple[Rows, Float[np.ndarray, "n N k"]]]:
        """Yield x and the log-probabilities there, before every step and after the last."""
        x = self.origin
        for step in range(steps):
            following, f = self.advance(x, step)
            yield x, f
            x = following
        yield x, self.values(x)

    def advance(self, x: Rows, step: int) -> tuple[Rows, Float[np.ndarray, "n N k"]]:
        """Return x after one step, and the log-probabilities before it."""
        key, following, found = jax.random.fold_in(self.key, step), np.empty_like(x), []
        for number, which, count in in_blocks(len(x), self.block):
            rows = (jnp.asarray(whole[which]) for whole in (x, self.origin, self.label))
            moved, before = signed_step(self.model, self.loss, self.limits, jax.random.fold_in(key, number), *rows)
            following[which[:count]] = np.asarray(moved)[:count]
            found.append(np.asarray(before)[:, :count])
        f = np.concatenate(found, axis=1)
        bad = np.isnan(f).any(axis=(0, 2)) | ~np.isfinite(following).reshape(len(x), -1).all(axis=1)
        if bad.any():
            raise ArithmeticError(
                f"log-probabilities or their gradient are not finite at {bad.sum()} rows, the first at row "
                f"{int(np.argmax(bad))}, before step {step + 1}: look at the model's outputs there"
            )
        return following, f

    def random_start(self) -> Rows:
        """Return a random point of the ball for every row."""
        parts = [
            np.asarray(_random_start(self.limits, self.key, jnp.asarray(which), jnp.asarray(self.origin[which])))[
                :count
            ]
            for _, which, count in in_blocks(len(self.origin), self.block)
        ]
        return np.concatenate(parts)

    def values(self, x: Rows) -> Float[np.ndarray, "n N k"]:
        """Return the log-probabilities at x."""
        return values(self.model, x, self.key, self.block)
