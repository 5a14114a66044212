# SPDX-License-Identifier: Apache-2.0
"""The loop: cut anywhere it ends at the same bits, it is traced once, and it says where it went wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fpovi.inference import function_space
from fpovi.inference.batches import epoch_order, make_batch, pad, take
from fpovi.inference.loop import run
from fpovi.inference.particles import ravel
from fpovi.kernels import rbf
from fpovi.likelihoods import gaussian
from fpovi.measurement import train_only
from fpovi.networks import mlp
from fpovi.priors import flat, nngp
from fpovi.types import DivergedError, FunctionPrior, ParametrisedAlgorithm, Scales

N, ROWS = 3, 10
CHUNK = 10  # the same nearly everywhere, so that tests share what is compiled
NETWORK = mlp((1, 4, 1), activation=jnp.tanh)
DATA = make_batch(np.linspace(-1, 1, ROWS)[:, None].astype(np.float32), np.arange(ROWS, dtype=np.float32) / ROWS)


def counting_prior(traces):
    """A prior of score −f that notes every time Python runs it, which is once a trace."""

    def score(key, f, x):
        traces.append(f.shape)
        return -f

    return FunctionPrior(score)


def noisy_prior():
    """A prior with a random score, so that a step's key shows in its result."""
    return FunctionPrior(lambda key, f, x: -f + jax.random.normal(key, f.shape, f.dtype))


def an_algorithm(prior=None, rate=1e-2):
    """Adam's own count is part of the state, so sgd with momentum stands for optimisers that remember."""
    return function_space(
        NETWORK, gaussian(0.3), noisy_prior() if prior is None else prior, kernel=rbf(1.0),
        measurement=train_only(), optimiser=optax.sgd(rate, momentum=0.9),
    )  # fmt: skip


ALGORITHM = an_algorithm()
START = jax.jit(ALGORITHM.init, static_argnums=1)(jax.random.key(5), N)


