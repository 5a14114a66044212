# SPDX-License-Identifier: Apache-2.0
"""Classification of images: the paper's digits, digits under attack, and clothes."""

from fpovi.experiments.images import adversarial, mnist

EXPERIMENTS = {**mnist.EXPERIMENTS, **adversarial.EXPERIMENTS}
