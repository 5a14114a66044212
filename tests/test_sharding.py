# SPDX-License-Identifier: Apache-2.0
"""Many devices take the same steps as one, and tell each other no more than the formula says.

Every test runs in processes of its own: how many devices there are is settled when JAX wakes up.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fpovi.sharding import make_mesh

TESTS = Path(__file__).parent
# Sums over rows and particles are taken in another order; twelve steps of Adam in double precision let the difference
# grow from 1e-16 to about 1e-12.
ROUNDING = 1e-9


def environment(devices, **more):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, **more}


def ask(*task, devices=8, **more):
    """What ``sharded_fits.py`` prints in a process with so many devices."""
    command = [sys.executable, str(TESTS / "sharded_fits.py"), *map(str, task)]
    done = subprocess.run(command, env=environment(devices, **more), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_many_devices_end_where_one_does():
    found = ask("agreement", "svgd", "nngp", "8x1", "4x2", JAX_ENABLE_X64="1")
    assert max(found.values()) < ROUNDING, found


@pytest.mark.slow  # compiles every algorithm five times
@pytest.mark.parametrize("prior", ["nngp", "moment_matched", "none"])
@pytest.mark.parametrize("flow", ["svgd", "w_sgld_b", "gfsf"])
def test_all_algorithms_end_where_one_device_does(flow, prior):
    found = ask("agreement", flow, prior, "1x1", "2x1", "4x1", "8x1", "2x4", JAX_ENABLE_X64="1")
    assert max(found.values()) < ROUNDING, found


def test_bytes_received_are_those_of_the_formula():
    found = ask("exchanged", "4x1", "2x4")
    for mesh, said in found.items():
        # beside them a few scalars, one for every array that is asked whether it is finite
        assert said["measured"].keys() == {"all-gather", "all-reduce"}, mesh
        assert said["measured"]["all-gather"] == said["values"]
        assert 0 < said["measured"]["all-reduce"] - said["gradients"] < 64


def test_state_lives_where_it_should(answers):
    assert answers["weights"] == answers["momentum"] == ["particles"]
    assert answers["noise"] == answers["count"] == []


def test_what_cannot_be_split_is_refused(answers):
    assert "n_particles=9 cannot be split evenly over 4 devices: use a multiple of 4" in answers["uneven"]
    assert "data=2 splits the rows of a batch, but the network has a state" in answers["stateful"]


@pytest.fixture(scope="module")
def answers():
    return ask("answers")


def test_mesh_of_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match="particles=64 × data=1 needs 64 devices, but 1 are there"):
        make_mesh(64)
    with pytest.raises(ValueError, match="data=0 must be at least 1"):
        make_mesh(data=0)
    assert make_mesh().shape == {"particles": 1}
