# SPDX-License-Identifier: Apache-2.0
"""Measure the time, memory and exchanged bytes of a step, beside what they should be compared with."""
