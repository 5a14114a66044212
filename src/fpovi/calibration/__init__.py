# SPDX-License-Identifier: Apache-2.0
"""Score predictive distributions on held-out data, and correct them: recalibration and conformal sets."""

from fpovi.calibration.class_shares import estimate_class_shares, with_class_shares
from fpovi.calibration.conformal import Conformal, aps, conformal, lac
from fpovi.calibration.crps import crps, crps_rows
from fpovi.calibration.detection import ood_aupr, ood_auroc, ood_fpr
from fpovi.calibration.recalibration import recalibrate, temperature_scaling, variance_scaling
from fpovi.calibration.reliability import Reliability, coverage, ece, ece_range, pit, reliability, sharpness
from fpovi.calibration.scores import accuracy, brier, evaluate, nll, rmse

__all__ = [
    "Conformal",
    "Reliability",
    "accuracy",
    "aps",
    "brier",
    "conformal",
    "coverage",
    "crps",
    "crps_rows",
    "ece",
    "ece_range",
    "estimate_class_shares",
    "evaluate",
    "lac",
    "nll",
    "ood_aupr",
    "ood_auroc",
    "ood_fpr",
    "pit",
    "recalibrate",
    "reliability",
    "rmse",
    "sharpness",
    "temperature_scaling",
    "variance_scaling",
    "with_class_shares",
]
