# SPDX-License-Identifier: Apache-2.0
"""Every likelihood against scipy, and what all likelihoods have in common."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from fpovi.likelihoods import (
    LIKELIHOODS,
    Floored,
    gaussian,
    heteroscedastic,
    inverse_gamma_log_prob,
    mixture,
    student_t,
)
from fpovi.types import Support

ROWS, TARGETS = 6, 2
NUMERIC = sorted(set(LIKELIHOODS) - {"categorical"})
WITH_NOISE = ["gaussian", "student_t"]
WITHOUT_FLOOR = {"gaussian": {"floor": 0.0}, "student_t": {}}
OPTIONS = {
    "gaussian": {"noise_scale": 0.7},
    "student_t": {"df": 5.0, "noise_scale": 0.7},
    "mixture": {"floor": 0.1},
}
WIDTHS = {"heteroscedastic": 2, "mixture": 9}  # outputs for a target, where it is not one


def make(name):
    return LIKELIHOODS[name](**OPTIONS.get(name, {}))


def scipy_twin(name, f):
    """The distribution of y ``(B, m)`` that the docstring describes."""
    if name == "gaussian":
        return stats.norm(f, 0.7)
    if name == "student_t":
        return stats.t(5, f, 0.7)
    if name == "heteroscedastic":
        return stats.norm(f[:, :TARGETS], 1e-3 + np.log1p(np.exp(f[:, TARGETS:])))
    if name == "mixture":
        return NormalMixture(f)
    if name == "bernoulli":
        return stats.bernoulli(special.expit(f))
    if name == "poisson":
        return stats.poisson(np.exp(f))
    raise NotImplementedError(f"give the new likelihood {name} a twin in scipy")


class NormalMixture:
    """Three normals of scipy's with weights, for outputs in the order of the docstring: all a, all μ, all b."""

    class dist:
        name = "mixture"

    def __init__(self, f):
        a, mean, b = f.reshape(ROWS, 3, 3, TARGETS).transpose(1, 2, 0, 3)
        self.weights, self.normals = special.softmax(a, axis=0), stats.norm(mean, 0.1 + np.log1p(np.exp(b)))

    def _mixed(self, values):
        return np.sum(self.weights * values, axis=0)

    def logpdf(self, y):
        return np.log(self._mixed(self.normals.pdf(y)))

    def cdf(self, y):
        return self._mixed(self.normals.cdf(y))

    def mean(self):
        return self._mixed(self.normals.mean())

    def var(self):
        return self._mixed(self.normals.moment(2)) - self.mean() ** 2

    def stats(self, moments):
        first, second, third, fourth = (self._mixed(self.normals.moment(order)) for order in (1, 2, 3, 4))
        central = fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4
        return self.var(), central / self.var() ** 2 - 3

    def rvs(self, random_state):
        which = np.argmax(random_state.random((ROWS, TARGETS)) < np.cumsum(self.weights, axis=0), axis=0)
        draws = self.normals.rvs(size=self.weights.shape, random_state=random_state)
        return np.take_along_axis(draws, which[None], axis=0)[0]


def values(name):
    likelihood = make(name)
    return np.random.default_rng(0).normal(size=(ROWS, likelihood.width(TARGETS)))


def targets(name, f):
    if name == "categorical":
        return np.arange(ROWS)[:, None] % f.shape[1]
    return scipy_twin(name, f).rvs(random_state=np.random.default_rng(1)).astype(float)


def log_density(twin, y):
    return twin.logpmf(y) if hasattr(twin.dist, "logpmf") else twin.logpdf(y)


@pytest.mark.parametrize("name", NUMERIC)
def test_log_prob_is_scipys(name, x64):
    likelihood, f = make(name), values(name)
    y = targets(name, f)
    got = likelihood.log_prob(likelihood.init(), jnp.asarray(f), jnp.asarray(y))
    # float64; gammaln in the Student t and the Poisson density is good to about 1e-12
    np.testing.assert_allclose(got, log_density(scipy_twin(name, f), y), rtol=1e-10)


@pytest.mark.parametrize("name", NUMERIC)
def test_mean_and_variance_are_scipys(name, x64):
    likelihood, f = make(name), values(name)
    twin, params = scipy_twin(name, f), likelihood.init()
    np.testing.assert_allclose(likelihood.mean(params, jnp.asarray(f)), twin.mean(), rtol=1e-12)  # one rounding
    np.testing.assert_allclose(likelihood.variance(params, jnp.asarray(f)), twin.var(), rtol=1e-12)


