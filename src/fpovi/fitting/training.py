# SPDX-License-Identifier: Apache-2.0
"""The loop of a fit: progress, early stopping, and checkpoints from which a killed fit goes on bit for bit."""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fpovi._progress import progress_bar
from fpovi.inference.loop import run
from fpovi.inference.sharding import fetch, same_everywhere
from fpovi.persistence import FileError, flatten_tree, read_file, restore_tree, write_file
from fpovi.types import Algorithm, Batch, Info, Key, ParametrisedAlgorithm, PyTree, State

CHUNK = 250  # steps between two looks: progress, checkpoints, early stopping
PATIENCE = 8  # looks without a better validation score
SECONDS_BETWEEN_CHECKPOINTS = 2.0

WARM, FLOW = ":warm-up", ":flow"  # after the fingerprint of a fit: the phase of a checkpoint

Validate = Callable[[State], float]


class Progressed(NamedTuple):
    """Where a fit stands: the state, its history, and, where it is validated, all scores and the best state.

    Of the best state only what predictions need is kept.
    """

    state: State
    history: Info
    scores: np.ndarray
    best: Any  # a State, or () without validation


def train(
    key: Key,
    algorithm: Algorithm | ParametrisedAlgorithm,
    state: State,
    data: Batch,
    steps: int,
    *,
    batch_size: int,
    validate: Validate | None = None,
    patience: int | None = PATIENCE,
    every: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    fingerprint: str = "",
    verbose: bool = False,
    label: str = "fit",
) -> Progressed:
    """Take ``steps`` steps, or fewer if ``validate`` stops improving; with ``checkpoint``, go on where a file says.

    Args:
        key: the same key gives the same result.
        algorithm, state, data, batch_size: what to repeat, from where, on which rows, how many at a time.
        steps: how many steps to take in all.
        validate: returns the score of a state in a look, the lower the better; the best state is returned.
        patience: how many looks without a better score end the fit; None for all steps.
        every: steps between two looks; ``CHUNK`` by default.
        checkpoint, fingerprint: a file from which the same fit goes on, and what tells that it is the same.
        verbose, label: whether a progress bar is shown, and what it is called.
    """
    so_far = None if checkpoint is None else _resume(Path(checkpoint), state, fingerprint, validate is not None)
    if checkpoint is not None and not same_everywhere(0 if so_far is None else int(so_far.state.step)):
        raise ValueError(f"checkpoint={str(checkpoint)!r} differs from host to host: use a folder that they all share")
    every, written = every or CHUNK, time.monotonic()
    with progress_bar(quiet=not verbose) as bar:
        task = bar.add_task(label, total=steps, note="compiling")
        while so_far is None or not _is_over(so_far, steps, patience):
            before = so_far or Progressed(state, blank_history(0), np.zeros(0), ())
            left = steps - int(before.state.step)
            try:
                after = run(
                    key, algorithm, before.state, data, min(every, left), batch_size=batch_size, chunk_size=every
                )
                so_far = _advance(before, after.state, after.history, validate)
            except KeyboardInterrupt:
                if checkpoint is not None and so_far is not None:
                    _write(Path(checkpoint), so_far, fingerprint)
                raise
            note = f"log-likelihood {float(np.mean(after.history.log_likelihood)):.3f}"
            bar.update(task, completed=int(so_far.state.step), note=note)
            due = time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS or _is_over(so_far, steps, patience)
            if checkpoint is not None and due:
                _write(Path(checkpoint), so_far, fingerprint)
                written = time.monotonic()
    return so_far._replace(state=so_far.best) if so_far.best != () else so_far


def _advance(before: Progressed, state: State, history: Info, validate: Validate | None) -> Progressed:
    state = fetch(state)
    history = jax.tree.map(lambda old, new: np.concatenate([old, new]), before.history, history)
    if validate is None:
        return Progressed(state, history, before.scores, ())
    scores = np.append(before.scores, validate(state))
    best = _for_predictions(state) if scores[-1] <= scores.min() else before.best
    return Progressed(state, history, scores, best)


def _for_predictions(state: State) -> State:
    return state._replace(prior=(), optimiser=(), noise_optimiser=())


def _is_over(so_far: Progressed, steps: int, patience: int | None) -> bool:
    waited = len(so_far.scores) - 1 - int(np.argmin(so_far.scores)) if len(so_far.scores) else 0
    return int(so_far.state.step) >= steps or (patience is not None and waited >= patience)


def blank_history(steps: int) -> Info:
    """Return the history of so many steps, still to be filled in."""
    blank: Any = {name: np.zeros(steps, bool if name == "finite" else np.float32) for name in Info._fields}
    return Info(**blank)


def fingerprint_of(settings: str, *trees: PyTree) -> str:
    """Return a digest of settings and data: a checkpoint is for this very fit or for none."""
    digest = hashlib.sha256(settings.encode())
    for name, array in flatten_tree(trees).items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def belongs_to(path: str | os.PathLike[str] | None, fingerprint: str) -> bool:
    """Tell whether there is a checkpoint of this very fit and phase."""
    if path is None or not Path(path).exists():
        return False
    header, _ = read_file(path, kind="checkpoint")
    return header.get("fingerprint") == fingerprint


def _write(path: Path, so_far: Progressed, fingerprint: str) -> None:
    if jax.process_index() > 0:
        return  # all hosts have the same to write
    header = {"fingerprint": fingerprint, "steps": int(so_far.state.step)}
    write_file(path, header, flatten_tree(so_far), kind="checkpoint")


def _resume(path: Path, state: State, fingerprint: str, validated: bool) -> Progressed | None:
    if not path.exists():
        return None
    header, arrays = read_file(path, kind="checkpoint")
    written = header.get("fingerprint")
    if isinstance(written, str) and written == fingerprint.replace(FLOW, WARM) != fingerprint:
        return None  # the warm-up is over, and its checkpoint about to be replaced
    if written != fingerprint:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to a fit of other data or settings: remove it or choose another path"
        )
    looks, steps = (arrays[name].size if name in arrays else 0 for name in (".scores", ".history.noise"))
    best = _for_predictions(state) if validated else ()
    template: Any = Progressed(state, blank_history(steps), np.zeros(looks), best)
    try:
        return restore_tree(template, arrays)
    except FileError as error:
        raise FileError(f"{path}: {error}") from error
