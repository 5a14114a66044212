# SPDX-License-Identifier: Apache-2.0
"""``python -m fpovi`` is the ``fpovi`` command."""

from fpovi.cli import entry

entry()
