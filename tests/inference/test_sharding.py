# SPDX-License-Identifier: Apache-2.0
"""Many devices take the same steps as one, and tell each other no more than the formula says.

Every test runs in processes of its own: how many devices there are is settled when JAX wakes up.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fpovi import BNNRegressor
from fpovi.inference.sharding import make_mesh
from fpovi.persistence import read_file
from support.small_fits import plane

SUPPORT = Path(__file__).parents[1] / "support"
# Sums over rows and particles are taken in another order; twelve steps of Adam in double precision let the difference
# grow from 1e-16 to about 1e-12.
ROUNDING = 1e-9
SINGLE = 1e-3  # the same for a few hundred steps in single precision, from 1e-7


def begin(*task, devices=8, **more):
    """``sharded_fits.py`` in a process with so many devices."""
    command = [sys.executable, str(SUPPORT / "sharded_fits.py"), *map(str, task)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(devices), **more}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer_of(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-2000:]
    return json.loads(out.splitlines()[-1])


def ask(*task, **more):
    return answer_of(begin(*task, **more))


def begin_hosts(checkpoint, count=2, **more):
    """As many processes, each a host with one device."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    together = {
        "JAX_COORDINATOR_ADDRESS": address, "JAX_COORDINATOR_BIND_ADDRESS": address, "JAX_NUM_PROCESSES": str(count)
    }  # fmt: skip
    return [
        begin("host", checkpoint, devices=1, JAX_PROCESS_ID=str(number), **together, **more) for number in range(count)
    ]


def test_many_devices_end_where_one_does():
    found = ask("agreement", "svgd", "nngp", "8x1", "4x2", JAX_ENABLE_X64="1")
    assert max(found.values()) < ROUNDING, found


def test_devices_may_take_their_particles_in_turn():
    found = ask("agreement", "svgd", "moment_matched", "2x2", JAX_ENABLE_X64="1", SMALL_CACHE="yes")
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


def test_estimator_on_two_devices_is_the_one_on_one(tmp_path):
    found = ask("estimator", tmp_path, devices=4)
    assert found["shared"] < SINGLE
    assert 0 < found["broken off after"] < 200
    assert found["resumed"] < SINGLE
    assert found["same settings"]
    assert found["devices when loaded"] is None


@pytest.mark.parametrize(("devices", "said"), [
    (64, "devices=64, but JAX sees 1"),
    (0, "devices=0 must be None, \"all\", or a positive whole number"),
    ("some", "devices='some' must be None"),
])  # fmt: skip
def test_estimator_refuses_devices_that_are_not_there(devices, said):
    with pytest.raises(ValueError, match=said):
        BNNRegressor(devices=devices).fit(*plane())


@pytest.mark.slow  # two fits and their programs on each host, on as many cores as there are
@pytest.mark.parametrize("count", [2, 4])
def test_many_hosts_end_where_one_does(tmp_path, count):
    said = [answer_of(host) for host in begin_hosts(tmp_path / "fit.checkpoint", count)]
    assert [each["devices"] for each in said] == [count] * count
    assert len({each["bits"] for each in said}) == 1
    assert max(each["difference"] for each in said) < SINGLE


@pytest.mark.slow  # waits for hosts that are missed after 20 seconds, and fits again
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "silent"])
@pytest.mark.parametrize("victim", [0, 1])
def test_when_a_host_dies_the_others_end_and_the_checkpoint_goes_on(tmp_path, victim, how):
    checkpoint = tmp_path / "fit.checkpoint"
    hosts = begin_hosts(checkpoint, EPOCHS="3000")
    while not checkpoint.exists() and all(host.poll() is None for host in hosts):
        time.sleep(0.1)
    try:
        hosts[victim].send_signal(how)
        _, said = hosts[1 - victim].communicate(timeout=60)
    finally:
        for host in hosts:
            host.kill()
            host.communicate()
    assert hosts[1 - victim].returncode != 0
    # which of them depends on what is noticed first
    assert any(words in said.lower() for words in ("heartbeat", "connection", "socket closed")), said[-2000:]
    steps = read_file(checkpoint, kind="checkpoint")[0]["steps"]
    assert 0 < steps < 3000
    found = ask("resumed", checkpoint, devices=2, EPOCHS="3000")
    assert found["steps"] == 3000
    assert found["difference"] == 0  # two devices do the same, wherever they are
