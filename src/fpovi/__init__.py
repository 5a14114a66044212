# SPDX-License-Identifier: Apache-2.0
"""fpovi: Bayesian neural networks whose particles are functions.

Names are imported when they are first used, as JAX, scikit-learn and pandas take seconds: ``__init__.pyi`` lists them,
for type checkers too.
"""

from typing import Any

from lazy_loader import attach_stub

_load, _, _listed = attach_stub(__name__, __file__)
__all__ = sorted([*_listed, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("fpovi")
    if name not in _listed:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
