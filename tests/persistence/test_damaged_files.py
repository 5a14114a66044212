# SPDX-License-Identifier: Apache-2.0
"""Check that reading any bytes gives what was written or one clear error, quickly and in little memory."""

import copy
import json
import os
import random
import signal
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from fpovi.persistence import FileError, files, read_file, write_file
from support.forgery import forge, join, same_content, sign, spell, take_apart

HEADER = {"flow": "svgd", "sizes": [50, 50], "rate": 0.1, "scaled": True, "seed": None, "names": {"größe": "m²"}}
ARRAYS = {
    "['theta'][0]": np.arange(12.0).reshape(3, 4),
    "['theta'][1]": np.arange(5, dtype=np.float32),
    "['mask']": np.array([True, False, True]),
    "['count']": np.array(7, np.int32),
    "['empty']": np.zeros((0, 3)),
}
MEGABYTES = 2**20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fpovi"


@pytest.fixture
def whole(path):
    """Return the bytes of a sound file."""
    write_file(path, HEADER, ARRAYS, kind="model")
    return path.read_bytes()


@pytest.fixture
def no_hang():
    """Return a function that sets an alarm, so that a test that hangs fails."""

    def stop(*args):
        raise TimeoutError("the test hangs")

    before = signal.signal(signal.SIGALRM, stop)
    yield signal.alarm
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# --- every fault by its name ---


def cut(count):
    return lambda data: data[:-count]


def length(value):
    return lambda data: value.to_bytes(8, "little") + data[8:]


def signed(change):
    """Return a damage that changes the table and corrects the checksum."""

    def damage(data):
        table, body = take_apart(data)
        change(table)
        return forge(table, body)

    return damage


def metadata(**entries):
    return signed(lambda table: table["__metadata__"].update(entries))


def array(name, **entries):
    return signed(lambda table: table[name].update(entries))


def head(text):
    return lambda data: join(text, take_apart(data)[1])


def swapped(data):
    """Exchange dtype and shape of two arrays, and leave their places."""
    table, body = take_apart(data)
    a, b = table["['theta'][0]"], table["['theta'][1]"]
    for field in ("dtype", "shape"):
        a[field], b[field] = b[field], a[field]
    return forge(table, body)


