# SPDX-License-Identifier: Apache-2.0
"""Classification of images: digits and photographs as in the paper, under attack, from elsewhere, and shifted."""

from fpovi.experiments.images import adversarial, cifar, mnist, ood, shift

EXPERIMENTS = {
    **mnist.EXPERIMENTS,
    **adversarial.EXPERIMENTS,
    **cifar.EXPERIMENTS,
    **ood.EXPERIMENTS,
    **shift.EXPERIMENTS,
}
