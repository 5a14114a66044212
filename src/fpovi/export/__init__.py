# SPDX-License-Identifier: Apache-2.0
"""Fitted models as programs that run without fpovi."""