DAMAGED = "is damaged, or not an fpovi model: "
JSON = DAMAGED + "invalid JSON in header: "
HEADER_ALTERED = "was altered: its header is not "
FAULTS = {
    "nothing": (lambda data: b"", "is empty"),
    "one byte": (lambda data: data[:1], "is truncated, or not an fpovi model: 1 bytes are too few"),
    "cut in the length": (lambda data: data[:7], "is truncated, or not an fpovi model: 7 bytes are too few"),
    "cut in the head": (lambda data: data[:100], r"is truncated: its head ends at byte \d+, the file at byte 100"),
    "cut by one": (cut(1), r"is truncated: the last 1 of \d+ bytes are missing"),
    "cut in the arrays": (cut(100), r"is truncated: the last 100 of \d+ bytes are missing"),
    "one byte more": (lambda data: data + b"x", "was altered: it has 1 bytes more than its head says"),
    "a flipped bit": (lambda data: data[:-1] + bytes([data[-1] ^ 4]), "was altered: (checksum differs|array)"),
    "an altered number": (lambda data: data[:-9] + b"\x01" + data[-8:], "was altered: checksum differs"),
    "an altered header": (lambda data: data.replace(b"svgd", b"gfsf"), "was altered: checksum differs"),
    "an altered version": (lambda data: data.replace(b"jax", b"jox"), "was altered: checksum differs"),
    "a pickle": (lambda data: b"\x80\x04\x95" + 100 * b"cos\nsystem\n", "is not an fpovi model: its head would be"),
    "zeros": (lambda data: bytes(1000), JSON + "EOF while parsing"),
    "a huge head": (length(2**63), "is not an fpovi model: its head would be 9223372036854775808 bytes long"),
    "a head of 5 MB": (length(5 * 2**20), "is not an fpovi model: its head would be 5242880 bytes long"),
    "a short head": (length(64), JSON + "EOF while parsing"),
    "a list": (head(b"[]"), JSON + "invalid type: sequence"),
    "a number": (head(b"1"), JSON + "invalid type: integer `1`"),
    "no metadata": (signed(lambda table: table.pop("__metadata__")), "is not an fpovi model, but some other"),
    "metadata of another": (metadata(format="pt"), "is not an fpovi model, but some other safetensors file"),
    "not UTF-8": (head(b'{"\xff":1}'), DAMAGED + "invalid UTF-8 in header"),
    "a key twice": (head(b'{"__metadata__":{},"__metadata__":{}}'), JSON + "duplicate field `__meta"),
    "NaN": (head(b'{"a":NaN}'), JSON + "expected value at line 1 column 6"),
    "deep lists": (head(b"[" * 10**6), JSON + "invalid type: sequence"),
    "deep objects": (head(b'{"a":' * 10**5), JSON + "recursion limit exceeded"),
    "many entries": (head(b"[" + b"[]," * 10**6 + b"[]]"), DAMAGED + "its head has more than 100000"),
    "a long number": (head(b'{"a":' + b"9" * 10**6 + b"}"), JSON + "number out of range"),
    "a newer format": (
        metadata(format_version="3"),
        r"was written by fpovi [0-9.]+ \(format 3; this one reads up to 2\): upgrade fpovi$",
    ),
    "a newer format by something unknown": (
        metadata(format_version="3", versions="{}"),
        "was written by another fpovi .*: upgrade fpovi$",
    ),
    "format 0": (metadata(format_version="0"), "was altered: its format version is '0', not a positive whole number"),
    "format one": (metadata(format_version=1), JSON + "invalid type: integer `1`, expected a string"),
    "no format version": (signed(lambda table: table["__metadata__"].pop("format_version")), "format version is None"),
    "another kind": (metadata(kind="checkpoint"), "is a checkpoint, not a model$"),
    "an unknown kind": (metadata(kind="poem"), "is a 'poem', not a model$"),
    "no kind": (signed(lambda table: table["__metadata__"].pop("kind")), "is a None, not a model$"),
    "no header": (signed(lambda table: table["__metadata__"].pop("header")), r"its metadata are \['format', 'fo.*t \["),
    "a header that is no text": (metadata(header={}), JSON + "invalid type: map, expected a string"),
    "a header that is no JSON": (metadata(header="{"), HEADER_ALTERED + "the JSON that fpovi writes .*Expecting"),
    "a header that is a list": (metadata(header="[]"), HEADER_ALTERED + "spelt as fpovi spells it"),
    "a header with a key twice": (metadata(header='{"a":1,"a":1}'), HEADER_ALTERED + "spelt as fpovi spells it"),
    "a header with infinity": (metadata(header='{"a":1e999}'), HEADER_ALTERED + "the JSON .*not JSON compliant"),
    "a header spelt otherwise": (metadata(header='{"a": 1}'), HEADER_ALTERED + "spelt as fpovi spells it"),
    "a deep header": (metadata(header="[" * 10**5), HEADER_ALTERED + "the JSON that fpovi writes .*recursion"),
    "half a surrogate": (metadata(header='{"a":"\\ud800"}'), HEADER_ALTERED + "the JSON .*UnicodeEncodeError"),
    "a checksum that is no text": (metadata(sha256=None), JSON + "invalid type: null, expected a string"),
    "more metadata": (metadata(more="1"), r"was altered: its metadata are \[.*'more'.*\], not \["),
    "an array that is a list": (signed(lambda table: table.update(a=[])), JSON + "invalid length 0, expected struct"),
    "an array with more": (array("['mask']", more=1), "was altered: its head is not spelt as fpovi spells it"),
    "an unknown dtype": (array("['mask']", dtype="OBJ"), JSON + "unknown variant `OBJ`, expected one of `BOOL`"),
    "a dtype that is a list": (array("['mask']", dtype=["F64"]), JSON + "invalid type: sequence, expected string"),
    "a wider dtype": (array("['mask']", dtype="F64"), DAMAGED + "invalid shape, data type, or offset for"),
    "numbers as bools": (
        lambda data: sign(data[:-3] + b"\1\2\0"),
        r"""array "\['mask'\]" is of bools, but has other numbers than 0 and 1""",
    ),
    "complex numbers": (
        array("['theta'][0]", dtype="C64"),
        r"""was altered: array "\['theta'\]\[0\]" is of complex64; known are float64, float32""",
    ),
    "numbers of 8 bits": (array("['mask']", dtype="F8_E4M3"), "was altered: .*float8"),
    "a size below 0": (array("['mask']", shape=[-3]), JSON + "invalid value: integer `-3`, expected usize"),
    "a size that is true": (array("['mask']", shape=[True, 3]), JSON + "invalid type: boolean `true`, expected usize"),
    "a size that is a float": (array("['mask']", shape=[3.0]), JSON + "invalid type: floating point `3.0`"),
    "no shape": (array("['mask']", shape=None), JSON + "invalid type: null, expected a sequence"),
    "a huge shape": (array("['mask']", shape=[2**60]), DAMAGED + "invalid shape, data type, or offset for"),
    "a shape past 64 bits": (array("['mask']", shape=[2**60] * 3), DAMAGED + "overflow computing buffer size"),
    "nothing times huge": (array("['empty']", shape=[0, 2**62]), r"was altered: an array cannot be made \(ValueError"),
    "too many axes": (array("['mask']", shape=[1] * 64 + [3]), r"was altered: an array cannot be made \(ValueError"),
    "another shape": (array("['mask']", shape=[2]), DAMAGED + "invalid shape, data type, or offset for"),
    "exchanged": (swapped, DAMAGED + "invalid shape, data type, or offset for"),
    "huge, and said to lie there": (
        array("['mask']", shape=[2**60], data_offsets=[120, 120 + 2**60]),
        "is truncated: the last 1152921504606846973 of",
    ),
    "negative places": (array("['mask']", data_offsets=[-3, 0]), JSON + "invalid value: integer `-3`"),
    "overlapping places": (array("['count']", data_offsets=[0, 4]), DAMAGED + r"invalid offset for tensor `\['"),
    "a hole": (array("['mask']", data_offsets=[121, 124]), DAMAGED + r"invalid offset for tensor `\['mask'\]`"),
    "no places": (array("['mask']", data_offsets=None), JSON + "invalid type: null, expected a tuple of size 2"),
    "one array less": (signed(lambda table: table.pop("['mask']")), "was altered: it has 3 bytes more than its head"),
    "spaces": (lambda data: join(take_apart_text(data) + b" " * 8, take_apart(data)[1]), "its head is not spelt"),
}


