# SPDX-License-Identifier: Apache-2.0
"""Downloads against a server of our own, good and bad: what reaches the folder is whole and right, or nothing does."""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import threading
import time
import zipfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fpovi.datasets import catalogue
from fpovi.datasets import folder as data_folder
from fpovi.datasets.catalogue import DATASETS, DataFile, DataSet, cifar10_subset, member, regression
from fpovi.datasets.folder import Condition, DownloadError, condition, digest, fetch
from fpovi.datasets.uci import load_uci
from support.commands import call, good, refusal

CONTENT = bytes(range(256)) * 1000
NO_PAUSE = {"timeout": 0.5, "pause": 0.0}


class Handler(BaseHTTPRequestHandler):
    """/good, /cut, /slow, /busy-once, /busy, /gone, /unsized, and whatever ``server.files`` holds."""

    def do_GET(self):
        kind = self.path.strip("/")
        self.server.asked[kind] += 1
        if kind == "gone":
            return self.send_error(404)
        if kind == "busy" or (kind == "busy-once" and self.server.asked[kind] == 1):
            return self.send_error(503)
        content = self.server.files.get(kind, CONTENT)
        self.send_response(200)
        if kind != "unsized":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == "slow":
            self.wfile.write(content[:100])
            self.wfile.flush()
            self.server.released.wait(10)
        else:
            self.wfile.write(content[: len(content) // 2] if kind == "cut" else content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.files, server.released = Counter(), {}, threading.Event()
        server.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def one_file(server, kind, sha256=None):
    return DataSet("a test", (DataFile("some/file.bin", (f"{server.address}/{kind}",), sha256 or digest(CONTENT)),))


def nothing_in(folder):
    return not any(path.is_file() for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["good", "unsized", "busy-once"])
def test_a_good_file_arrives(server, tmp_path, kind):
    seen = []
    (path,) = fetch(one_file(server, kind), tmp_path, lambda *news: seen.append(news[1:]), **NO_PAUSE)
    assert path == tmp_path / "some" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]
    assert seen[0][:3] == (0, 1, 0)
    assert seen[-1] == (0, 1, len(CONTENT), 0 if kind == "unsized" else len(CONTENT))


def test_what_is_there_is_not_fetched_again(server, tmp_path):
    known = one_file(server, "good")
    fetch(known, tmp_path, **NO_PAUSE)
    assert fetch(known, tmp_path, **NO_PAUSE) == []
    assert server.asked["good"] == 1


def test_a_damaged_file_is_replaced(server, tmp_path):
    known = one_file(server, "good")
    (path,) = fetch(known, tmp_path, **NO_PAUSE)
    path.write_bytes(CONTENT[:-1])
    assert condition(known.files[0], tmp_path) is Condition.OTHER
    assert fetch(known, tmp_path, **NO_PAUSE) == [path]
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("kind", "said", "attempts"),
    [
        ("gone", "the server answered 404 Not Found", 1),
        ("busy", "the server answered 503 Service Unavailable", 3),
        ("cut", "the connection broke off", 3),
        ("slow", "nothing came for 0.1 seconds", 3),
    ],
)
def test_what_does_not_arrive_whole_leaves_nothing(server, tmp_path, kind, said, attempts):
    with pytest.raises(DownloadError, match=f"^{server.address}/{kind} cannot be fetched: {said}"):
        fetch(one_file(server, kind), tmp_path, timeout=0.1, pause=0.0)
    assert server.asked[kind] == attempts
    assert nothing_in(tmp_path)


def test_a_server_that_is_not_there(tmp_path, server):
    known = one_file(server, "good")
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match="refused"):
        fetch(known, tmp_path, **NO_PAUSE)


def test_a_wrong_checksum_leaves_what_was_there(server, tmp_path):
    known = one_file(server, "good", sha256="0" * 64)
    with pytest.raises(DownloadError, match=r"some/file\.bin as fetched from .* has checksum .*…, but 0{12}… is expe"):
        fetch(known, tmp_path, **NO_PAUSE)
    assert nothing_in(tmp_path)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "file.bin").write_bytes(b"older")
    with pytest.raises(DownloadError):
        fetch(known, tmp_path, **NO_PAUSE)
    assert (tmp_path / "some" / "file.bin").read_bytes() == b"older"


