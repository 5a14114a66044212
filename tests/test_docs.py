# SPDX-License-Identifier: Apache-2.0
"""The pages' code runs, their tables are made from the rows, and links on every page lead to a file and a heading."""

import re
from pathlib import Path

import pytest
from pages import render

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
COMPUTING = {"docs/bring-your-own-network"}  # convolutions, a hundred times as slow in programs that are made cheaply
CODE = {page: re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL) for page in PAGES}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT).with_suffix(""))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.slow  # real fits
@pytest.mark.parametrize("page", [page for page in PAGES if CODE[page]], ids=name)
def test_code_runs(page, loose_dtypes, capsys, request):
    if name(page) in COMPUTING:
        request.getfixturevalue("optimised")
    names = {}
    for block in CODE[page]:
        exec(block, names)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_are_made_from_the_rows(page):
    text = page.read_text()
    assert render(text, ROOT / "results") == text, "run `make readme`"


@pytest.mark.parametrize("page", [*TOP, *PAGES], ids=name)
def test_links_lead_to_a_file_and_a_heading(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        linked = (page.parent / target) if target else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.parametrize("note", [page for page in PAGES if page.parent.name == "notes"], ids=name)
def test_a_note_opens_with_a_link_to_its_page(note):
    opening = note.read_text().split("\n\n")[1]
    assert f"](../{note.name})" in opening
    assert f"(notes/{note.name}" in (ROOT / "docs" / note.name).read_text()


def test_paths_in_the_guide_for_contributors_exist():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    for path in re.findall(r"`((?:src|tests|tools)/[^`]+)`", guide):
        assert (ROOT / path).exists(), path