def take_apart_text(data):
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(path, whole, no_hang, fault):
    damage, said = FAULTS[fault]
    path.write_bytes(damage(whole))
    no_hang(10)
    tracemalloc.start()
    with pytest.raises(FileError, match=said) as caught:
        read_file(path, kind="model")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50 * MEGABYTES
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 400


def test_a_forged_file_that_is_sound_is_read(path, whole):
    """Show that the faults above are not found because of how the tests put files together."""
    path.write_bytes(forge(*take_apart(whole)))
    assert path.read_bytes() == whole
    assert same_content(read_file(path, kind="model"), (HEADER, ARRAYS))


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 99_999 + b"[]]",
        pytest.param(  # slow only under test, where every call of a function is checked
            b"{" + b",".join(b'"%d":{"a":{"a":{}}}' % i for i in range(100_000)) + b"}", marks=pytest.mark.slow
        ),
        b'{"a":"' + "𝔣".encode() * 10**6 + b'"}',
        spell({"__metadata__": {"format": "fpovi", "format_version": "2", "kind": "model", "header": "𝔣" * 10**6}}),
    ],
    ids=["lists", "objects", "wide text", "wide header"],
)
def test_the_most_wasteful_heads_stay_small(path, text):
    path.write_bytes(join(text, b""))
    tracemalloc.start()
    with pytest.raises(FileError):
        read_file(path, kind="model")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * MEGABYTES


def test_a_file_cut_short_while_it_is_read_is_refused(path, whole, monkeypatch):
    """The file shrinks after its head was found sound; a memory map would kill the process."""
    read_metadata = files._read_metadata

    def cut_short(*args):
        os.truncate(path, len(whole) - 20)
        return read_metadata(*args)

    monkeypatch.setattr(files, "_read_metadata", cut_short)
    with pytest.raises(FileError, match=r"model\.fpovi "):
        read_file(path, kind="model")


def test_a_file_replaced_while_it_is_read_is_read_to_its_end(path, monkeypatch):
    write_file(path, {"round": 1}, {"a": np.full(1000, 1)}, kind="model")
    read_head = files._read_head

    def replaced(*args):
        head = read_head(*args)
        write_file(path, {"round": 2}, {"a": np.full(1000, 2)}, kind="model")
        return head

    monkeypatch.setattr(files, "_read_head", replaced)
    header, arrays = read_file(path, kind="model")
    assert header == {"round": 1}
    assert (arrays["a"] == 1).all()


@pytest.mark.skipif(sys.platform != "linux", reason="how much memory may be promised is a matter of the system")
def test_a_file_of_terabytes_that_holds_nothing_is_refused(path, whole, no_hang):
    """A sparse file takes no space, and may be as long as its head claims."""
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "1":
        pytest.skip("the system promises more memory than it has")
    size = 2**43
    table, _ = take_apart(whole)
    table = {"__metadata__": table["__metadata__"], "a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    start = forge(table, b"")
    with open(path, "wb") as file:
        file.write(start)
        try:
            file.truncate(len(start) + size)
        except OSError as error:
            pytest.skip(f"the file system has no such files: {error}")
    no_hang(10)
    with pytest.raises(FileError, match="cannot be read: it needs more memory than there is"):
        read_file(path, kind="model")


# --- many faults at random ---


def flip(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def truncate(data, chance):
    return data[: chance.randrange(len(data))]


def insert(data, chance):
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice([1, 8, 100])) + data[at:]


def remove(data, chance):
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.choice([1, 8, 100]) :]


