# SPDX-License-Identifier: Apache-2.0
"""Check that files come back to the last bit, and that the safetensors library reads the same."""

import hashlib
import json
import os
import stat
import time
from importlib.metadata import version

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors import safe_open
from safetensors.numpy import load_file

from fpovi.persistence import FileError, files, read_file, write_file
from support.forgery import same_bits, same_content, sign

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]
HEADER = {"flow": "svgd", "sizes": [50, 50], "rate": 0.1, "scaled": True, "seed": None, "names": {"größe": "m²"}}
ARRAYS = {"theta": np.arange(6.0).reshape(2, 3), "noise": np.array(0.5, np.float32), "none": np.zeros((0, 4))}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fpovi"


def left_beside(path):
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
names = text.filter(lambda name: name.isprintable() and name != "__metadata__")
any_array = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=st.dictionaries(text, json_values, max_size=4), contents=st.dictionaries(names, any_array, max_size=4))
def test_any_content_comes_back(path, header, contents):
    write_file(path, header, contents, kind="model")
    assert same_content(read_file(path, kind="model"), (header, contents))
    other = load_file(path)
    assert other.keys() == contents.keys()
    assert all(same_bits(other[name], array) for name, array in contents.items())


@pytest.mark.parametrize("bits", [0x7FF8000000000001, 0xFFF4DEADBEEF0000, 0x8000000000000000, 0x7FF0000000000000, 1])
def test_odd_floats_keep_their_bits(path, bits):
    odd = np.array([bits], np.uint64).view(np.float64)
    write_file(path, {}, {"odd": odd}, kind="model")
    assert same_bits(read_file(path, kind="model")[1]["odd"], odd)


def test_bfloat16_comes_back(path):
    brain = np.asarray(jnp.array([1.5, -0.0, jnp.nan], jnp.bfloat16))
    write_file(path, {}, {"brain": brain, "one": brain[0:1].reshape(())}, kind="model")
    _, back = read_file(path, kind="model")
    assert same_bits(back["brain"], brain)
    assert back["one"].shape == ()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.arange(3, dtype=">f8"),
        np.broadcast_to(np.float32(2), (2, 2)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
    ids=["transposed", "backwards", "big-endian", "broadcast", "fortran"],
)
def test_an_array_in_any_order_of_memory_comes_back_equal(path, array):
    write_file(path, {}, {"a": array}, kind="model")
    back = read_file(path, kind="model")[1]["a"]
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")
    back[...] = 0  # ours to change


def test_tuples_come_back_as_lists(path):
    write_file(path, {"sizes": (50, 50)}, {}, kind="model")
    assert read_file(path, kind="model") == ({"sizes": [50, 50]}, {})


def test_the_file_describes_itself(path):
    write_file(path, HEADER, ARRAYS, kind="checkpoint")
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    assert json.loads(metadata.pop("header")) == HEADER
    assert json.loads(metadata.pop("versions")) == {name: version(name) for name in ("fpovi", "jax", "numpy")}
    assert len(metadata.pop("sha256")) == 64
    assert metadata == {"format": "fpovi", "format_version": "2", "kind": "checkpoint"}


def test_the_checksum_is_that_of_the_file_with_the_digits_set_to_zero(path):
    write_file(path, HEADER, ARRAYS, kind="model")
    data = path.read_bytes()
    with safe_open(path, framework="numpy") as file:
        digits = file.metadata()["sha256"].encode()
    assert hashlib.sha256(data.replace(digits, b"0" * 64)).hexdigest().encode() == digits
    assert sign(data) == data


def test_the_same_content_is_the_same_file(path):
    write_file(path, HEADER, ARRAYS, kind="model")
    first = path.read_bytes()
    write_file(path, dict(reversed(HEADER.items())), dict(reversed(ARRAYS.items())), kind="model")
    assert path.read_bytes() == first


