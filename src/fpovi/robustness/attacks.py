# SPDX-License-Identifier: Apache-2.0
r"""Attacks in the maximum norm: the smallest changes of inputs that change what a classifier says of them.

Every attack takes steps :math:`x \leftarrow \mathrm{clip}(x \pm \text{step} \cdot \mathrm{sign} \nabla_x \text{loss})`
through all particles. They differ in how many steps they take, from where, and how far they may go. What they share:

- ``model``: a fitted :class:`~fpovi.BNNClassifier`, a function ``log_probs(x) -> (n, B, k)`` of n particles, or a
  :class:`~fpovi.robustness.Redrawn`, whose networks are drawn anew for every gradient.
- ``X``: rows ``(N, *d_x)`` in the units that the classifier saw in ``fit``, or that the function takes.
- ``y``: the labels ``(N,)`` to get away from, by default those that the model predicts at X. For a function, whole
  numbers from 0.

and the options of :class:`Options`.
"""

from collections.abc import Iterator
from typing import Any, Required, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from fpovi._lookup import lookup
from fpovi.robustness.ascent import Ascent
from fpovi.robustness.limits import checked_limits
from fpovi.robustness.log_probs import BLOCK, attackable, classes_of, values
from fpovi.robustness.losses import LOSSES, margin
from fpovi.robustness.rows import class_places, numbers_of, restored
from fpovi.types import Key, Numbers


class Options(TypedDict, total=False):
    """Options that attacks share.

    ``low`` and ``high`` are the valid range, such as 0 and 1 for pixels, infinite where there is none; like steps and
    radii they are numbers, or one for each entry of a row. ``target`` is a label, or one per row, to get to; then y is
    left out. ``loss`` is a key of :data:`~fpovi.robustness.LOSSES`, "mean_probability" by default. ``key`` is for
    random starts and drawn networks, ``jax.random.key(0)`` by default. ``block`` rows are looked at together, 256 by
    default: wide networks and convolutions may need fewer, where memory is short.
    """

    low: Required[Numbers]
    high: Required[Numbers]
    target: Any
    loss: str
    key: Key | None
    block: int


def fgsm(model: Any, X: Any, y: Any = None, *, epsilon: Numbers, **options: Unpack[Options]) -> Any:
    r"""Take one step, the fast gradient sign method (Goodfellow et al. 2015).

    .. math:: x' = \mathrm{clip}(x + \epsilon \cdot \mathrm{sign} \nabla_x \text{loss})

    Args:
        model: a fitted :class:`~fpovi.BNNClassifier`, or another model as in :mod:`fpovi.robustness.attacks`.
        X: rows ``(N, *d_x)``.
        y: labels ``(N,)`` to get away from, by default those that the model predicts.
        epsilon: the change of every entry.
        options: ``low`` and ``high``, the valid range, and others: see :class:`Options`.

    Returns:
        Inputs like X, in the units of X.

    >>> log_probs = lambda x: jax.nn.log_softmax(x)[None]
    >>> fgsm(log_probs, np.array([[0.5, 0.25]]), [0], epsilon=0.25, low=0, high=1).tolist()
    [[0.25, 0.5]]
    """
    return iterated_fgsm(model, X, y, step=epsilon, steps=1, **options)


def iterated_fgsm(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    step: Numbers,
    steps: int,
    radius: Numbers | None = None,
    **options: Unpack[Options],
) -> Any:
    """Take many small steps from X, the basic iterative method (Kurakin et al. 2017).

    Args:
        model, X, y, options: as in :func:`fgsm`.
        step: the change of every entry in a step.
        steps: how many.
        radius: the farthest that an entry may get from where it was; any distance by default.

    Returns:
        Inputs like X, in the units of X.

    >>> log_probs = lambda x: jax.nn.log_softmax(x)[None]
    >>> iterated_fgsm(log_probs, np.array([[0.5, 0.25]]), target=1, step=0.125, steps=9, low=0, high=1).tolist()
    [[0.0, 1.0]]
    """
    attack = _ascent(model, X, y, step, radius, **options)
    return restored(attack.run(attack.origin, _whole(steps, "steps")), model, X)


