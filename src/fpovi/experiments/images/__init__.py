# SPDX-License-Identifier: Apache-2.0
"""Classification of images: the paper's digits, digits under attack, images of another set, and shifted images."""

from fpovi.experiments.images import adversarial, mnist, ood, shift

EXPERIMENTS = {**mnist.EXPERIMENTS, **adversarial.EXPERIMENTS, **ood.EXPERIMENTS, **shift.EXPERIMENTS}