def test_an_endless_file_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(data_folder, "MOST_BYTES", 1000)
    with pytest.raises(DownloadError, match="more than 1000 bytes"):
        fetch(one_file(server, "good"), tmp_path, **NO_PAUSE)


def test_pauses_grow(server, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(DownloadError):
        data_folder.download(f"{server.address}/busy", pause=2.0)
    assert slept == [2.0, 4.0]


def regression_parts(x, y, test_index):
    """The texts that the repository of the standard splits has, digits enough for every bit."""
    write = lambda a: "\n".join(" ".join(map(repr, row)) for row in np.atleast_2d(a).tolist()).encode()  # noqa: E731
    features = np.arange(x.shape[1], dtype=float)
    column = lambda a: write(np.asarray(a, float)[:, None])  # noqa: E731
    table = write(np.column_stack([x, y]))
    return [table, column(features), column([x.shape[1]]), *(column(rows) for rows in test_index)]


def served_regression(server, name, arrays, sha256):
    parts = regression_parts(*arrays)
    server.files = {f"{name}-{number}": part for number, part in enumerate(parts)}
    addresses = tuple(f"{server.address}/{part}" for part in server.files)
    return DataSet("a test", (DataFile(f"uci/{name}.npz", addresses, sha256, regression),))


def test_a_regression_set_is_put_together_from_texts(server, tmp_path):
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(10, 3)), rng.normal(size=10), np.array([[1, 2], [5, 3]], np.int32)
    np.savez(tmp_path / "known.npz", x=arrays[0], y=arrays[1], test_index=arrays[2])  # packed in another way
    known = served_regression(server, "yacht", arrays, digest(tmp_path / "known.npz"))
    seen = []
    fetch(known, tmp_path, lambda file, part, parts, done, total: seen.append((part, parts)), **NO_PAUSE)
    assert seen[0] == (0, 5)
    assert seen[-1] == (4, 5)
    for found, wanted in zip(load_uci("yacht", tmp_path), arrays, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")
def test_the_real_yacht_set_has_the_checksum_of_the_table(server, tmp_path):
    known = served_regression(server, "yacht", load_uci("yacht"), DATASETS["yacht"].files[0].sha256)
    (path,) = fetch(known, tmp_path, **NO_PAUSE)
    assert condition(DATASETS["yacht"].files[0], tmp_path) is Condition.GOOD
    assert path.name == "yacht.npz"


@pytest.mark.parametrize("content", [b"not numbers", b"", b"<html>404</html>", b"17", b"0 1\n2"])
def test_an_answer_of_another_kind_is_refused(server, tmp_path, content):
    known = served_regression(server, "yacht", (np.ones((2, 1)), np.ones(2), np.zeros((1, 1))), "0" * 64)
    server.files["yacht-1"] = content
    with pytest.raises(DownloadError):
        fetch(known, tmp_path, **NO_PAUSE)
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("build", [member("agaricus-lepiota.data"), cifar10_subset])
@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 cut", gzip.compress(b"no archive", mtime=0), b"text"],
    ids=["empty", "cut", "gzip", "text"],
)
def test_a_broken_archive_is_refused(server, tmp_path, build, content):
    server.files["good"] = content
    known = one_file(server, "good")
    with pytest.raises(DownloadError, match=r"does not hold what some/file\.bin is made of"):
        fetch(DataSet("a test", (known.files[0]._replace(build=build),)), tmp_path, **NO_PAUSE)
    assert nothing_in(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"text"])
def test_a_broken_file_in_the_folder_is_found(tmp_path, content):
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "yacht.npz").write_bytes(content)
    assert condition(DATASETS["yacht"].files[0], tmp_path) is Condition.OTHER


def test_a_member_of_an_archive():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("agaricus-lepiota.data", b"p,x,s")
    assert member("agaricus-lepiota.data")([packed.getvalue()]) == b"p,x,s"


