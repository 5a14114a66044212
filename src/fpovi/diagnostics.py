# SPDX-License-Identifier: Apache-2.0
"""Diagnose a fit from its history and its functions: numbers, verdicts in words, and arguments to change."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import gammaln

from fpovi.types import Info, Support

LEAST_GAIN = 0.02  # nats per row over the base rate
OF_ENTROPY = 0.1  # and where no more can be gained than the entropy of rare labels, so much of that
COLLAPSED = 0.99  # similarity off the data, above which something is wrong
PRIOR_DOMINATES, PRIOR_NEGLIGIBLE = 100.0, 1e-4  # ratio of the prior's score to the likelihood's
STILL_CLIMBING = 0.05  # nats per row and tenth of the run
LEAST_GROWTH = 1.2  # spread off the data over spread on them
TINY = float(np.finfo(np.float32).tiny)
MOST_NOISE, LEAST_NOISE = 0.95, 1e-3  # noise in units of the target's standard deviation


class Finding(NamedTuple):
    """One number of a diagnosis.

    Args:
        name: what was measured.
        value: the number.
        fine: whether it is as it should be.
        verdict: what it says about the fit.
        remedy: which argument to change if it is not fine.
    """

    name: str
    value: float
    fine: bool
    verdict: str
    remedy: str = ""


class Diagnostics(NamedTuple):
    """All findings of a diagnosis; ``print`` shows them as a list."""

    findings: tuple[Finding, ...]

    @property
    def fine(self) -> bool:
        """Whether all findings are fine."""
        return all(finding.fine for finding in self.findings)

    @property
    def complaints(self) -> tuple[Finding, ...]:
        """The findings that are not fine."""
        return tuple(finding for finding in self.findings if not finding.fine)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(
                f"{'ok ' if finding.fine else '!! '} {finding.name:<12} {finding.value:>9.3g}  {finding.verdict}"
            )
            if finding.remedy:
                lines.append(f"{'':27}try {finding.remedy}")
        return "\n".join(lines)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the findings as plain JSON types."""
        return [finding._asdict() for finding in self.findings]

    @classmethod
    def from_json(cls, fields: Any) -> "Diagnostics":
        """Read what :meth:`to_json` returned.

        Args:
            fields: a list with one dictionary per finding.

        Raises:
            ValueError: if ``fields`` is anything else.
        """
        try:
            findings = [
                Finding(
                    str(one["name"]), float(one["value"]), bool(one["fine"]), str(one["verdict"]), str(one["remedy"])
                )
                for one in fields
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"diagnostics are not a list of findings: {error}") from error
        return cls(tuple(findings))


def diagnose(
    history: Info,
    on_data: Float[np.ndarray, "n B k"],
    off_data: Float[np.ndarray, "n C k"],
    noise: float | None,
    gain: float | None = None,
    least_gain: float = LEAST_GAIN,
) -> Diagnostics:
    """Return what a fit's history and functions say about it.

    Args:
        history: the Info of all its steps, one array per field.
        on_data: values of n particles at B training inputs.
        off_data: values of the same particles at C inputs well away from the training inputs.
        noise: noise scale in standard deviations of the target; None for likelihoods without one.
        gain: nats per training row by which the fit is better than :func:`base_rate`; None if that is not known.
        least_gain: the gain of a fit that has learned something.

    Returns:
        Findings about skill, convergence, the balance of prior and data, collapse and growth of disagreement,
        and noise.
    """
    findings = [] if gain is None else [_skill(gain, least_gain)]
    findings += [_convergence(history), _balance(history)]
    if on_data.shape[0] > 1:
        findings += [_collapse(off_data, noise), _growth(on_data, off_data)]
    else:
        findings.append(
            Finding("particles", 1, False, "a single particle knows nothing of what it does not know", "n_particles=20")
        )
    if noise is not None:
        findings.append(_noise(noise))
    return Diagnostics(tuple(findings))


def base_rate(support: Support, y: Shaped[np.ndarray, "N m"], weight: Float[np.ndarray, " N"]) -> float:
    """Return the log-likelihood per row of the best model that looks at no input: shares, a rate, a normal.

    Args:
        support: where the targets lie.
        y: targets, as the likelihood takes them.
        weight: one weight per row.
    """
    share = weight / np.sum(weight)
    if support.labels:
        shares = [np.sum(share[column == label]) for column in y.T for label in np.unique(column)]
        return float(sum(p * np.log(p) for p in shares if p > 0))
    mean = share @ y
    if support is Support.COUNTS:
        rate = np.maximum(mean, TINY)
        return float(share @ np.sum(y * np.log(rate) - rate - gammaln(y + 1), axis=1))
    variance = np.maximum(share @ (y - mean) ** 2, TINY)
    return float(-np.sum(np.log(2 * np.pi * np.e * variance)) / 2)