@pytest.mark.parametrize("shift", [-30.0, -1.0, -0.3, 0.0, 1e-4, 0.5, 3.0])
@pytest.mark.parametrize("name", NUMERIC)
def test_cdf_is_scipys(name, shift, x64):
    """In the middle, in the tails, between whole numbers and below all of them."""
    likelihood, f = make(name), values(name)
    y = targets(name, f) + shift
    got = likelihood.cdf(likelihood.init(), jnp.asarray(f), jnp.asarray(y))
    # incomplete beta and gamma functions in float64, relative even in the far tail
    np.testing.assert_allclose(got, scipy_twin(name, f).cdf(y), rtol=1e-10, atol=1e-300)


def test_student_t_cdf_keeps_its_digits_in_float32():
    z = np.concatenate([-np.logspace(3, -6, 40), np.logspace(-6, 3, 40)]).astype(np.float32)[:, None]
    likelihood = student_t(4.0, noise_scale=1.0)
    got = likelihood.cdf((), jnp.zeros_like(z), jnp.asarray(z))
    # ten units in the last place, in the lower tail (1e-11) as near the median
    np.testing.assert_allclose(got, stats.t.cdf(z.astype(float), 4), rtol=1e-5)
    np.testing.assert_allclose(got, stats.t.cdf(z.astype(float), 4), atol=5e-7)


@pytest.mark.parametrize("name", NUMERIC)
def test_samples_have_the_moments(name, key):
    likelihood, f, n = make(name), values(name), 20_000
    twin, params = scipy_twin(name, f), likelihood.init()
    repeated = jnp.asarray(np.tile(f, (n, 1)), jnp.float32)
    draws = np.asarray(likelihood.sample(key, params, repeated), float).reshape(n, ROWS, TARGETS)
    # five standard errors of a mean and of a variance, the latter var·√((kurtosis + 2)/n); 1e-3 where that vanishes
    variance, kurtosis = twin.stats("vk")
    assert np.all(np.abs(draws.mean(0) - twin.mean()) < 5 * np.sqrt(variance / n))
    assert np.all(np.abs(draws.var(0) / variance - 1) < 5 * np.sqrt((kurtosis + 2) / n) + 1e-3)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.uint8])
@pytest.mark.parametrize("name", NUMERIC)
def test_targets_may_be_whole_numbers(name, dtype):
    likelihood, f = make(name), jnp.asarray(values(name), jnp.float32)
    y = np.arange(ROWS * TARGETS).reshape(ROWS, TARGETS) % 2
    for function in (likelihood.log_prob, likelihood.cdf):
        whole, real = (function((), f, jnp.asarray(y, kind)) for kind in (dtype, jnp.float32))
        np.testing.assert_array_equal(whole, real)
        assert whole.dtype == jnp.float32


def test_categorical_by_hand(x64):
    likelihood, f = make("categorical"), np.random.default_rng(0).normal(size=(4, 3))
    y = np.array([[0], [1], [2], [1]])
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    chosen = p[np.arange(4), y[:, 0]][:, None]
    up_to = np.array([[p[i, : y[i, 0] + 1].sum()] for i in range(4)])
    canonical = likelihood.canonical(jnp.asarray(f))
    np.testing.assert_allclose(jnp.exp(canonical).sum(axis=1), 1, rtol=1e-12)  # float64 rounding, here and below
    np.testing.assert_allclose(likelihood.log_prob((), canonical, jnp.asarray(y)), np.log(chosen), rtol=1e-12)
    np.testing.assert_allclose(likelihood.mean((), canonical), p, rtol=1e-12)
    np.testing.assert_allclose(likelihood.variance((), canonical), p * (1 - p), rtol=1e-12)
    np.testing.assert_allclose(likelihood.cdf((), canonical, jnp.asarray(y)), up_to, rtol=1e-12)


def test_categorical_canonical_forgets_a_common_shift(key):
    likelihood = make("categorical")
    outputs = jax.random.normal(key, (4, 3))
    # a shift by 100 costs float32 about 1e-5
    np.testing.assert_allclose(likelihood.canonical(outputs + 100), likelihood.canonical(outputs), atol=3e-5)


