# SPDX-License-Identifier: Apache-2.0
"""What all experiments share: cells, rows in a file, a sweep over processes, statistics and tables."""
