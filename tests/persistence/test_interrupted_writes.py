# SPDX-License-Identifier: Apache-2.0
"""Check that kills, full disks and other writers leave a whole file, the old one or the new."""

import errno
import json
import os
import subprocess
import sys
from threading import Thread

import numpy as np
import pytest

from fpovi.persistence import FileError, atomic, read_file, write_file

PART = ".model.fpovi.part"


@pytest.fixture
def path(tmp_path):
    """Return the path of a file that exists, of round 0."""
    path = tmp_path / "model.fpovi"
    write_round(path, 0)
    return path


def write_round(path, number, size=10**5):
    write_file(path, {"round": number}, {"numbers": np.full(size, number)}, kind="checkpoint")


def read_round(path):
    header, arrays = read_file(path, kind="checkpoint")
    assert (arrays["numbers"] == header["round"]).all()
    return header["round"]


def run_script(script, *args):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Forks a writer and kills it, many times; a fork, because to start Python and JAX anew takes a second each time.
KILLS = """
import json, os, random, signal, sys, time
import numpy as np
from fpovi.persistence import read_file, write_file

path, kills = sys.argv[1], int(sys.argv[2])
folder = os.path.dirname(path)
rounds, left, chance = [0], [], random.Random(0)
for _ in range(kills):
    writer = os.fork()
    if writer == 0:
        number = rounds[-1]
        while True:
            number += 1
            write_file(path, {"round": number}, {"numbers": np.full(10**5, number)}, kind="checkpoint")
    time.sleep(chance.uniform(0.0, 0.03))
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    header, arrays = read_file(path, kind="checkpoint")
    assert (arrays["numbers"] == header["round"]).all()
    rounds.append(header["round"])
    left.append(sorted(os.listdir(folder)))
print(json.dumps({"rounds": rounds, "left": left}))
"""


@pytest.mark.parametrize("kills", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_a_whole_file(path, kills):
    told = run_script(KILLS, path, kills)
    assert told["rounds"] == sorted(told["rounds"])  # never back to something older
    assert told["rounds"][-1] > 10  # there was writing
    assert {tuple(names) for names in told["left"]} <= {(path.name,), (PART, path.name)}
    assert sum(PART in names for names in told["left"]) > kills / 10  # and kills came in the middle of it
    write_round(path, 10**6)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert read_round(path) == 10**6


# The kernel refuses to let a file grow past the limit: a real error in the middle of a write.
FULL = """
import json, os, resource, sys
import numpy as np
from fpovi.persistence import FileError, write_file

path, told = sys.argv[1], []
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_file(path, {"round": 1}, {"numbers": np.full(10**5, 1)}, kind="checkpoint")
    except FileError as error:
        told.append([str(error), sorted(os.listdir(os.path.dirname(path)))])
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps(told))
"""


def test_a_disk_that_is_full_leaves_the_old_file(path):
    """The disk is full at the first byte, in the head, in an array, and just before the end."""
    whole = path.stat().st_size
    told = run_script(FULL, path, 0, 100, 500_000, whole - 1)
    assert told == 4 * [[f"{path} cannot be written: File too large", [path.name]]]
    assert read_round(path) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("size", [1, 10**5])
def test_no_space_left_is_said(path, monkeypatch, size):
    """/dev/full answers every write as a full disk does: to a small file at the flush, to a large one at once."""

    def claim_on_a_full_disk(part):
        open(part, "wb").close()
        return os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(atomic, "_claim", claim_on_a_full_disk)
    monkeypatch.setattr(os, "fchmod", lambda handle, mode: None)
    with pytest.raises(FileError) as caught:
        write_round(path, 1, size)
    assert str(caught.value) == f"{path} cannot be written: {os.strerror(errno.ENOSPC)}"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert read_round(path) == 0


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad sector"), KeyboardInterrupt()], ids=["EIO", "Ctrl-C"])
def test_trouble_at_the_last_moment_leaves_the_old_file(path, monkeypatch, step, error):
    def fail(*args):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises((FileError, KeyboardInterrupt)):
        write_round(path, 1)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert read_round(path) == 0


def test_a_folder_that_cannot_be_synced_is_no_trouble(path, monkeypatch):
    monkeypatch.setattr(os, "O_DIRECTORY", os.O_DIRECTORY | os.O_WRONLY)  # which no folder can be opened with
    write_round(path, 1)
    assert read_round(path) == 1


def test_what_a_kill_left_behind_is_used_up(path):
    part = path.with_name(PART)
    part.write_bytes(b"x" * 10**7)
    write_round(path, 1)
    assert not part.exists()
    assert read_round(path) == 1


def test_a_planted_link_is_not_followed(path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("gold")
    path.with_name(PART).symlink_to(precious)
    with pytest.raises(FileError, match="cannot be written: Too many levels of symbolic links"):
        write_round(path, 1)
    assert precious.read_text() == "gold"
    assert read_round(path) == 0


def test_a_planted_pipe_does_not_block(path):
    os.mkfifo(path.with_name(PART))
    with pytest.raises(FileError, match="cannot be written: No such device or address"):
        write_round(path, 1)


def test_rivals_never_mix(path):
    """Let four writers and a reader share a path: each read gives one round as it was written."""
    writers = [
        Thread(target=lambda first=first: [write_round(path, first + i) for i in range(20)])
        for first in range(100, 500, 100)
    ]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        seen.add(read_round(path))
    for writer in writers:
        writer.join()
    assert read_round(path) % 100 == 19
    assert len(seen) > 5
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