def test_categorical_samples_have_the_probabilities(key):
    likelihood, n = make("categorical"), 20_000
    f = likelihood.canonical(jax.random.normal(key, (4, 3)))
    draws = likelihood.sample(key, (), jnp.tile(f, (n, 1))).reshape(n, 4, 1)
    frequency = np.stack([(draws[..., 0] == c).mean(axis=0) for c in range(3)], axis=1)
    # five standard errors of a frequency, at most √(1/4n)
    np.testing.assert_allclose(frequency, jnp.exp(f), atol=5 * (1 / (4 * n)) ** 0.5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_categorical_takes_any_whole_numbers(dtype):
    likelihood = make("categorical")
    f = likelihood.canonical(jnp.arange(6.0).reshape(2, 3))
    got = likelihood.log_prob((), f, jnp.asarray([[2], [0]], dtype))
    np.testing.assert_array_equal(got, [[f[0, 2]], [f[1, 0]]])


@pytest.mark.parametrize("extreme", [-80.0, 80.0])  # e^80 is still a float32
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradient_is_finite_at_extreme_outputs(name, extreme):
    likelihood, outputs = make(name), values(name)
    y = targets(name, outputs)
    y = jnp.asarray(y, jnp.int32 if name == "categorical" else jnp.float32)
    sign = np.where(np.arange(outputs.shape[1]) % 2, -1.0, 1.0)
    outputs = jnp.asarray(np.broadcast_to(extreme * sign, outputs.shape), jnp.float32)
    total = lambda f: jnp.sum(likelihood.log_prob(likelihood.init(), likelihood.canonical(f), y))  # noqa: E731
    value, gradient = jax.value_and_grad(total)(outputs)
    assert jnp.isfinite(value)
    assert jnp.all(jnp.isfinite(gradient))
    assert jnp.any(gradient != 0)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_dtype_follows_f(name, key, x64):
    """Where float64 exists, a float32 model stays in float32."""
    likelihood = LIKELIHOODS[name]()
    f = jnp.asarray(values(name), jnp.float32)
    y = jnp.asarray(targets(name, values(name)), jnp.int32 if name == "categorical" else jnp.float32)
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), likelihood.init())
    results = {
        "canonical": jax.eval_shape(likelihood.canonical, f),
        "log_prob": jax.eval_shape(likelihood.log_prob, params, f, y),
        "mean": jax.eval_shape(likelihood.mean, params, f),
        "variance": jax.eval_shape(likelihood.variance, params, f),
        "cdf": jax.eval_shape(likelihood.cdf, params, f, y),
        "sample": jax.eval_shape(likelihood.sample, key, params, f),
    }
    if name == "categorical":
        assert jnp.issubdtype(results.pop("sample").dtype, jnp.integer)
    assert {what: result.dtype for what, result in results.items()} == dict.fromkeys(results, jnp.float32)


@pytest.mark.parametrize("name", WITH_NOISE)
def test_noise_starts_at_a_half(name):
    likelihood = LIKELIHOODS[name](**WITHOUT_FLOOR[name])
    assert likelihood.noise(likelihood.init()) == pytest.approx(0.5, rel=1e-6)  # float32
    f = jnp.zeros((1, 1))
    spread = likelihood.variance(likelihood.init(), f) / make(name).variance((), f)
    assert float(spread[0, 0]) == pytest.approx((0.5 / 0.7) ** 2 * (1 if name == "gaussian" else 2 / (5 / 3)), rel=1e-5)


@pytest.mark.parametrize("name", WITH_NOISE)
def test_noise_may_start_elsewhere(name):
    likelihood = LIKELIHOODS[name](start=0.1, **WITHOUT_FLOOR[name])
    assert likelihood.noise(likelihood.init()) == pytest.approx(0.1, rel=1e-6)  # float32


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_params_have_a_settled_type(name):
    """A weakly typed parameter becomes another type after one step, and the step is compiled twice."""
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(LIKELIHOODS[name]().init()))


@pytest.mark.parametrize("name", WITH_NOISE)
def test_fixed_noise_has_nothing_to_learn(name):
    likelihood = LIKELIHOODS[name](noise_scale=0.3)
    assert jax.tree.leaves(likelihood.init()) == []
    assert likelihood.noise(likelihood.init()) == pytest.approx(0.3)
    assert likelihood.log_prior(likelihood.init()) == 0


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", WITH_NOISE)
def test_noise_is_shared_where_asked(name, shared):
    assert LIKELIHOODS[name](shared=shared).shared is shared


