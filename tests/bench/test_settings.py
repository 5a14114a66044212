# SPDX-License-Identifier: Apache-2.0
"""The shapes of the bench, and the work that they mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.bench.contestants.bare import LAYOUTS, bare_pass, draw_networks, together
from fpovi.bench.contestants.ours import function_algorithm
from fpovi.bench.settings import SETTINGS, SWEEPS, Setting, make_workload, swept
from fpovi.bench.timing import UnavailableError
from fpovi.inference.particles import init_particles

TINY = Setting("tiny", (3, 8, 1), batch=6, extra=4, n=3, prior_points=4)
DEEP = Setting("deep", (30, 40, 50, 10), batch=64, extra=0, n=4, classes=True)


def test_flops_by_hand():
    # two products of (10, 3)×(3, 8) and one of (10, 8)×(8, 1) forward; the same for weights; (10, 1)×(1, 8) for inputs
    forward = 2 * 10 * 3 * 8 + 2 * 10 * 8 * 1
    assert TINY.pass_flops == 3 * (2 * forward + 2 * 10 * 8 * 1)


def test_flops_by_the_compiler():
    """XLA counts its own operations; beside the matrix products those are a few per activation, some percent."""
    keys = jax.random.split(jax.random.key(0), 3)
    theta = draw_networks(keys[0], DEEP.sizes, DEEP.n)
    x, velocity = jnp.ones((64, 30)), jnp.ones((4, 64, 10))
    counted = jax.jit(together).lower(theta, x, velocity).compile().cost_analysis()["flops"]
    assert DEEP.pass_flops < counted < 1.1 * DEEP.pass_flops


def test_weights_are_counted():
    theta, _ = init_particles(jax.random.key(0), make_workload(DEEP).network, 1)
    assert DEEP.num_weights == sum(leaf.size for leaf in jax.tree.leaves(theta))


@pytest.mark.parametrize("setting", [TINY, DEEP])
def test_workload_has_the_shapes_of_its_setting(setting):
    parts = make_workload(setting)
    assert parts.labelled.x.shape == (setting.batch, setting.sizes[0])
    assert parts.all_rows.x.shape == (setting.points, setting.sizes[0])
    assert parts.likelihood.targets(setting.sizes[-1]) == parts.all_rows.y.shape[1]
    assert jnp.array_equal(parts.labelled.y, parts.all_rows.y[: setting.batch])


@pytest.mark.parametrize("axis", SWEEPS)
def test_sweeps_vary_one_thing(axis):
    for setting, value in zip(swept(SETTINGS["wide"], axis), SWEEPS[axis], strict=True):
        assert setting.name == f"wide {axis}={value}"
        expected = (784, value, value, 10) if axis == "width" else value
        assert getattr(setting, "sizes" if axis == "width" else axis) == expected


def test_unknown_sweep_is_refused():
    with pytest.raises(ValueError, match="sweep='depth' is not known; choose one of batch, n, prior_points, width"):
        swept(TINY, "depth")


@pytest.mark.parametrize("setting", [TINY, DEEP], ids=lambda setting: setting.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_layouts_of_the_bare_pass_compute_the_same(layout, setting):
    """Against one network after the other, by hand; float32 sums of at most 64 terms."""
    keys = jax.random.split(jax.random.key(1), 3)
    theta = draw_networks(keys[0], setting.sizes, setting.n)
    x = jax.random.normal(keys[1], (setting.points, setting.sizes[0]))
    velocity = jax.random.normal(keys[2], (setting.n, setting.points, setting.sizes[-1]))
    arrange, gradients = LAYOUTS[layout]
    found = jax.jit(gradients)(arrange(theta), x, velocity)
    for i in range(setting.n):
        expected = by_hand([(np.asarray(w[i]), np.asarray(b[i])) for w, b in theta], np.asarray(x), velocity[i])
        for (weight, bias), mine in zip(expected, unarranged(layout, found), strict=True):
            assert np.allclose(mine[0][i], weight, rtol=1e-4, atol=1e-4)
            assert np.allclose(mine[1][i], bias, rtol=1e-4, atol=1e-4)


def unarranged(layout, theta):
    theta = [(np.asarray(weight), np.asarray(bias)) for weight, bias in theta]
    if layout == "wide":
        return [(np.moveaxis(theta[0][0], 1, 0), theta[0][1]), *theta[1:]]
    return [(np.swapaxes(weight, 1, 2), bias) for weight, bias in theta] if layout.startswith("rows") else theta


def by_hand(theta, x, velocity):
    """Backpropagation written out in NumPy."""
    inputs, velocity = [x], np.asarray(velocity)
    for layer, (weight, bias) in enumerate(theta[:-1]):
        inputs.append(np.maximum(inputs[layer] @ weight + bias, 0))
    gradients = []
    for a, (weight, _) in zip(reversed(inputs), reversed(theta), strict=True):
        gradients.append((a.T @ velocity, velocity.sum(axis=0)))
        velocity = (velocity @ weight.T) * (a > 0)
    return gradients[::-1]


def test_a_residual_network_has_its_weights_and_flops():
    """By hand: kernels of 3×3 on images of 32², 16² and 8² pixels, and a dense layer of 32 features."""
    setting = SETTINGS["resnet"]
    stages = [(8 * 8 + 8 * 8, 32**2), (8 * 16 + 16 * 16, 16**2), (16 * 32 + 32 * 32, 8**2)]
    first, later = 9 * 3 * 8 * 32**2, sum(9 * weights * pixels for weights, pixels in stages) + 32 * 10
    assert setting.pass_flops == 8 * 128 * (4 * (first + later) + 2 * later)
    assert setting.num_weights == 9 * 3 * 8 + sum(9 * weights for weights, _ in stages) + 32 * 10 + 10
    parts = make_workload(setting._replace(batch=2))
    assert parts.labelled.x.shape == (2, 32, 32, 3)
    assert parts.network.architecture is None


def test_priors_for_perceptrons_are_unavailable_for_a_residual_network():
    setting = SETTINGS["resnet"]._replace(batch=2)
    with pytest.raises(UnavailableError, match="prior=nngp needs a network with a known architecture"):
        function_algorithm("svgd", "nngp", setting)
    with pytest.raises(UnavailableError, match="perceptrons only"):
        bare_pass("vmap", setting)
    assert function_algorithm("svgd", "moment_matched", setting)