def test_arrays_are_aligned(path):
    """A reader that maps the file into memory can then use them where they are."""
    write_file(
        path, {}, {"a": np.ones(3, "?"), "b": np.ones(3, "f2"), "c": np.ones(3), "d": np.ones(3, "f")}, kind="model"
    )
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % {"BOOL": 1, "F16": 2, "F32": 4, "F64": 8}[entry["dtype"]] == 0


def test_a_large_model_takes_seconds(path):
    """Bound the processor time: 200 MB took .6 s to write and .5 s to read."""
    large = {f"layer{i}": np.random.default_rng(i).standard_normal((25, 10**5), "f") for i in range(20)}
    started = time.process_time()
    write_file(path, {}, large, kind="model")
    written = time.process_time()
    _, back = read_file(path, kind="model")
    read = time.process_time()
    size = path.stat().st_size
    path.unlink()
    assert size > 200e6
    assert written - started < 3
    assert read - written < 3
    assert all(same_bits(back[name], array) for name, array in large.items())


# --- arguments ---


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (
            {"a": {"b": [1, float("nan")]}},
            r"header\['a'\]\['b'\]\[1\] is nan, which JSON does not have: keep it in an array",
        ),
        ({"a": float("-inf")}, r"header\['a'\] is -inf"),
        ({"a": np.int64(3)}, r"header\['a'\] is a int64, but a header holds dict, list, str"),
        ({"a": {1: 2}}, r"header\['a'\] has the key 1, but keys of JSON are strings"),
        ({"a": "\ud800"}, r"header\['a'\] has half a surrogate pair"),
        ({"\udfff": 1}, r"the key '\\udfff' of header has half a surrogate pair"),
        ({"a": print}, r"header\['a'\] is a builtin_function"),
        ({"a": "x" * 2**23}, "header and the names of the arrays take 83.* bytes .*: keep long lists in an array"),
        ({"a": 10**5000}, "integer string conversion"),
    ],
)
def test_a_header_that_would_not_come_back_is_refused(path, header, said):
    with pytest.raises(ValueError, match=said):
        write_file(path, header, {}, kind="model")
    assert left_beside(path) == []
    assert not path.exists()


def test_a_header_of_too_many_entries_is_refused(path, monkeypatch):
    monkeypatch.setattr(files, "MAX_COMMAS", 100)
    with pytest.raises(ValueError, match=r"with 10\d entries, but at most \d+ and 100 are allowed: keep long lists in"):
        write_file(path, {"a": [0] * 100}, {}, kind="model")


def test_a_header_of_bottomless_lists_is_refused(path):
    bottomless = []
    bottomless.append(bottomless)
    with pytest.raises(ValueError, match="is nested more than 50 deep"):
        write_file(path, {"a": bottomless}, {}, kind="model")


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ({"a": np.array(["x"])}, r"arrays\['a'\] is of <U1, but one of float64, float32, float16, bfloat16, int64"),
        ({"a": np.array([None])}, r"arrays\['a'\] is of object"),
        ({"a": np.zeros(2, "c8")}, r"arrays\['a'\] is of complex64"),
        ({"a": np.zeros(2, "f4,i4")}, r"arrays\['a'\] is of \[\("),
        ({"a": np.ma.masked_array([1.0, 2.0], [True, False])}, r"arrays\['a'\] is a MaskedArray"),
        ({"__metadata__": np.zeros(2)}, "a name is printable text other than '__metadata__'"),
        ({"a\n": np.zeros(2)}, "a name is printable text"),
        ({"\ud800": np.zeros(2)}, "a name is printable text"),
    ],
)
def test_an_array_that_would_not_come_back_is_refused(path, contents, said):
    with pytest.raises(ValueError, match=said):
        write_file(path, {}, contents, kind="model")
    assert not path.exists()


def test_an_unknown_kind_is_refused(path):
    with pytest.raises(ValueError, match="kind='modle' is not known; choose one of agent, checkpoint, export, model"):
        write_file(path, {}, {}, kind="modle")
    with pytest.raises(ValueError, match="kind='modle' is not known"):
        read_file(path, kind="modle")


