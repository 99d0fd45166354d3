# SPDX-License-Identifier: BSD-3-Clause

"""Every link of the README and of the documentation leads to a file, and to a heading, that is there."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def without_code(text: str) -> str:
    """Return a page without its blocks of code, in which brackets are no links and hashes no headings."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ +(.*)$", without_code(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: pathlib.Path, text: str) -> list[str]:
    """Return the links of a page to files or headings that are not there."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name
        if name and not path.exists():
            broken.append(target)
        elif anchor and (not name or path.suffix == ".md"):
            known = anchors(path.read_text() if name else text)
            broken += [target] if anchor not in known else []
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: pathlib.Path) -> None:
    """No link of a page is broken."""
    assert broken_links(page, page.read_text()) == []


def test_broken_links_are_found() -> None:
    """Headings lose all but letters, digits and dashes; code and other sites are left alone."""
    page = "## The paper's changes: σ\n[a](#the-papers-changes-σ) [b](#nothing) [c](nowhere.md) [d](https://x.y/z#q)\n"
    page += "[e](design.md#speed)\n[f](design.md#nothing)\n```bash\n# no heading\n[g](no-link)\n```\n[h](#no-heading)"
    broken = ["#nothing", "nowhere.md", "design.md#nothing", "#no-heading"]
    assert broken_links(ROOT / "docs" / "page.md", page) == broken
