# SPDX-License-Identifier: Apache-2.0
"""Experiments: cells that become rows in a file, and tables and figures made from those rows."""
