# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation say what is true: their code runs, page by page, and their links lead somewhere."""

import re
from pathlib import Path

import pytest
from pages import render

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


@pytest.mark.slow  # real fits, and everything one can ask of them
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs(page, loose_dtypes, capsys):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(block, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_made_from_the_rows(page):
    text = page.read_text()
    assert render(text, DOCS.parent / "results") == text, "run `make readme`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
        assert (DOCS / target).exists(), target
