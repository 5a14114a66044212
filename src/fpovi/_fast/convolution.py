# SPDX-License-Identifier: Apache-2.0
"""Networks with convolutions, one at a time and in the only form that XLA runs fast in a loop on a CPU.

Three things make convolutions slow there. A fit is a loop, and in a loop XLA has a fast kernel only for what is written
as rows × space × channels, by space × inputs × outputs; elsewhere it brings other forms into this one itself. The
derivatives of a convolution are convolutions in other forms. And over several networks ``vmap`` makes one grouped
convolution, for which there is no fast kernel at all.

So convolutions are found in a network's program and written in that form with their derivatives, whoever wrote the
network. Milliseconds of CPU time for outputs and gradients, one core of a machine that was busy with other work:

===================================================================  ========  ========  ===================
100 rows in all                                                      ``vmap``  one by    one by one and
                                                                               one       rewritten (here)
===================================================================  ========  ========  ===================
Equinox, 2 convolutions 5×5 of 16 and 32 channels, 28×28, 2 networks  329       367       43
ResNet-8, 8 channels, 32×32, 2 networks                               650       580       73
===================================================================  ========  ========  ===================

Channels first, products of patches and other forms were no faster: 81 and 75 at best.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

from fpovi.types import PyTree

CONVOLUTION, CALLS = "conv_general_dilated", ("jit", "pjit")
Convolution = Callable[[JaxprEqn, Array, Array], Array]


def over_networks(one: Callable[..., PyTree], *each: PyTree) -> PyTree:
    """Return what ``one`` gives for each network.

    Stands for ``jax.vmap(one)(*each)``, which is used for networks without convolutions, and on other devices.

    Args:
        one: maps a network's arrays to arrays. Where it convolves, its result here has derivatives of reverse mode
            only.
        each: arguments of ``one``, each leaf with a leading axis for the networks.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(one)(*each)
    program, shapes = jax.make_jaxpr(one, return_shape=True)(*jax.tree.map(lambda leaf: leaf[0], each))
    if not convolves(program.jaxpr):
        return jax.vmap(one)(*each)
    structure = jax.tree.structure(shapes)

    def rewritten(arguments: PyTree) -> PyTree:
        found = _evaluate(_with_derivatives, program.jaxpr, program.consts, jax.tree.leaves(arguments))
        return jax.tree.unflatten(structure, found)

    # activations are computed again on the way back: no slower, and they take a network's memory, not that of all
    return jax.lax.map(jax.checkpoint(rewritten), each)


def convolves(program: Jaxpr) -> bool:
    """Tell whether a program has a convolution, itself or in a function that it calls."""
    inner = (param for eqn in program.eqns if eqn.primitive.name in CALLS for param in eqn.params.values())
    return any(eqn.primitive.name == CONVOLUTION for eqn in program.eqns) or any(
        convolves(param.jaxpr) for param in inner if isinstance(param, ClosedJaxpr)
    )


def _evaluate(convolution: Convolution, program: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Run a program with ``convolution`` in the place of its convolutions."""
    values = dict(zip((*program.constvars, *program.invars), (*consts, *arguments), strict=True))
    value = lambda atom: atom.val if isinstance(atom, Literal) else values[atom]  # noqa: E731
    for eqn in program.eqns:
        inputs = [value(atom) for atom in eqn.invars]
        if eqn.primitive.name == CONVOLUTION:
            outputs = [convolution(eqn, *inputs)]
        elif eqn.primitive.name in CALLS:
            called = eqn.params["jaxpr"]
            outputs = _evaluate(convolution, called.jaxpr, called.consts, inputs)
        else:
            outputs = _as_it_is(program, eqn, value)
        values |= zip(eqn.outvars, outputs, strict=True)
    return [value(atom) for atom in program.outvars]


def _as_it_is(program: Jaxpr, eqn: JaxprEqn, value: Callable[[Any], Any]) -> list[Any]:
    """Run one equation of a program, as a program of its own: functions with derivatives of their own keep them."""
    known = list(dict.fromkeys(atom for atom in eqn.invars if not isinstance(atom, Literal)))
    names = program.debug_info.with_unknown_names()
    alone = program.replace(constvars=[], invars=known, outvars=list(eqn.outvars), eqns=[eqn], debug_info=names)
    return list(jaxpr_as_fun(ClosedJaxpr(alone, ()))(*map(value, known)))


def _with_derivatives(eqn: JaxprEqn, inputs: Array, kernel: Array) -> Array:
    """Compute a convolution in the fast form, and on the way back its derivatives too."""

    @jax.custom_vjp
    def convolution(inputs: Array, kernel: Array) -> Array:
        return _in_fast_form(eqn, inputs, kernel)

    def derivatives(inputs: Array, kernel: Array, g: Array) -> tuple[Array, Array]:
        back: tuple[Array, Array] = jax.vjp(partial(eqn.primitive.bind, **eqn.params), inputs, kernel)[1](g)
        return back

    def back(both: tuple[Array, Array], g: Array) -> tuple[Array, ...]:
        program = jax.make_jaxpr(derivatives)(*both, g)
        return tuple(_evaluate(_in_fast_form, program.jaxpr, program.consts, (*both, g)))

    convolution.defvjp(lambda *both: (convolution(*both), both), back)
    return convolution(inputs, kernel)


def _in_fast_form(eqn: JaxprEqn, inputs: Array, kernel: Array) -> Array:
    """Compute a convolution as rows × space × channels, by space × inputs × outputs."""
    lhs, rhs, out = eqn.params["dimension_numbers"]
    last = inputs.ndim - 1
    ours, kernels = (0, last, *range(1, last)), (last, last - 1, *range(last - 1))
    form = type(eqn.params["dimension_numbers"])(ours, kernels, ours)
    # a specification names the axes (rows, channels, space…) and (outputs, inputs, space…)
    inputs = inputs.transpose((lhs[0], *lhs[2:], lhs[1]))
    kernel = kernel.transpose((*rhs[2:], rhs[1], rhs[0]))
    found = eqn.primitive.bind(inputs, kernel, **{**eqn.params, "dimension_numbers": form})
    places = (out[0], *out[2:], out[1])
    return found.transpose([places.index(axis) for axis in range(last + 1)])