# --- places ---


def test_a_file_is_replaced_unless_told_not_to(path):
    write_file(path, {"round": 1}, {}, kind="model")
    write_file(path, {"round": 2}, {}, kind="model")
    with pytest.raises(FileError, match=r"model\.fpovi exists already: choose another name, or say force=True"):
        write_file(path, {"round": 3}, {}, kind="model", force=False)
    assert read_file(path, kind="model")[0] == {"round": 2}
    write_file(path.with_name("other"), {}, {}, kind="model", force=False)


def test_a_link_is_followed(path):
    link = path.with_name("latest")
    link.symlink_to(path)
    write_file(link, {"round": 1}, {}, kind="model")
    write_file(link, {"round": 2}, {}, kind="model")
    assert link.is_symlink()
    assert read_file(link, kind="model") == read_file(path, kind="model") == ({"round": 2}, {})


def test_permissions_are_kept(path):
    write_file(path, {}, {}, kind="model")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    write_file(path, {}, {}, kind="model")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_name_without_a_folder_is_one_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_file("model", {}, {}, kind="model")
    assert read_file("model", kind="model") == ({}, {})
    assert (tmp_path / "model").exists()


def test_places_that_cannot_be_read_are_named(path):
    for place, said in {
        path: "cannot be read: No such file or directory",
        path.parent: "is a folder, not a file",
        path / "deeper": "cannot be read: No such file or directory",
        "/dev/null": "is not a regular file",
        "/dev/zero": "is not a regular file",
        "a\0b": "is no name of a file: embedded null byte",
    }.items():
        with pytest.raises(FileError) as caught:
            read_file(place, kind="model")
        assert str(caught.value) == f"{place} {said}"


def test_places_that_cannot_be_written_are_named(path):
    write_file(path, {}, {}, kind="model")
    for place, said in {
        path.parent: "is a folder, not a file",
        path.parent / "no" / "model": f"cannot be written: there is no folder {path.parent / 'no'}",
        path / "deeper": "cannot be written: Not a directory",
        path.with_name("x" * 300): "cannot be written: File name too long",
        "/dev/null": "is not a regular file",
        "a\0b": "is no name of a file: embedded null byte",
    }.items():
        with pytest.raises(FileError) as caught:
            write_file(place, {}, {}, kind="model")
        assert str(caught.value) == f"{place} {said}"
    assert left_beside(path) == []


def test_a_pipe_is_refused_at_once(path):
    os.mkfifo(path)
    with pytest.raises(FileError, match=r"model\.fpovi is not a regular file"):
        read_file(path, kind="model")
    with pytest.raises(FileError, match=r"model\.fpovi is not a regular file"):
        write_file(path, {}, {}, kind="model")


def test_a_link_to_itself_is_refused(path):
    path.symlink_to(path)
    for attempt in (lambda: read_file(path, kind="model"), lambda: write_file(path, {}, {}, kind="model")):
        with pytest.raises(FileError, match="Too many levels of symbolic links"):
            attempt()


@pytest.fixture
def forbidden(path):
    """Return the path of a model that we may neither read nor replace, even where the tests run as root."""
    write_file(path, {}, {}, kind="model")
    path.chmod(0)
    path.parent.chmod(0o500)
    almighty = os.geteuid() == 0
    if almighty:
        os.seteuid(65534)
    yield path
    if almighty:
        os.seteuid(0)
    path.parent.chmod(0o700)


def test_no_permission_is_said(forbidden):
    with pytest.raises(FileError, match=r"model\.fpovi cannot be read: Permission denied"):
        read_file(forbidden, kind="model")
    with pytest.raises(FileError, match=r"model\.fpovi cannot be written: Permission denied"):
        write_file(forbidden, {}, {}, kind="model")