@pytest.mark.parametrize("name", NUMERIC)
def test_width_is_the_outputs_that_m_targets_need(name):
    likelihood = make(name)
    f = jnp.zeros((2, likelihood.width(3)))
    assert likelihood.width(3) == 3 * WIDTHS.get(name, 1)
    assert likelihood.targets(likelihood.width(3)) == 3
    assert likelihood.mean(likelihood.init(), f).shape == (2, 3)
    assert likelihood.log_prob(likelihood.init(), f, jnp.zeros((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("name", NUMERIC)
def test_targets_are_independent_of_each_other(name, x64):
    likelihood, f = make(name), values(name)
    y, params = targets(name, f), likelihood.init()
    together = likelihood.log_prob(params, jnp.asarray(f), jnp.asarray(y))
    for target in range(TARGETS):
        alone = likelihood.log_prob(params, jnp.asarray(f[:, target::TARGETS]), jnp.asarray(y[:, target, None]))
        np.testing.assert_array_equal(together[:, target], alone[:, 0])


def test_noise_prior_is_inverse_gamma_on_the_standard_deviation(x64):
    sigma = np.array([1e-3, 0.05, 0.5, 20.0])
    # float64, a handful of operations
    np.testing.assert_allclose(
        inverse_gamma_log_prob(jnp.asarray(sigma), 2.5, 0.3), stats.invgamma.logpdf(sigma, 2.5, scale=0.3), rtol=1e-12
    )
    likelihood = gaussian(start=0.2, floor=0.0)
    assert float(likelihood.log_prior(likelihood.init())) == pytest.approx(
        stats.invgamma.logpdf(0.2, 1, scale=0.1), rel=1e-12
    )


@pytest.mark.parametrize("name", NUMERIC)
def test_says_truly_whether_it_is_normal_or_binary(name, x64):
    """Its normals, mixed by scipy, are the density it says it has."""
    likelihood, f = make(name), values(name)
    twin, y = scipy_twin(name, f), jnp.asarray(targets(name, f))
    assert (likelihood.normal_components is not None) == (twin.dist.name in ("norm", "mixture"))
    assert (likelihood.support is Support.BINARY) == (twin.dist.name == "bernoulli")
    if likelihood.normal_components is not None:
        weight, mean, scale = likelihood.normal_components(likelihood.init(), jnp.asarray(f))
        assert weight.shape == mean.shape == scale.shape == (weight.shape[0], ROWS, TARGETS)
        density = np.sum(weight * stats.norm.pdf(y, mean, scale), axis=0)
        np.testing.assert_allclose(np.log(density), log_density(twin, y), rtol=1e-10)  # float64


BAD = [0.0, -1.0, float("nan"), float("inf")]


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("argument", ["noise_scale", "start"])
@pytest.mark.parametrize("name", WITH_NOISE)
def test_noise_must_be_positive(name, argument, bad):
    with pytest.raises(ValueError, match=f"{argument}={bad} must be positive and finite"):
        LIKELIHOODS[name](**{argument: bad})


@pytest.mark.parametrize("df", [2.0, 0.0, float("nan"), float("inf")])
def test_df_must_be_above_two(df):
    with pytest.raises(ValueError, match=f"df={df} must be finite and above 2"):
        student_t(df)


@pytest.mark.parametrize("floor", BAD)
@pytest.mark.parametrize("make", [heteroscedastic, mixture])
def test_floor_must_be_positive(make, floor):
    with pytest.raises(ValueError, match=f"floor={floor} must be positive and finite"):
        make(floor=floor)


@pytest.mark.parametrize("components", [0, -1, True])
def test_components_must_be_a_positive_whole_number(components):
    with pytest.raises(ValueError, match=f"components={components} must be a positive whole number"):
        mixture(components)


def test_a_mixture_of_one_is_heteroscedastic(x64):
    f, y = np.random.default_rng(0).normal(size=(ROWS, 4)), np.linspace(-2, 2, 2 * ROWS).reshape(ROWS, 2)
    one = jnp.asarray(np.concatenate([np.full((ROWS, 2), 3.0), f], axis=1))  # whatever its weight's logit
    for name in ("log_prob", "cdf", "mean", "variance"):
        args = (jnp.asarray(y),) if name in ("log_prob", "cdf") else ()
        ours, theirs = getattr(mixture(1), name), getattr(heteroscedastic(), name)
        np.testing.assert_allclose(ours((), one, *args), theirs((), jnp.asarray(f), *args), rtol=1e-12)  # float64


def test_a_floored_noise_is_never_less_and_its_floor_does_not_move(x64):
    """σ² = floor² + softplus(ρ)²; ∂σ/∂ρ by differentiation; no pull on the floor."""
    likelihood = gaussian(floor=0.3)
    params = Floored(jnp.asarray(-0.7), jnp.asarray(0.3))
    sigma = (0.3**2 + np.log1p(np.exp(-0.7)) ** 2) ** 0.5
    np.testing.assert_allclose(likelihood.noise(params), sigma, rtol=1e-12)
    f, y = jnp.zeros((2, 1)), jnp.asarray([[0.5], [-1.0]])
    np.testing.assert_allclose(likelihood.log_prob(params, f, y), stats.norm.logpdf(y, 0, sigma), rtol=1e-12)
    slope = jax.grad(lambda rho: likelihood.noise(params._replace(rho=rho)))(params.rho)
    np.testing.assert_allclose(likelihood.log_jacobian(params), np.log(slope), rtol=1e-10)
    pull = jax.grad(lambda params: jnp.sum(likelihood.log_prob(params, f, y)) + likelihood.log_prior(params))(params)
    assert pull.floor == 0
    assert pull.rho != 0
    assert likelihood.noise(Floored.at(jnp.asarray(1e-9), jnp.asarray(0.3))) == pytest.approx(0.3)


def test_a_floor_goes_with_a_learned_noise():
    with pytest.raises(ValueError, match=r"floor=0\.1 .*learned"):
        gaussian(noise_scale=1.0, floor=0.1)
    with pytest.raises(ValueError, match="floor=-1"):
        gaussian(floor=-1.0)
