# SPDX-License-Identifier: Apache-2.0
"""The ranked score of mixtures against closed forms, and against quadrature where there is none."""

import importlib
from itertools import pairwise

import numpy as np
import pytest
import scoringrules
from scipy import integrate, special, stats

from fpovi.calibration import crps, crps_rows, recalibrate
from fpovi.likelihoods import gaussian, student_t
from support.mixtures import MADE, PARTICLES, ROWS, mixture, predictive, values

# shapes and likelihoods are the same wherever they can be: each new one is compiled anew
GAUSSIAN, STUDENT_T = gaussian(0.25), MADE["student_t"]


def alike(likelihood, f, params=()):
    """Particles that all say f, one value per row and target: the mixture is one of them."""
    return predictive(likelihood, np.tile(f, (PARTICLES, 1, 1)), params)


def closed_form(y, mean, std, weight):
    """The formula in the docstring of crps_rows, in NumPy; components on the last axis."""

    def distance(d, v):  # E|d + √v ε|
        return d * (2 * stats.norm.cdf(d / np.sqrt(v)) - 1) + 2 * np.sqrt(v) * stats.norm.pdf(d / np.sqrt(v))

    pairs = distance(mean[..., :, None] - mean[..., None, :], std[..., :, None] ** 2 + std[..., None, :] ** 2)
    to_data = np.sum(weight * distance(y[..., None] - mean, std**2), axis=-1)
    return to_data - np.sum(weight[..., :, None] * weight[..., None, :] * pairs, axis=(-2, -1)) / 2


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (-7.0, 3.0), (1e3, 0.1)])
@pytest.mark.parametrize("targets", [1, 2])
def test_gaussian_mixture_equals_the_closed_form(targets, shift, scale):
    ours, twin = mixture(targets, shift, scale)
    y = shift + scale * np.linspace(-3, 3, ROWS * targets).reshape(ROWS, targets)
    mean = np.moveaxis(twin.mean(), 0, -1)
    std = np.moveaxis(np.broadcast_to(twin.std(), twin.mean().shape), 0, -1)
    expected = closed_form(y, mean, std, np.full(mean.shape, 1 / PARTICLES))
    # float32 keeps the noise's parameter to seven digits
    np.testing.assert_allclose(crps_rows(ours, y), expected, rtol=1e-5)
    assert crps(ours, y) == pytest.approx(np.mean(expected), rel=1e-5)


def test_one_particle_is_the_gaussian_formula():
    f = values(particles=1)
    y = np.array([-2.0, 0.0, 5.0])
    got = crps_rows(predictive(GAUSSIAN, f), y)[:, 0]
    np.testing.assert_allclose(got, scoringrules.crps_normal(y, f[0, :, 0], 0.25), rtol=1e-6)


def test_heteroscedastic_particles_are_gaussian():
    f = values(2)
    scale = 1e-3 + np.log1p(np.exp(f[..., 1:]))
    y = np.array([[-2.0], [0.0], [5.0]])
    mean, std = np.moveaxis(f[..., :1], 0, -1), np.moveaxis(scale, 0, -1)
    expected = closed_form(y, mean, std, np.full(mean.shape, 1 / PARTICLES))
    np.testing.assert_allclose(crps_rows(predictive(MADE["heteroscedastic"], f), y), expected, rtol=1e-6)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_particles_with_several_narrow_peaks_are_normals_with_weights(factor):
    """Peaks of .03 around −1, 0 and 2: their mean lies where there is no density at all. Stretched about it, too."""
    means, raw = np.array([-1.0, 0.0, 2.0]) + 0.1 * values(3), np.full((PARTICLES, ROWS, 3), np.log(np.expm1(0.029)))
    logits = values(9)[..., :3]
    ours = predictive(MADE["mixture"], np.concatenate([logits, means, raw], axis=-1))
    weight = special.softmax(logits, axis=-1) / PARTICLES
    centre = np.sum(weight * means, axis=(0, 2))[:, None]
    y = np.array([[-1.0], [0.5], [2.1]])
    in_rows = lambda a: np.moveaxis(a, 0, 1).reshape(ROWS, -1)  # noqa: E731
    expected = closed_form(
        y[:, 0], centre + factor * (in_rows(means) - centre), np.full((ROWS, 3 * PARTICLES), factor * 0.03),
        in_rows(weight),
    )  # fmt: skip
    got = crps_rows(recalibrate(ours, factor), y)[:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-4)  # float32 keeps the scales to some four digits


