# SPDX-License-Identifier: Apache-2.0
"""Models as other libraries want them: bandits by bayesianbandits, committees by scikit-activeml.

Neither library is imported: both ask for methods by name. scikit-optimize takes :class:`~fpovi.BNNRegressor` as it is,
``Optimizer(dimensions, base_estimator=BNNRegressor(), acq_optimizer="sampling")``.
"""

from fpovi.adapters.bandit_learner import BanditLearner
from fpovi.adapters.committee import CommitteeClassifier, Member

__all__ = ["BanditLearner", "CommitteeClassifier", "Member"]
