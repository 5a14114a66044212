# SPDX-License-Identifier: Apache-2.0
"""Cells, rows in files, sweeps over processes, statistics and tables: what every experiment is made with."""
