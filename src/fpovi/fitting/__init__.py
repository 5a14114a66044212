# SPDX-License-Identifier: Apache-2.0
"""From names of parts to a fitted model: parts, phases, the loop with its checkpoints, and the record it leaves."""