def assert_same_bits(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    assert all(np.array_equal(np.asarray(x), np.asarray(y)) for x, y in leaves)


@pytest.mark.parametrize("batch_size", [None, 3], ids=["all rows", "mini-batches"])
def test_a_run_cut_in_two_is_the_whole_run(batch_size, key):
    """With batches of 3, an epoch has 4 steps and the last batch one fresh row: 6 is in the middle of an epoch."""
    options = {"batch_size": batch_size, "chunk_size": CHUNK}
    whole = run(key, ALGORITHM, START, DATA, 10, **options)
    first = run(key, ALGORITHM, START, DATA, 6, **options)
    second = run(key, ALGORITHM, first.state, DATA, 4, **options)
    assert_same_bits(second.state, whole.state)
    joined = jax.tree.map(lambda a, b: np.concatenate([a, b]), first.history, second.history)
    assert_same_bits(joined, whole.history)


@pytest.mark.parametrize("chunk_size", [1, 3])
def test_chunks_do_not_show_in_the_result(chunk_size, key):
    whole = run(key, ALGORITHM, START, DATA, 7, batch_size=3, chunk_size=CHUNK)
    cut = run(key, ALGORITHM, START, DATA, 7, batch_size=3, chunk_size=chunk_size)
    assert_same_bits(cut, whole)


def test_the_key_decides(key):
    results = [
        run(k, ALGORITHM, START, DATA, 4, chunk_size=CHUNK).state.particles for k in (key, key, jax.random.key(1))
    ]
    assert_same_bits(results[0], results[1])
    assert not np.array_equal(ravel(results[0])[0], ravel(results[2])[0])


def test_a_run_is_its_steps_one_by_one(key):
    """Step t gets ``fold_in(second half of key, t)`` and the batch of its epoch's order under the first half."""
    after = run(key, ALGORITHM, START, DATA, 5, batch_size=3, chunk_size=CHUNK)
    key_order, key_steps = jax.random.split(key)
    step, state = jax.jit(ALGORITHM.step), START
    for t in range(5):
        order = epoch_order(key_order, jnp.asarray(t // 4), jnp.ones(ROWS, bool), 3)
        fresh = (t % 4) * 3 + jnp.arange(3) < ROWS
        state, info = step(jax.random.fold_in(key_steps, t), state, take(DATA, order[t % 4], fresh))
        # another program than the loop's: a few units in the last place
        np.testing.assert_allclose(after.history.log_likelihood[t], info.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(ravel(after.state.particles)[0], ravel(state.particles)[0], rtol=1e-4, atol=1e-5)
    assert int(after.state.step) == 5


def test_one_trace_for_the_run_and_for_the_next(key):
    """Other values, other num_data, another key, more or fewer steps: nothing is traced again."""
    traces = []
    algorithm = an_algorithm(counting_prior(traces))
    state = run(key, algorithm, START, DATA, 10, chunk_size=5).state
    # the loop's body, and once for the shapes of the history
    once = len(traces)
    assert once <= 2
    other = DATA._replace(x=DATA.x + 1, y=2 * DATA.y, num_data=DATA.num_data * 3)
    run(jax.random.key(1), algorithm, START, other, 10, chunk_size=5)
    run(key, algorithm, state, DATA, 23, chunk_size=5)
    run(key, algorithm, START, DATA, 2, chunk_size=5)
    assert len(traces) == once
    run(key, algorithm, START, DATA, 6, chunk_size=6)  # the counter does count: another chunk is another program
    assert len(traces) > once


def test_history_has_a_row_for_every_step(key):
    history = run(key, ALGORITHM, START, DATA, 7, chunk_size=3).history
    assert all(leaf.shape == (7,) for leaf in history)
    assert np.all(history.finite)
    assert np.all(history.noise == np.float32(0.3))


def test_watch_sees_every_chunk_and_may_stop(key):
    seen = []

    def watch(state, history):
        seen.append((int(state.step), len(history.finite)))
        return int(state.step) >= 6

    stopped = run(key, ALGORITHM, START, DATA, 20, chunk_size=3, watch=watch)
    assert seen == [(3, 3), (6, 3)]
    assert int(stopped.state.step) == 6
    assert len(stopped.history.finite) == 6
    seen.clear()
    run(key, ALGORITHM, START, DATA, 4, chunk_size=3, watch=lambda state, history: seen.append(len(history.finite)))
    assert seen == [3, 1]


def failing_prior(at):
    """A prior whose carry counts steps and whose score is NaN from step ``at`` on."""

    def advance(key, count, f, x):
        return jnp.where(count >= at, jnp.nan, -f), count + 1

    return FunctionPrior(lambda key, f, x: -f, init=lambda key, particles: jnp.zeros((), jnp.int32), advance=advance)


@pytest.mark.parametrize("chunk_size", [4, 20])
def test_divergence_names_the_step_and_a_remedy(chunk_size, key):
    """Step 7, counted from 0, is the first that is not finite; the particles are those that step 6 left."""
    algorithm = an_algorithm(failing_prior(7))
    state = jax.jit(algorithm.init, static_argnums=1)(key, N)
    with pytest.raises(DivergedError, match=r"diverged at step 7: .*learning rate.*jitter") as caught:
        run(key, algorithm, state, DATA, 20, chunk_size=chunk_size)
    assert caught.value.step == 7
    rows = ravel(caught.value.particles)[0]
    assert np.all(np.isfinite(rows))
    before = run(key, algorithm, state, DATA, 7, chunk_size=chunk_size).state
    np.testing.assert_array_equal(rows, ravel(before.particles)[0])


@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_first_step_that_diverges_leaves_the_start(batch_size, key):
    algorithm = an_algorithm(failing_prior(0))
    state = jax.jit(algorithm.init, static_argnums=1)(key, N)
    with pytest.raises(DivergedError, match="diverged at step 0") as caught:
        run(key, algorithm, state, DATA, 5, batch_size=batch_size)
    np.testing.assert_array_equal(ravel(caught.value.particles)[0], ravel(state.particles)[0])


def test_a_step_says_that_what_it_leaves_is_not_finite(key):
    algorithm = an_algorithm(failing_prior(0))
    after, info = jax.jit(algorithm.step)(key, jax.jit(algorithm.init, static_argnums=1)(key, N), DATA)
    assert not info.finite
    assert int(after.step) == 1


@pytest.mark.parametrize("rate", [1e12, 1e38])
def test_a_huge_learning_rate_diverges_with_finite_particles(rate, key):
    algorithm = an_algorithm(flat(), rate=rate)
    with pytest.raises(DivergedError, match="lower the optimiser's learning rate") as caught:
        run(key, algorithm, jax.jit(algorithm.init, static_argnums=1)(key, N), DATA, 50)
    assert np.all(np.isfinite(ravel(caught.value.particles)[0]))


@pytest.mark.parametrize(
    ("options", "name"),
    [({"num_steps": 0}, "num_steps=0"), ({"chunk_size": 0}, "chunk_size=0"), ({"batch_size": 0}, "batch_size=0")],
)
def test_bad_arguments_are_named(options, name, key):
    with pytest.raises(ValueError, match=name):
        run(key, ALGORITHM, START, DATA, **{"num_steps": 5, **options})


def test_an_epoch_visits_every_row_once(key):
    """The prior remembers how often it saw each x; a row that fills up the last batch is seen but weighs nothing."""

    def advance(key, seen, f, x):
        row = jnp.round((x[:, 0] + 1) / 2 * (ROWS - 1)).astype(jnp.int32)
        return -f, seen.at[row].add(1)

    prior = FunctionPrior(lambda key, f, x: -f, init=lambda key, particles: jnp.zeros(ROWS, jnp.int32), advance=advance)
    algorithm = an_algorithm(prior)
    state = jax.jit(algorithm.init, static_argnums=1)(key, N)
    even = run(key, algorithm, state, DATA, 6, batch_size=5, chunk_size=2).state.prior
    np.testing.assert_array_equal(even, 3)
    filled = np.asarray(run(key, algorithm, state, DATA, 4, batch_size=3, chunk_size=4).state.prior)
    assert filled.sum() == 12
    assert set(filled) == {1, 2}


def test_an_algorithm_is_traced_once_for_all_its_numbers(key):
    """Other prior scales, the same program; and what it computes is what the fixed algorithm does."""
    traces = []

    def build(weight):
        traces.append(weight)
        network = mlp((1, 4, 1), jax.nn.relu, Scales(jnp.ones(1), weight, jnp.ones(2), jnp.asarray(0.1)))
        return function_space(
            network, gaussian(0.3), nngp(network), kernel=rbf(1.0), measurement=train_only(),
            optimiser=optax.sgd(1e-3),
        )  # fmt: skip

    ends = [
        run(key, ParametrisedAlgorithm(build, w * jnp.ones(2)), START, DATA, 4, chunk_size=CHUNK).state
        for w in (1.0, 2.0)
    ]
    inside = sum(isinstance(weight, jax.core.Tracer) for weight in traces)
    assert inside == 1
    fixed = run(key, build(2.0 * jnp.ones(2)), START, DATA, 4, chunk_size=CHUNK).state
    # the same operations, with the scales folded into other constants
    for ours, theirs in zip(jax.tree.leaves(ends[1].particles), jax.tree.leaves(fixed.particles), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert not jnp.allclose(ends[0].particles.weights[0], ends[1].particles.weights[0])


def test_an_epoch_of_padded_data_has_as_many_batches_as_the_data(key):
    """10 rows padded to 16: batches of 3 visit the 10 rows in 4 steps, and none of them is empty."""
    seen = []
    data = pad(DATA, 16)
    data = data._replace(x=data.x.at[ROWS:].set(99.0))
    algorithm = an_algorithm(FunctionPrior(lambda key, f, x: jax.debug.callback(seen.append, x) or -f))
    after = run(key, algorithm, START, data, 4, batch_size=3, chunk_size=4)
    jax.effects_barrier()
    visited = np.concatenate(seen)[:, 0]
    assert set(visited.tolist()) == set(np.asarray(DATA.x[:, 0]).tolist())
    assert np.all(after.history.log_likelihood < 0)
