# SPDX-License-Identifier: Apache-2.0
"""Classification of images: the paper's digits, and clothes."""

from fpovi.experiments.images import mnist

EXPERIMENTS = mnist.EXPERIMENTS
