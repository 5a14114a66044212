# SPDX-License-Identifier: Apache-2.0
"""Data sets: where they lie, and what they are once loaded."""
