# SPDX-License-Identifier: Apache-2.0
"""How long a step takes and how much memory it needs, beside everything it should be compared with."""
