# SPDX-License-Identifier: Apache-2.0
"""What every test may ask for, and how a run of them stays short."""

import os

import jax
import numpy as np
import pytest

from support.small_fits import SETTINGS, named_classes, plane

# Nearly all the time of a run goes into compiling, so programs are made cheaply rather than fast: without optimisation,
# and with XLA's older emitters of loops, which take a quarter of the time. The processes that tests start inherit both.
UNOPTIMISED = "jax_disable_most_optimizations"
OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false"
# Begun last, they would keep one worker busy when all others are done.
LONGEST = {"test_checks_classifier", "test_checks_regressor", "test_posteriors", "test_readme"}


# Folders of tests that fit estimators: optax raises a float to the power of an integer count.
FITS = {"estimators", "export", "fitting"}
collect_ignore = ["support"]  # scripts and helpers, not tests


def pytest_configure(config):
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        _keep_to_own_cores(int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    os.environ[UNOPTIMISED.upper()] = "1"
    jax.config.update(UNOPTIMISED, True)
    flags = os.environ.get("XLA_FLAGS", "")
    # another XLA may not know the flag, and would end the process
    if jax.__version_info__[:2] == (0, 10) and OLDER_EMITTERS not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {OLDER_EMITTERS}".strip()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.stem not in LONGEST)


def _keep_to_own_cores(number, workers):
    """XLA's threads wait for each other at every step, and four times as long where two workers share cores."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, [core for place, core in enumerate(cores) if place % workers == number % len(cores)])


@pytest.fixture(scope="module")
def optimised():
    """For files that compute for longer than they compile: programs made here are fast."""
    jax.config.update(UNOPTIMISED, False)
    yield
    jax.config.update(UNOPTIMISED, True)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_forgotten():
    """Tests count what is compiled."""
    from fpovi._fast import compile_cache

    compile_cache.FULL = 1.0


@pytest.fixture(scope="module", autouse=True)
def room_for_programs(nothing_is_forgotten):
    """Forget programs between files, before a process has mapped all the memory areas that Linux allows."""
    from fpovi._fast import compile_cache

    compile_cache.FULL = 0.5
    compile_cache.make_room()
    compile_cache.FULL = 1.0


@pytest.fixture(scope="session")
def regressor():
    """A small fitted regressor that tests share."""
    return _fitted("BNNRegressor", *plane())


@pytest.fixture(scope="session")
def classifier():
    """A small fitted classifier that tests share."""
    return _fitted("BNNClassifier", *named_classes())


@pytest.fixture(scope="session")
def of_two_targets():
    """A small fitted regressor of two targets."""
    X, y = plane()
    return _fitted("BNNRegressor", X, np.column_stack([y, 100 * X[:, 1] + 1000]))


def _fitted(estimator, X, y):
    import fpovi

    with jax.numpy_dtype_promotion("standard"):
        return getattr(fpovi, estimator)(**SETTINGS).fit(X, y)


@pytest.fixture
def key():
    return jax.random.key(0)


@pytest.fixture
def x64():
    """Double precision for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _strict_dtypes(request):
    """No silent promotion: a result has the dtype of its inputs because the code says so, not by luck."""
    with jax.numpy_dtype_promotion("standard" if request.path.parent.name in FITS else "strict"):
        yield


@pytest.fixture
def loose_dtypes():
    """For tests that take steps of Adam: optax raises a float to the power of an integer count."""
    with jax.numpy_dtype_promotion("standard"):
        yield