def enough_gain(support: Support, base: float) -> float | None:
    """Return the gain over a :func:`base_rate` of a fit that has learned something; None if there is nothing to learn.

    >>> enough_gain(Support.CLASSES, np.log(0.5)), round(enough_gain(Support.CLASSES, -0.05), 3)
    (0.02, 0.005)
    """
    if support.labels and base == 0:
        return None
    return min(LEAST_GAIN, -OF_ENTROPY * base) if support.atoms else LEAST_GAIN


def _skill(gain: float, least: float) -> Finding:
    if gain < least:
        verdict = "no better than a model that looks at no input"
        remedy = 'more max_epochs, prior="auto", another network or scaling, or a look at whether X tells of y at all'
        return Finding("skill", gain, False, verdict, remedy)
    return Finding("skill", gain, True, "nats per training row better than a model that looks at no input")


def _convergence(history: Info) -> Finding:
    """Measure the gain in log-likelihood from the last but one tenth of the run to the last."""
    climbed = np.asarray(history.log_likelihood, np.float64)
    if len(climbed) < 10:
        return Finding("convergence", 0.0, False, "too few steps to tell whether it has settled", "more max_epochs")
    *_, before, last = np.array_split(climbed, 10)
    gain = float(np.mean(last) - np.mean(before))
    # a few mini-batches differ by chance
    chance = 3 * float(np.std(last)) / len(last) ** 0.5
    if gain > STILL_CLIMBING + chance:
        return Finding("convergence", gain, False, "the log-likelihood was still rising at the end", "more max_epochs")
    if gain < -STILL_CLIMBING - chance:
        return Finding("convergence", gain, False, "the log-likelihood was falling at the end", "a lower learning_rate")
    return Finding("convergence", gain, True, "nats per row gained in the last tenth of the run: it has settled")


def _balance(history: Info) -> Finding:
    """Compare prior and likelihood score at the end of the run."""
    tail = slice(-max(len(history.prior_norm) // 10, 1), None)
    prior, likelihood = (float(np.mean(norm[tail])) for norm in (history.prior_norm, history.likelihood_norm))
    ratio = prior / max(likelihood, TINY)
    if ratio > PRIOR_DOMINATES:
        return Finding(
            "balance", ratio, False, "the prior is in charge, the data hardly pull", 'prior="auto", or more data'
        )
    if ratio > 1:
        return Finding("balance", ratio, True, "prior over likelihood score: the prior pulls harder")
    if ratio < PRIOR_NEGLIGIBLE:
        return Finding("balance", ratio, True, "prior over likelihood score: the data alone are in charge")
    return Finding("balance", ratio, True, "prior over likelihood score: both have their say")


def _collapse(off_data: np.ndarray, noise: float | None) -> Finding:
    """Measure the mean off-diagonal kernel off the data; its lengthscale is the noise, or one unit of log-odds."""
    n = off_data.shape[0]
    flat = off_data.reshape(n, -1).astype(np.float64)
    unit = 1.0 if noise is None else max(noise, LEAST_NOISE)
    squared = ((flat[:, None] - flat[None]) ** 2).mean(axis=2) / unit**2
    gram = np.exp(-squared / 2)
    similarity = float((gram.sum() - n) / (n * (n - 1)))
    if similarity > COLLAPSED:
        remedy = 'space="function" and measurement="auto"'
        return Finding("collapse", similarity, False, "off the data all particles say the same", remedy)
    return Finding("collapse", similarity, True, "similarity of particles off the data: they differ")


def _growth(on_data: np.ndarray, off_data: np.ndarray) -> Finding:
    on, off = (float(np.sqrt(np.mean(np.var(f, axis=0)))) for f in (on_data, off_data))
    ratio = off / max(on, TINY)
    if ratio < LEAST_GROWTH:
        remedy = 'measurement="auto" and prior="auto"'
        return Finding("growth", ratio, False, "disagreement does not grow away from the data", remedy)
    return Finding("growth", ratio, True, "disagreement off the data over that on them: it grows")


def _noise(noise: float) -> Finding:
    if noise > MOST_NOISE:
        verdict = "noise as large as the spread of the targets: almost nothing is explained"
        return Finding("noise", noise, False, verdict, "more informative columns, or more max_epochs")
    if noise < LEAST_NOISE:
        return Finding(
            "noise", noise, False, "hardly any noise: the rows are interpolated", "a look for a leak of y into X"
        )
    return Finding("noise", noise, True, "noise in standard deviations of the target")
