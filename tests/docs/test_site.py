"""The documentation site: its navigation, and what `make docs` makes of a page."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.build_site import convert, foreign_addresses

ROOT = Path(__file__).parents[2]
PAGES = sorted(page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md"))


def _pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages(part)


def test_every_page_is_once_in_the_navigation() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(_pages(site["nav"])) == PAGES


def test_the_first_page_leads_to_every_page_of_a_user() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    linked |= {page for page in PAGES if page.startswith("conformance/")}  # compatibility.md links to these
    assert set(PAGES) - linked - {"index.md"} == {"dependencies.md"}


def test_the_page_of_compatibility_leads_to_the_pages_of_conformance() -> None:
    linked = re.findall(
        r"\]\((conformance/[\w-]+\.md)\)", (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    )
    assert sorted(linked) == [page for page in PAGES if page.startswith("conformance/")]


def test_a_page_for_github_becomes_one_of_the_site() -> None:
    page = (
        "See [it](../CONTRIBUTING.md#rules).\n\n1. One:\n\n   ```yaml agent.yaml\n   a: [1](../b)\n   ```\n\n"
        "```console norun\n$ ls\n```\n\n```yaml\na: 1\n```\n"
    )
    assert convert(page) == (
        "See [it](https://github.com/holodeck-action/holodeck-action/blob/main/CONTRIBUTING.md#rules).\n\n1. One:\n\n"
        '    ```yaml title="agent.yaml"\n    a: [1](../b)\n    ```\n\n```console\n$ ls\n```\n\n```yaml\na: 1\n```\n'
    )


def test_what_a_site_loads_from_other_hosts_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://x.example/"><link rel="stylesheet" href="a.css">'
        '<a href="https://x.example"><link rel="stylesheet" href="https://f.example/f.css">'
        '<script src="//s.example/s.js"></script><img src="a.png">',
        encoding="utf-8",
    )
    (tmp_path / "a.css").write_text("a { background: url('https://i.example/i.png') } b { background: url(b.png) }")
    assert list(foreign_addresses(tmp_path)) == [
        "a.html: https://f.example/f.css",
        "a.html: //s.example/s.js",
        "a.css: https://i.example/i.png",
    ]
