# SPDX-License-Identifier: Apache-2.0
r"""Flows: how particles move, given where they are, the score of the target there, and a kernel.

``flow(f, score, kernel) -> velocity``, all ``(n, d)``: the rows of Table 1 of Wang et al. (2019), as printed. A flow
knows nothing of networks or data; the same functions serve weights and function values. In the formulas
:math:`s_j` is the score at particle j, :math:`K_{ij} = k(f_i, f_j)`, and :math:`\nabla_j K_{ij}` the derivative in
the *second* argument.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from fpovi._float64 import in_float64
from fpovi.types import Flow, Kernel, as_kernel


def repulsion(f: Float[Array, "n d"], kernel: Kernel, weight: Float[Array, " n"] | None = None) -> Float[Array, "n d"]:
    r"""Return the push that particle i feels from all others, :math:`\sum_j w_j \nabla_j K_{ij}`."""
    return as_kernel(kernel).repulsion(f, jnp.ones(f.shape[0], f.dtype) if weight is None else weight)


def svgd(f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Kernel) -> Float[Array, "n d"]:
    r"""Stein variational gradient descent (Table 1, row 1).

    .. math:: \phi_i = \frac1n \sum_j K_{ij}\, s_j + \nabla_j K_{ij}

    >>> import jax.numpy as jnp
    >>> from fpovi.kernels import rbf
    >>> svgd(jnp.zeros((1, 2)), jnp.ones((1, 2)), rbf(1.0)).tolist()  # one particle: the score itself
    [[1.0, 1.0]]
    """
    return (kernel(f, f) @ score + repulsion(f, kernel)) / f.shape[0]


def w_sgld_b(f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Kernel) -> Float[Array, "n d"]:
    r"""The blob method for the Wasserstein gradient flow (Table 1, row 2; Chen et al. 2018).

    .. math:: \phi_i = s_i + \sum_j \frac{\nabla_j K_{ji}}{\sum_k K_{jk}} + \frac{\sum_j \nabla_j K_{ji}}{\sum_k K_{ik}}
    """
    mass = jnp.sum(kernel(f, f), axis=1)
    return score + repulsion(f, kernel, 1 / mass) + repulsion(f, kernel) / mass[:, None]


def pi_sgld(f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Kernel) -> Float[Array, "n d"]:
    r"""The sum of the velocities of ``svgd`` and ``w_sgld_b`` (Table 1, row 3; Chen et al. 2018).

    .. math:: \phi_i = \phi_i^{\mathrm{svgd}} + \phi_i^{\mathrm{w\text{-}sgld\text{-}b}}

    A single particle therefore moves by twice its score.
    """
    return svgd(f, score, kernel) + w_sgld_b(f, score, kernel)


def gfsf(
    f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Kernel, ridge: float = 1e-3
) -> Float[Array, "n d"]:
    r"""Gradient flow with a smoothed test function (Table 1, row 4; Liu et al. 2019).

    .. math:: \phi_i = s_i + \sum_j (K + \lambda I)^{-1}_{ij} \sum_k \nabla_k K_{jk}

    The linear system is solved in double precision: K tends to the matrix of ones, which has no inverse, as particles
    come together.

    Args:
        f, score: values and score of the particles, ``(n, d)``.
        kernel: between particles.
        ridge: λ, 0 in the paper.

    Note:
        The paper's table writes the repulsion inside the sum as :math:`\nabla_j K_{ij}`; the method it cites
        estimates :math:`-\nabla\log q` by :math:`K^{-1}` applied to the repulsion, and so does the paper's code.
    """
    return score + _solve(kernel(f, f) + ridge * jnp.eye(f.shape[0], dtype=f.dtype), repulsion(f, kernel))


_solve = in_float64(jnp.linalg.solve)


def ensemble(f: Float[Array, "n d"], score: Float[Array, "n d"], kernel: Kernel) -> Float[Array, "n d"]:
    r"""No interaction: every particle climbs alone.

    .. math:: \phi_i = s_i
    """
    del f, kernel
    return score


FLOWS: dict[str, Flow] = {
    "svgd": svgd,
    "w_sgld_b": w_sgld_b,
    "pi_sgld": pi_sgld,
    "gfsf": gfsf,
    "ensemble": ensemble,
}
