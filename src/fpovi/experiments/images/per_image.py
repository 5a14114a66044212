# SPDX-License-Identifier: Apache-2.0
"""What a method says of each test image, kept in its row, and two methods compared on the same images."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

BINS, DRAWS, LEVEL = 15, 2000, 0.95  # as many bins as ``calibration.ece`` has
METRICS = ("error", "nll", "ece")


class PerImage(NamedTuple):
    """Of every test image: log p(y), the probability of the likeliest class, and whether that is the right one."""

    log_prob: Float[np.ndarray, " N"]
    confidence: Float[np.ndarray, " N"]
    right: Bool[np.ndarray, " N"]


def per_image(f: Float[np.ndarray, "n N k"], y: Int[np.ndarray, " N"]) -> PerImage:
    """Return what the mixture of particles says of each image.

    Args:
        f: log-probabilities of every particle, image and class.
        y: labels.
    """
    probs = np.exp(f.astype(np.float64)).mean(axis=0)
    with np.errstate(divide="ignore"):
        log_prob = np.log(probs[np.arange(len(y)), y])
    return PerImage(log_prob, probs.max(axis=1), probs.argmax(axis=1) == y)


def as_text(found: PerImage) -> dict[str, str]:
    """Return the numbers as text for a row: half precision, which changes a mean over images by 1e-5 at the most."""
    halves = {name: np.asarray(getattr(found, name), np.float16).tobytes() for name in ("log_prob", "confidence")}
    return {name: base64.b64encode(raw).decode() for name, raw in
            {**halves, "right": np.packbits(found.right).tobytes()}.items()}  # fmt: skip


def from_text(text: Mapping[str, str]) -> PerImage:
    """Return what :func:`as_text` was given, in half precision.

    >>> from_text(as_text(PerImage(np.array([-0.5, 0.0]), np.array([0.75, 1.0]), np.array([False, True]))))
    PerImage(log_prob=array([-0.5,  0. ]), confidence=array([0.75, 1.  ]), right=array([False,  True]))
    """
    raw = {name: base64.b64decode(value) for name, value in text.items()}
    log_prob, confidence = (np.frombuffer(raw[name], np.float16).astype(float) for name in ("log_prob", "confidence"))
    right = np.unpackbits(np.frombuffer(raw["right"], np.uint8), count=len(log_prob)).astype(bool)
    return PerImage(log_prob, confidence, right)


class Difference(NamedTuple):
    """The mean of a metric's differences, and the range of 95 % of resamples of the test images."""

    value: float
    low: float
    high: float


def compare_on_images(
    ours: Sequence[PerImage], others: Sequence[PerImage], draws: int = DRAWS, seed: int = 0
) -> dict[str, Difference]:
    """Return ours less theirs in error, NLL and ECE by the paired bootstrap over test images.

    A resample takes the same images of all runs; what a metric then says is averaged over pairs of runs. So the range
    is about other test images, with these trained networks.

    Args:
        ours, others: runs on the same test images, paired in this order.
        draws: how many resamples.
        seed: decides them.
    """
    if not ours or len(ours) != len(others):
        raise ValueError(f"{len(ours)} and {len(others)} runs cannot be paired: as many of each are needed")
    images = len(ours[0].right)
    rng = np.random.default_rng(seed)
    shares = np.concatenate(
        [np.full((1, images), 1 / images), rng.multinomial(images, np.full(images, 1 / images), draws) / images]
    )
    differences = np.mean(
        [_metrics(a, shares) - _metrics(b, shares) for a, b in zip(ours, others, strict=True)], axis=0
    )
    low, high = np.quantile(differences[:, 1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return {
        name: Difference(*map(float, of_metric))
        for name, *of_metric in zip(METRICS, differences[:, 0], low, high, strict=True)
    }


def _metrics(found: PerImage, shares: Float[np.ndarray, "D N"]) -> Float[np.ndarray, "3 D"]:
    """Return error, NLL and ECE of images that have these shares of the whole, once for every line of ``shares``."""
    which = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], found.confidence)
    gaps = np.where(which[:, None] == np.arange(BINS), (found.right - found.confidence)[:, None], 0.0)
    return np.stack([shares @ ~found.right, -(shares @ found.log_prob), np.abs(shares @ gaps).sum(axis=1)])


def differences(rows: Sequence[Any], ours: str, reference: str) -> dict[str, Difference]:
    """Return how a method differs from a reference on the seeds that both have, nothing where there are none.

    Args:
        rows: finished cells of one data set, with ``per_image`` among their metrics.
        ours, reference: the two methods.
    """
    by_seed = {
        name: {row.cell.seed: row.metrics["per_image"] for row in rows if row.cell.method == name}
        for name in (ours, reference)
    }
    seeds = sorted(by_seed[ours].keys() & by_seed[reference].keys())
    if not seeds:
        return {}
    a, b = ([from_text(by_seed[name][seed]) for seed in seeds] for name in (ours, reference))
    return compare_on_images(a, b)
