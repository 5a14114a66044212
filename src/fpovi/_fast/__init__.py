# SPDX-License-Identifier: Apache-2.0
"""What makes the parts fast on a CPU."""