def trajectory(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    step: Numbers,
    steps: int,
    radius: Numbers | None = None,
    **options: Unpack[Options],
) -> Iterator[tuple[Any, Float[np.ndarray, "n N k"]]]:
    """Return what :func:`iterated_fgsm` goes through: inputs, and the model's log-probabilities there.

    Args:
        model, X, y, step, steps, radius, options: as in :func:`iterated_fgsm`.

    Returns:
        An iterator over ``(X_t, f_t)``, before every step and after the last: ``steps + 1`` pairs of inputs like X and
        log-probabilities ``(n, N, k)``. The first X_t is X, the last what :func:`iterated_fgsm` returns.

    >>> log_probs = lambda x: jax.nn.log_softmax(x)[None]
    >>> found = trajectory(log_probs, np.array([[1.0, 0.0]]), [0], step=0.25, steps=3, low=0, high=1)
    >>> [round(float(np.exp(f[0, 0, 0])), 2) for x, f in found]
    [0.73, 0.62, 0.5, 0.38]
    """
    attack, steps = _ascent(model, X, y, step, radius, **options), _whole(steps, "steps")
    return ((restored(x, model, X), f) for x, f in attack.walk(steps))


def pgd(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    radius: Numbers,
    step: Numbers,
    steps: int,
    restarts: int = 1,
    random_start: bool = True,
    **options: Unpack[Options],
) -> Any:
    """Take many small steps from random points of a ball about X, projected gradient descent (Madry et al. 2018).

    Of several starts, each row keeps the one that ends worst for the model: where the ensemble's log-probability of y
    stands lowest beside that of the best other class, or that of the target highest.

    Args:
        model, X, y, options: as in :func:`fgsm`.
        radius: the farthest that an entry may get from where it was.
        step, steps: as in :func:`iterated_fgsm`.
        restarts: how many starts.
        random_start: whether to start at a random point of the ball, rather than at X.

    Returns:
        Inputs like X, in the units of X.

    >>> log_probs = lambda x: jax.nn.log_softmax(x)[None]
    >>> pgd(log_probs, np.array([[0.5, 0.5]]), [0], radius=0.25, step=0.25, steps=9, low=0, high=1).tolist()
    [[0.25, 0.75]]
    """
    attack, steps = _ascent(model, X, y, step, radius, **options), _whole(steps, "steps")
    if not np.all(np.isfinite(attack.limits.radius)):
        raise ValueError(f"radius={radius!r} must be finite: for steps without a ball use iterated_fgsm")
    if _whole(restarts, "restarts") > 1 and not random_start:
        raise ValueError(f"restarts={restarts} from one point are all the same: give random_start=True")
    towards = -1 if options.get("target") is not None else 1
    worst, harm = attack.origin, np.full(len(attack.origin), -np.inf)
    for restart in range(restarts):
        again = attack._replace(key=jax.random.fold_in(attack.key, restart))
        x = again.run(again.random_start() if random_start else attack.origin, steps)
        found = towards * np.asarray(margin(jnp.asarray(again.values(x)), jnp.asarray(attack.label)))
        better = found > harm
        harm = np.where(better, found, harm)
        worst = np.where(better.reshape(-1, *(1,) * (x.ndim - 1)), x, worst)
    return restored(worst, model, X)


def _ascent(
    model: Any,
    X: Any,
    y: Any,
    step: Numbers,
    radius: Numbers | None,
    *,
    low: Numbers,
    high: Numbers,
    target: Any = None,
    loss: str = "mean_probability",
    key: Key | None = None,
    block: int = BLOCK,
) -> Ascent:
    """Return an attack with everything checked and in arrays."""
    climbed, through = lookup(LOSSES, loss, "loss"), attackable(model)
    x, key, block = numbers_of(model, X), jax.random.key(0) if key is None else key, _whole(block, "block")
    limits = checked_limits(x, step, np.inf if radius is None else radius, low, high)
    classes = classes_of(through, x, key)
    if y is not None and target is not None:
        raise ValueError("y and target are both given, but y is to get away from, and target to get to: leave one out")
    if target is not None:
        label = class_places(model, target, len(x), classes, "target")
        limits = limits._replace(step=-limits.step)
    elif y is not None:
        label = class_places(model, y, len(x), classes, "y")
    else:
        label = _predicted(values(through, x, key, block))
    return Ascent(through, climbed, limits, key, x, label, block)


def _predicted(f: Float[np.ndarray, "n N k"]) -> Int[np.ndarray, " N"]:
    return np.asarray(jnp.argmax(jax.nn.logsumexp(jnp.asarray(f), axis=0), axis=-1), np.int32)


def _whole(number: Any, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
        raise ValueError(f"{name}={number!r} must be a whole number, at least 1")
    return int(number)
