# SPDX-License-Identifier: Apache-2.0
"""What every prior over functions promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.inference.particles import sample_prior
from fpovi.networks import mlp
from fpovi.priors import PRIORS
from fpovi.types import Network

NETWORK = mlp((2, 20, 1))
MAKE = {
    "moment_matched": lambda: PRIORS["moment_matched"](NETWORK),
    "gaussian_process": lambda: PRIORS["gaussian_process"](lambda a, b: jnp.exp(-jnp.sum((a[:, None] - b) ** 2, -1))),
    "nngp": lambda: PRIORS["nngp"](NETWORK),
    "sampled_gp": lambda: PRIORS["sampled_gp"](NETWORK),
    "ssge": lambda: PRIORS["ssge"](NETWORK, draws=50),
    "width_aware": lambda: PRIORS["width_aware"](NETWORK),
    "flat": lambda: PRIORS["flat"](),
}


def f_and_x(key, n=3):
    return jax.random.normal(key, (n, 4, 1)), jax.random.normal(key, (4, 2))


def test_every_member_is_here():
    assert set(MAKE) == set(PRIORS)


@pytest.mark.parametrize("name", MAKE)
def test_score_has_the_shape_and_dtype_of_f_and_follows_the_key(name, key):
    prior = MAKE[name]()
    f, x = f_and_x(key)
    ask = jax.jit(prior.score)
    score = ask(key, f, x)
    assert (score.shape, score.dtype) == (f.shape, f.dtype)
    assert jnp.all(jnp.isfinite(score))
    np.testing.assert_array_equal(score, ask(key, f, x))


@pytest.mark.parametrize("name", MAKE)
def test_other_outputs_than_the_chosen_feel_nothing(name, key):
    network = mlp((2, 20, 3))
    takes_network = name not in ("gaussian_process", "flat")
    prior = PRIORS[name](network) if takes_network else MAKE[name]()
    f, x = jax.random.normal(key, (2, 4, 3)), jax.random.normal(key, (4, 2))
    ask = jax.jit(prior.score)
    score = ask(key, f, x, jnp.asarray([2, 0]))
    assert jnp.all(score[..., 1] == 0)
    assert bool(jnp.any(score != 0)) == (name != "flat")
    # the third output is not looked at
    np.testing.assert_array_equal(score, ask(key, f.at[..., 1].add(1.0), x, jnp.asarray([2, 0])))


@pytest.mark.parametrize("name", MAKE)
def test_particles_do_not_see_each_other(name, key):
    f, x = f_and_x(key)
    ask = jax.jit(MAKE[name]().score)
    others_moved = ask(key, f.at[1:].add(1.0), x)
    # the same shapes and sums: only the other particles' values have changed
    np.testing.assert_allclose(ask(key, f, x)[:1], others_moved[:1], rtol=1e-6)


@pytest.mark.parametrize("name", MAKE)
def test_score_is_the_gradient_of_log_prob(name, key, x64):
    prior = MAKE[name]()
    if prior.log_prob is None:
        assert name in ("moment_matched", "sampled_gp", "ssge", "width_aware")
        return
    f, x = f_and_x(key)
    gradient = jax.jit(jax.grad(lambda f: jnp.sum(prior.log_prob(key, f, x))))(f)
    np.testing.assert_allclose(jax.jit(prior.score)(key, f, x), gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", sorted(set(MAKE) - {"flat"}))
def test_far_from_zero_the_prior_pulls_back(name, key):
    x = jax.random.normal(key, (4, 2))
    f = 3 * jnp.ones((1, 4, 1))
    assert float(jnp.sum(f * jax.jit(MAKE[name]().score)(key, f, x))) < 0


@pytest.mark.parametrize("name", MAKE)
def test_a_carry_keeps_its_shape(name, key):
    """So that a run can be one loop; a prior without ``advance`` carries nothing."""
    prior = MAKE[name]()
    f, x = f_and_x(key)
    carry = prior.init(key, sample_prior(key, NETWORK, 3))
    if prior.advance is None:
        assert carry == ()
        return
    score, after = jax.jit(prior.advance)(key, carry, f, x)
    assert (score.shape, score.dtype) == (f.shape, f.dtype)
    described = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)  # noqa: E731
    assert described(after) == described(carry)
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(carry))


@pytest.mark.parametrize("name", ["nngp", "width_aware"])
def test_unknown_architecture_is_an_error_that_names_alternatives(name):
    bare = Network(NETWORK.init, NETWORK.sample_prior, NETWORK.log_prior, NETWORK.apply)
    with pytest.raises(ValueError, match=f"prior={name} needs .* use moment_matched or ssge"):
        PRIORS[name](bare)


@pytest.mark.parametrize("name", ["moment_matched", "ssge"])
def test_draws_must_be_at_least_two(name):
    with pytest.raises(ValueError, match="draws=1 must be at least 2"):
        PRIORS[name](NETWORK, draws=1)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match="floor=0"):
        PRIORS["moment_matched"](NETWORK, floor=0.0)
    with pytest.raises(ValueError, match="jitter=-1"):
        PRIORS["gaussian_process"](lambda a, b: a @ b.T, jitter=-1.0)
    with pytest.raises(ValueError, match="kept=0"):
        PRIORS["ssge"](NETWORK, kept=0.0)
    with pytest.raises(ValueError, match=r"jitter=0\.0 must be positive"):
        PRIORS["width_aware"](NETWORK, jitter=0.0)
    with pytest.raises(ValueError, match=r"step_size=-1\.0 must be positive"):
        PRIORS["width_aware"](NETWORK, step_size=-1.0)
