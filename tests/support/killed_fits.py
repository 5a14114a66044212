# SPDX-License-Identifier: Apache-2.0
"""A fit that is killed over and over: ``python killed_fits.py FOLDER KILLS SEED``.

Every attempt is a child of this process, which has imported everything but not woken JAX: a fork is safe until then,
and spares the seconds of an import. Programs are compiled once and kept in the folder.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from small_fits import plane

from fpovi import BNNRegressor
from fpovi.fitting import training

SETTINGS = {"hidden_layer_sizes": (8,), "n_particles": 4, "prior": "flat", "max_epochs": 4000, "random_state": 0}


def fit(checkpoint: Path | None, answer: Path, early_stopping: bool) -> None:
    """Fit, and leave the bits of predictions and history in a file."""
    training.CHUNK, training.SECONDS_BETWEEN_CHECKPOINTS = 40, 0.0
    model = BNNRegressor(**SETTINGS, early_stopping=early_stopping, checkpoint=checkpoint)
    X, y = plane(32)
    mean, std = model.fit(X, y).predict(X, return_std=True)
    parts = [mean, std, *model.fitted_.history, model.validation_scores_]
    answer.with_suffix(".part").write_text(json.dumps([np.asarray(part).tobytes().hex() for part in parts]))
    os.replace(answer.with_suffix(".part"), answer)


def attempt(seconds: float, *args) -> float | None:
    """Fit in a child and kill it after so many ``seconds``; how long it took if it was done before."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            fit(*args)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    while time.monotonic() - began < seconds:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0, "a fit failed"
            return time.monotonic() - began
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main(folder: Path, kills: int, seed: int, early_stopping: bool) -> None:
    draw = random.Random(seed)
    whole, answer, checkpoint = folder / "whole.json", folder / "answer.json", folder / "fit.checkpoint"
    attempt(600, None, whole, early_stopping)
    takes = attempt(600, None, whole, early_stopping)  # by now compiled
    killed = 0
    while killed < kills:
        checkpoint.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
        for _ in range(min(4, kills - killed)):
            killed += attempt(takes * draw.uniform(0.2, 1.0), checkpoint, answer, early_stopping) is None
        assert attempt(600, checkpoint, answer, early_stopping) is not None
        assert answer.read_text() == whole.read_text(), "the fit that was killed ended elsewhere"
    print(json.dumps({"killed": killed, "seconds": takes}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "early_stopping")
