# SPDX-License-Identifier: Apache-2.0
"""All of scikit-learn's checks of an estimator as lines of JSON: ``python sklearn_checks.py BNNRegressor weight``."""

import json
import os
import subprocess
import sys
import time

# The interface is what is checked, in a hundred fits of a dozen shapes: in weight space those compile in half the time.
SPACES = {"function": {}, "weight": {"space": "weight", "flow": "ensemble"}}


def run_checks(name: str, space: str) -> list[dict]:
    """The records of all checks of ``fpovi.NAME``, from a process of their own."""
    settings = {"SCIPY_ARRAY_API": "1"}  # makes scikit-learn run its check of array types
    done = subprocess.run(
        [sys.executable, __file__, name, space],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def complaints(records: list[dict]) -> str:
    """All checks that did not pass, and why."""
    return "\n".join(f"{one['check']}: {one['status']}: {one['why']}" for one in records if one["status"] != "passed")


def main(name: str, space: str) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    import fpovi

    small = {"hidden_layer_sizes": (8,), "n_particles": 2, "prior": "flat", "learning_rate": 0.05, "max_epochs": 200}
    estimator = getattr(fpovi, name)(**small, **SPACES[space], random_state=0)
    began = time.monotonic()

    def report(**record):
        nonlocal began
        now = time.monotonic()
        seconds, began = round(now - began, 2), now
        why = str(record["exception"] or "")
        print(json.dumps({"check": record["check_name"], "status": record["status"], "why": why, "seconds": seconds}))

    check_estimator(estimator, on_skip=None, on_fail=None, callback=report)


if __name__ == "__main__":
    main(*sys.argv[1:])
