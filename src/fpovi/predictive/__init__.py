# SPDX-License-Identifier: Apache-2.0
"""Predictive distributions of particles at new inputs."""

from fpovi.predictive.distribution import Predictive, predict

__all__ = ["Predictive", "predict"]