def test_rows_in_blocks_are_the_same_rows(monkeypatch):
    """The size of a block is how much is held at once, never what comes out: 32 numbers are two rows of 4² pairs."""
    f, y = np.random.default_rng(0).normal(size=(PARTICLES, 5, 1)), np.linspace(-1, 1, 5)
    whole = crps_rows(predictive(GAUSSIAN, f), y)
    monkeypatch.setattr(importlib.import_module("fpovi.calibration.crps"), "BLOCK", 32)
    blocks = crps_rows(predictive(gaussian(0.25), f), y)  # a likelihood made anew is compiled anew
    np.testing.assert_allclose(blocks, whole, rtol=1e-12)  # float64


@pytest.mark.parametrize("df", [4.0, 2.1])  # at 2.1 the standard deviation is five times the noise scale
def test_student_t_equals_the_closed_form(df):
    likelihood = STUDENT_T if df == 4.0 else student_t(df)
    f, y = values(2)[0], np.array([[-50.0, 0.0], [0.0, 9.0], [0.3, -0.3]])
    expected = scoringrules.crps_t(y, df, f, 0.25)
    got = crps_rows(alike(likelihood, f, np.full(PARTICLES, np.log(np.expm1(0.25)))), y)
    np.testing.assert_allclose(got, expected, rtol=1e-6)  # stated: 1e-6 standard deviations, and float32 noise


def test_particles_of_very_different_scales_are_all_resolved():
    rho = np.log(np.expm1([0.01, 0.001, 1.0, 0.05]))
    ours = predictive(STUDENT_T, np.array([0.0, 1e-3, 5.0, -40.0])[:, None, None].repeat(ROWS, axis=1), rho)
    mean, noise = np.asarray(ours.f[:, 0, 0], float), np.log1p(np.exp(np.asarray(ours.params, float)))
    y = np.array([0.0, 5.5, -60.0])
    reach = np.geomspace(0.5, 2000, 14)
    cdf = lambda z: stats.t.cdf((z - mean) / noise, 4).mean()  # noqa: E731
    for at, got in zip(y, crps_rows(ours, y)[:, 0], strict=True):
        ends = np.unique(np.append(mean[:, None] + noise[:, None] * np.concatenate([-reach, [0], reach]), at))
        expected = sum(
            integrate.quad(lambda z, at=at: (cdf(z) - (at <= z)) ** 2, low, high)[0] for low, high in pairwise(ends)
        )
        assert got == pytest.approx(expected, abs=1e-6)  # stated: 1e-6 standard deviations, the largest being 1.4


def test_counts_equal_the_closed_form():
    log_rate = np.array([[-2.0, 0.0], [1.0, 3.0], [4.0, -5.0]])
    y = np.array([[0, 3], [9, 20], [150, 0]])  # 150 is 13 standard deviations out
    got = crps_rows(alike(MADE["poisson"], log_rate), y)
    np.testing.assert_allclose(got, scoringrules.crps_poisson(y, np.exp(log_rate)), rtol=1e-9)  # float64


def test_mixed_counts_are_the_sum_over_the_mixtures_staircase():
    log_rate, y, z = 2 * values(2), np.array([[2, 0], [0, 5], [30, 1]]), np.arange(500)[:, None, None]
    cdf = stats.poisson.cdf(z[:, None], np.exp(log_rate)).mean(axis=1)  # (z, B, m)
    expected = np.sum((cdf - (y <= z)) ** 2, axis=0)
    np.testing.assert_allclose(crps_rows(predictive(MADE["poisson"], log_rate), y), expected, rtol=1e-9)  # float64


def test_yes_or_no_is_the_squared_error():
    ours = predictive(MADE["bernoulli"], values())
    y = np.array([0, 1, 1])
    mean = np.asarray(ours.mean, float)[:, 0]
    np.testing.assert_allclose(crps_rows(ours, y)[:, 0], (mean - y) ** 2, rtol=1e-5)  # float32 mean


def test_rows_may_weigh_differently():
    ours, _ = mixture(2)
    y = values(2)[0]
    rows, weight = crps_rows(ours, y), [1.0, 0.0, 3.0]
    assert crps(ours, y, weight) == pytest.approx((rows[0].mean() + 3 * rows[2].mean()) / 4)


def test_classes_have_no_order():
    ours = predictive(MADE["categorical"], np.log(np.full((1, 2, 3), 1 / 3)))
    with pytest.raises(ValueError, match="crps is for targets with an order, but these are classes"):
        crps(ours, [0, 1])