def test_the_first_pictures_of_every_class(monkeypatch):
    monkeypatch.setattr(catalogue, "TRAIN_PER_CLASS", 2)
    monkeypatch.setattr(catalogue, "TEST_PER_CLASS", 1)
    rng = np.random.default_rng(0)
    batches = {
        name: np.column_stack([np.arange(30) % 10, rng.integers(0, 256, (30, 3072))]).astype(np.uint8)
        for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, rows in batches.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = rows.nbytes
            archive.addfile(entry, io.BytesIO(rows.tobytes()))
    with np.load(io.BytesIO(cifar10_subset([packed.getvalue()]))) as found:
        assert found["index_train"].tolist() == list(range(20))
        assert found["y_test"].tolist() == list(range(10))
        row = batches["data_batch_1"][13]
        assert found["x_train"].shape == (20, 32, 32, 3)
        # planes of red, green and blue, each row by row
        assert found["x_train"][13, 5, 7].tolist() == [row[1 + 1024 * plane + 5 * 32 + 7] for plane in range(3)]


def test_a_digest_is_of_content_not_of_packing(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "y": np.ones(2, np.float32)}
    np.savez(tmp_path / "a.npz", **arrays)
    np.savez_compressed(tmp_path / "b.npz", y=arrays["y"], x=np.asfortranarray(arrays["x"]))
    assert digest(tmp_path / "a.npz") == digest(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", **{**arrays, "y": np.ones(2)})
    assert digest(tmp_path / "a.npz") != digest(tmp_path / "c.npz")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"text"))
    assert digest(tmp_path / "d.gz") == hashlib.sha256((tmp_path / "d.gz").read_bytes()).hexdigest()


def test_the_table_is_well_formed():
    files = [file for known in DATASETS.values() for file in known.files]
    assert len({file.path for file in files}) == len(files)
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert all(address.startswith("https://") for address in file.addresses)
        assert not os.path.isabs(file.path)
        assert ".." not in file.path


@pytest.mark.skipif(not os.environ.get("FPOVI_DATA"), reason="FPOVI_DATA names no folder with data files")
def test_the_data_at_hand_are_those_of_the_table():
    assert "other content" not in good("data", "verify").stdout


@pytest.fixture
def shop(server, monkeypatch):
    """The command with two data sets, both from our server."""
    sets = {"whole": one_file(server, "good"), "lost": one_file(server, "gone")}
    sets["lost"] = DataSet("lost", (sets["lost"].files[0]._replace(path="lost.bin"),))
    for name in list(DATASETS):
        monkeypatch.delitem(catalogue.DATASETS, name)
    for name, known in sets.items():
        monkeypatch.setitem(catalogue.DATASETS, name, known)
    return sets


def test_the_command_lists_fetches_and_verifies(shop, tmp_path):
    folder = ["--data-dir", tmp_path / "data"]
    listed = json.loads(good("data", "list", "--json", *folder).stdout)
    assert [(known["name"], known["there"]) for known in listed["datasets"]] == [("whole", False), ("lost", False)]
    assert "holds none of the files we know" in refusal("data", "verify", *folder)
    assert good("data", "fetch", "whole", *folder).stdout.startswith("wrote ")
    assert good("data", "fetch", "whole", *folder).stdout == "whole is there already\n"
    assert "there" in good("data", "list", *folder).stdout
    assert good("data", "verify", *folder).stdout.split() == ["good", "some/file.bin"]


def test_the_command_speaks_of_trouble_in_one_line(shop, tmp_path):
    folder = ["--data-dir", tmp_path]
    assert refusal("data", "fetch", "lost", *folder).endswith(
        "/gone cannot be fetched: the server answered 404 Not Found"
    )
    assert refusal("data", "fetch", "lots", *folder) == "NAME='lots' is not known; choose one of lost, whole"
    assert refusal("data", "fetch", *folder).startswith("name data sets to fetch, or --all")
    assert refusal("data", "fetch", "whole", "--all", *folder).startswith("name data sets to fetch, or --all")
    good("data", "fetch", "whole", *folder)
    (tmp_path / "some" / "file.bin").write_bytes(b"altered")
    result = call("data", "verify", *folder)
    assert result.exit_code == 2
    assert result.stdout.split("\n")[0] == "other content some/file.bin"
    assert "1 of 1 files" in result.stderr
    (tmp_path / "file").write_text("")
    assert "file" in refusal("data", "fetch", "whole", "--data-dir", tmp_path / "file")
