# SPDX-License-Identifier: Apache-2.0
"""The README's code runs and its tables are made from the rows."""

import re
from pathlib import Path

import pytest
from pages import render

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_tables_are_made_from_the_rows():
    assert render(README, ROOT / "results") == README, "run `make readme`"


@pytest.mark.parametrize("number", range(len(CODE)))
def test_code_runs(number, loose_dtypes, capsys):
    names = {}
    exec(CODE[number], names)
    if "answer" in names:
        near, far = names["answer"].epistemic_std[:, 0]
        assert far > 5 * near
