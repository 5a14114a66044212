# SPDX-License-Identifier: Apache-2.0
import numpy as np

from fpovi.datasets.sine import sine, sine_curve


def test_curve_is_the_papers():
    x = np.linspace(-1, 2, 7)
    np.testing.assert_allclose(sine_curve(x), [u + np.sin(4 * u) + np.sin(13 * u) for u in x], rtol=1e-14)


def test_twelve_points_left_of_the_gap_and_eight_right():
    x, y = sine()
    assert x.shape == y.shape == (20,)
    assert np.all((x[:12] > 0) & (x[:12] < 0.6))
    assert np.all((x[12:] > 0.8) & (x[12:] < 1))


def test_noise_moves_the_input_by_three_hundredths():
    """y = curve(x + ε): where the slope is known and large, ε can be read off to first order."""
    pairs = [sine(seed) for seed in range(200)]
    x, y = (np.concatenate(column) for column in zip(*pairs, strict=True))
    slope = 1 + 4 * np.cos(4 * x) + 13 * np.cos(13 * x)
    steep = np.abs(slope) > 12
    noise = (y - sine_curve(x))[steep] / slope[steep]
    # about 1,000 values: a standard error of 2 %, and the second order adds as much
    assert 0.027 < noise.std() < 0.033
    assert abs(noise.mean()) < 0.004


def test_the_seed_decides():
    np.testing.assert_array_equal(sine(5), sine(5))
    assert not np.array_equal(sine(5), sine(6))
