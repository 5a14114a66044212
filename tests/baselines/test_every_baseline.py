# SPDX-License-Identifier: Apache-2.0
"""What all baselines have in common, on one small problem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fpovi.baselines import BASELINES, sghmc
from fpovi.baselines.layers import describe_layers
from fpovi.inference.batches import make_batch
from fpovi.likelihoods import categorical, gaussian
from fpovi.networks import from_equinox, mlp
from fpovi.predictive import predict

pytestmark = pytest.mark.usefixtures("loose_dtypes")
NETWORK = mlp((2, 8, 1))
STEPS, N = 2000, 8


def a_plane(rows=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2)).astype(np.float32)
    return x, (x @ [0.8, -0.5] + 0.1 * rng.normal(size=rows)).astype(np.float32)


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_learns_a_plane(name, key):
    """Better than the best constant by far, with mini-batches of which the last is short; and members differ."""
    x, y = a_plane()
    looks = []
    state = BASELINES[name](
        key, NETWORK, gaussian(floor=0.0), make_batch(x, y), num_steps=STEPS, n=N, batch_size=25,
        watch=lambda state, history: looks.append(int(state.step)),
    )  # fmt: skip
    predictive = predict(NETWORK, gaussian(floor=0.0), state, x, shift=0.0, scale=2.0)
    assert predictive.f.shape == (N, 60, 1)
    assert float(jnp.std(predictive.mean[:, 0] / 2 - y)) < 0.5 * y.std()
    assert np.ptp(np.asarray(predictive.f), axis=0).max() > 0
    assert len(looks) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_the_same_key_gives_the_same_draws(name, key):
    x, y = a_plane(20)
    draw = lambda key: BASELINES[name](key, NETWORK, gaussian(0.1), make_batch(x, y), num_steps=16, n=4)  # noqa: E731
    once, again, other = draw(key), draw(key), draw(jax.random.key(1))
    same = lambda a, b: all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))  # noqa: E731
    assert same(once.particles, again.particles)
    assert not same(once.particles, other.particles)


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_classes(name, key):
    x, y = a_plane(20)
    network = mlp((2, 4, 2))
    state = BASELINES[name](key, network, categorical(), make_batch(x, (y > 0).astype(int)), num_steps=16, n=4)
    assert predict(network, categorical(), state, x).probs.shape == (20, 2)


@pytest.mark.parametrize("name", BASELINES)
def test_targets_that_do_not_fit_are_refused(name, key):
    x, y = a_plane(20)
    with pytest.raises(ValueError, match="y has 2 targets per row"):
        BASELINES[name](key, NETWORK, gaussian(0.1), make_batch(x, np.stack([y, y], axis=1)), num_steps=16, n=4)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("count", ["n", "num_steps"])
def test_there_is_at_least_one_draw_and_one_step(name, count, key):
    x, y = a_plane(20)
    with pytest.raises(ValueError, match=f"{count}=0 must be at least 1"):
        BASELINES[name](key, NETWORK, gaussian(0.1), make_batch(x, y), **{"num_steps": 16, "n": 4, count: 0})


@pytest.mark.parametrize("name", ["mc_dropout", "bayes_by_backprop"])
def test_networks_without_known_layers_are_refused(name, key):
    import equinox as eqx

    x, y = a_plane(20)
    other = from_equinox(lambda key: eqx.nn.MLP(2, 1, 4, 1, key=key))
    with pytest.raises(ValueError, match="network must be an mlp"):
        BASELINES[name](key, other, gaussian(0.1), make_batch(x, y), num_steps=16, n=4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 6, "chains": 4}, "n=6 must be a multiple of chains=4"),
        ({"n": 8, "num_steps": 7}, "num_steps=7 must be at least 8"),
        ({"step_size": 0.0}, "step_size=0.0 must be positive"),
        ({"leapfrogs": 0}, "leapfrogs=0 at least 1"),
    ],
)
def test_settings_of_sghmc_are_checked(options, said, key):
    x, y = a_plane(20)
    with pytest.raises(ValueError, match=said):
        sghmc(key, NETWORK, gaussian(0.1), make_batch(x, y), **{"num_steps": 40, **options})


def test_dropout_rates_are_checked(key):
    x, y = a_plane(20)
    with pytest.raises(ValueError, match=r"rate=1.0 must be at least 0 and below 1"):
        BASELINES["mc_dropout"](key, NETWORK, gaussian(0.1), make_batch(x, y), num_steps=16, rate=1.0)


def test_a_weight_without_variance_is_refused():
    from fpovi.networks import fan_in_scales

    scales = fan_in_scales((2, 3, 1))._replace(bias_variance=jnp.asarray([1.0, 0.0]))
    with pytest.raises(ValueError, match=r"scales\.bias_variance=.* must be positive"):
        describe_layers(mlp((2, 3, 1), scales=scales))
