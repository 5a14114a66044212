# SPDX-License-Identifier: Apache-2.0
"""Bytes counted in compiled programs are those of the formula: here, and in the rows that the page shows."""

import json
from pathlib import Path

import pytest

from fpovi.bench import exchange
from fpovi.bench.exchange import received
from fpovi.bench.settings import Setting
from fpovi.experiments.harness.store import Store
from fpovi.inference.sharding import bytes_received
from support.commands import good, refusal

ROWS = Store(Path(__file__).parents[2] / "results" / "bench-devices.jsonl").rows()
FEW_STEPS = 1e-10  # the rounding of double precision, 1e-16, after ten steps of Adam


def assert_as_promised(found):
    assert found["gathered"] == found["values"]
    assert found["summed"] == found["gradients"] + found["checks"]
    assert found["otherwise"] == 0
    assert found["difference"] is None or found["difference"] < FEW_STEPS


def test_command_counts_and_keeps_rows(tmp_path):
    arguments = ("bench", "--devices", "4", "--quick", "--out", tmp_path)
    said = json.loads(good(*arguments, "--json").stdout)
    by_particles, by_rows = said["table"]
    for found in (by_particles, by_rows):
        assert_as_promised(found)
        assert found["command"] == "fpovi bench --devices 4 --quick"
    assert by_particles["gathered"] == by_rows["gathered"] == 4 * 16 * 200 * 1 * (1 - 1 / 4)
    assert by_particles["gradients"] == 0
    assert by_rows["gradients"] == 8 * 16 * 751 / 2 * (1 - 1 / 2)
    assert [row.metrics["mesh"] for row in Store(tmp_path / "bench-devices.jsonl").rows()] == [[4, 1], [2, 2]]


def test_devices_that_cannot_share_are_refused(tmp_path):
    arguments = ("bench", "--out", tmp_path, "--devices")
    assert refusal(*arguments, "2,3") == "devices=3 cannot share 16 networks evenly: use a divisor of that"
    assert refusal(*arguments, "many").startswith("--devices many: must be positive whole numbers")
    assert not list(tmp_path.iterdir())


def test_a_process_that_fails_is_named():
    with pytest.raises(ValueError, match=r"2 devices failed with exit code 1: .*sizes"):
        exchange.measure(2, [Setting("none", (3,), batch=2, extra=0, n=2)], "")


def test_exchanges_are_read_from_any_way_of_writing_them():
    tuples = "%a = (f32[8,50]{1,0}, pred[]) all-reduce-start(%b, %c), replica_groups={{0,1},{2,3}}, to_apply=%add"
    assert received(tuples) == {"all-reduce": 2 * 1601 / 2}
    parts = "%a = f64[3]{0} reduce-scatter(%b), replica_groups=mesh['x'=2,'y'=4] {'x','y'}, dimensions={0}"
    assert received(parts + "\n%sum = f32[] add(%a, %b)\n" + parts) == {"reduce-scatter": 2 * 7 * 24}
    with pytest.raises(ValueError, match="no groups of devices"):
        received("%a = f32[8] all-gather(%b), dimensions={0}")


def test_rows_of_a_batch_are_filled_up():
    assert bytes_received(8, 19, 1, 25, particles=2, data=4) == (4 * 8 * 20 * 7 // 8, 8 * 4 * 25 * 3 // 4)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.cell.dataset}, {row.cell.method.split()[-1]}")
def test_rows_that_are_shown_keep_the_promise(row):
    assert_as_promised(row.metrics)


def test_plan_of_the_page_is_what_the_compiler_needs():
    """A billion weights on a device: 12 bytes each are held, no more than 4 needed besides, and 12 given back."""
    found = next(
        row.metrics for row in ROWS if row.cell.dataset == exchange.BILLION.name and row.metrics["mesh"] == [16, 1]
    )
    assert found["held"] / found["weights"] == pytest.approx(12, rel=0.01)
    assert found["returned"] / found["weights"] == pytest.approx(12, rel=0.01)
    assert found["besides"] / found["weights"] < 4
    assert found["gathered"] == bytes_received(16, 1024, 10, 10**9, particles=16)[0]