def repeat(data, chance):
    begin, end = sorted(chance.choices(range(len(data)), k=2))
    return data[:end] + data[begin:end] + data[end:]


def relength(data, chance):
    near = int.from_bytes(data[:8], "little") + chance.randrange(-16, 17)
    return (
        max(0, chance.choice([near, chance.getrandbits(64), chance.randrange(len(data))])).to_bytes(8, "little")
        + data[8:]
    )


def retype(data, chance):
    """Exchange a few characters of the head for others that JSON knows."""
    end = min(len(data), 8 + int.from_bytes(data[:8], "little"))
    data = bytearray(data)
    for _ in range(chance.choice([1, 2, 4])):
        data[chance.randrange(min(8, end - 1), end)] = chance.choice(b'0123456789{}[]",:-.eE \\u\xff\x00tfn')
    return bytes(data)


VALUES = [
    None,
    True,
    0,
    1,
    -1,
    3,
    2**31,
    2**60,
    2**63,
    2**64,
    10**30,
    0.5,
    1e308,
    "",
    "F64",
    "BOOL",
    "x",
    [],
    {},
    [0],
    [-1],
]
VALUES += [[2**60], [2**32, 2**32], [0, 2**63], [3, 4, 1, "1"], "\ud800", "[" * 2000, [[[[]]]], {"dtype": "F64"}]


def edit(data, chance):
    """Exchange, remove or add some value of the table, in good spelling and with a good checksum."""
    table, body = take_apart(data)
    for _ in range(chance.choice([1, 1, 2])):
        node = table
        while chance.random() < 0.8:
            inner = [
                entry for entry in (node.values() if isinstance(node, dict) else node) if isinstance(entry, dict | list)
            ]
            if not inner:
                break
            node = chance.choice(inner)
        places = list(node) if isinstance(node, dict) else list(range(len(node)))
        value = copy.deepcopy(chance.choice(VALUES))
        if places and chance.random() < 0.9:
            place = chance.choice(places)
            if chance.random() < 0.2:
                del node[place]
            else:
                node[place] = value
        elif isinstance(node, dict):
            node["more"] = value
        else:
            node.append(value)
    return forge(table, body)


MUTATIONS = [flip, truncate, insert, remove, repeat, relength, retype, edit]


def consistent(data):
    """Return whether a change with a corrected checksum made another sound file, such as one of no arrays."""
    try:
        table, body = take_apart(data)
        entries = [entry for name, entry in table.items() if name != "__metadata__"]
        sizes = {"F64": 8, "F32": 4, "I32": 4, "BOOL": 1}
        lengths = [sizes[entry["dtype"]] * int(np.prod(entry["shape"], dtype=object)) for entry in entries]
        return sum(lengths) == len(body) and sign(data) == data
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


@pytest.mark.parametrize("count", [3000, pytest.param(30_000, marks=pytest.mark.slow)])
def test_random_damage_is_always_found(path, whole, no_hang, count):
    chance = random.Random(0)
    refused = forged = 0
    tracemalloc.start()
    for number in range(count):
        mutate = MUTATIONS[number % len(MUTATIONS)]
        data = mutate(whole, chance)
        if data and chance.random() < 0.1:
            data = chance.choice(MUTATIONS[:-1])(data, chance)
        path.write_bytes(data)
        no_hang(10)
        try:
            came = read_file(path, kind="model")
        except FileError:
            refused += 1
            continue
        if not same_content(came, (HEADER, ARRAYS)):
            forged += 1
            assert mutate is edit, (number, mutate.__name__, data)
            assert consistent(data), (number, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * MEGABYTES
    assert refused > 0.95 * count
    assert forged < 0.01 * count


def test_every_byte_counts(path, whole, no_hang):
    """Flip one bit in each byte of the file, one after the other."""
    for position in range(len(whole)):
        data = bytearray(whole)
        data[position] ^= 1 << position % 8
        path.write_bytes(data)
        with pytest.raises(FileError):
            read_file(path, kind="model")


def test_every_length_but_the_right_one_is_refused(path, whole):
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(FileError, match=r"is empty|is truncated"):
            read_file(path, kind="model")


def test_header_that_json_can_spell_in_two_ways_has_one(path):
    write_file(path, {"b": 1, "a": "é\u2028\x00\x7f"}, {}, kind="model")
    table, _ = take_apart(path.read_bytes())
    assert json.loads(table["__metadata__"]["header"]) == {"a": "é\u2028\x00\x7f", "b": 1}
    assert read_file(path, kind="model")[0] == {"b": 1, "a": "é\u2028\x00\x7f"}
