# SPDX-License-Identifier: Apache-2.0
"""What devices tell each other in a compiled program, read from its text."""

import math
import re

EXCHANGE = re.compile(r"= (.+?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")
ARRAY = re.compile(r"(\w+)\[([0-9,]*)\]")
LISTED = re.compile(r"replica_groups=\{\{([0-9,]*)\}")
NAMED = re.compile(r"replica_groups=mesh\[(.*?)\].*?\{(.*?)\}")
WIDTH = {"pred": 1, "s32": 4, "u32": 4, "f32": 4, "f64": 8}  # bytes


def received(hlo: str) -> dict[str, float]:
    r"""Bytes that every device receives when the program runs once, by kind of exchange.

    Of a result of s bytes among g devices, a gather brings :math:`s (1 - 1/g)`, a sum around a ring twice as much.

    >>> received("%all = f32[8,5]{1,0} all-gather(%own), replica_groups={{0,1,2,3}}, dimensions={0}")
    {'all-gather': 120.0}
    >>> received("%sum = f32[7]{0} all-reduce(%part), replica_groups=mesh['a'=2,'b'=4] {'a'}, to_apply=%add")
    {'all-reduce': 28.0}
    """
    total: dict[str, float] = {}
    for line in hlo.splitlines():
        if found := EXCHANGE.search(line):
            result, kind = found.groups()
            size = sum(WIDTH[dtype] * math.prod(_whole(shape)) for dtype, shape in ARRAY.findall(result))
            total[kind] = total.get(kind, 0) + _share(kind, size, _devices(line))
    return total


def _share(kind: str, size: int, group: int) -> float:
    """What one of ``group`` devices receives of a result of ``size`` bytes, on average."""
    if kind == "reduce-scatter":  # its result is a part already
        return size * (group - 1)
    return (2 if kind == "all-reduce" else 1) * size * (group - 1) / group


def _devices(line: str) -> int:
    """How many take part in an exchange: XLA lists them, or names axes of a mesh."""
    if listed := LISTED.search(line):
        return len(_whole(listed[1]))
    named = NAMED.search(line)
    if named is None:
        raise ValueError(f"no groups of devices in {line.strip()[:200]!r}: XLA writes them in a way unknown here")
    sizes = dict(re.findall(r"'(\w+)'=(\d+)", named[1]))
    return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", named[2]))


def _whole(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]
