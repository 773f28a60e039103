"""Build the documentation site from docs/ into site/, and refuse a page that needs anything from another host.

    python -m scripts.build_site

The pages of docs/ are written for GitHub. A copy of them in build/site is what Zensical reads: the name of a file after
the fence of a block becomes its title, and links out of docs/ go to the repository. Zensical stops at a link to a page
or heading that does not exist. The one script that its pages load from another host is replaced by a copy of it.

Needs the dependency group `docs`, and nothing of the project. zensical.toml has the navigation.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "site"
SITE = ROOT / "site"
REPOSITORY = "https://github.com/holodeck-action/holodeck-action/blob/main/"
OURS = ROOT / "scripts" / "site"
SHIM = "https://unpkg.com/iframe-worker/shim"
_FENCE = re.compile(r"^( *)```(\w+) (\S+)$", re.MULTILINE)
_LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
"""What a browser fetches by itself, as attributes by element."""
_KEPT = {"canonical", "next", "prev"}
"""Values of `rel` of links that no browser follows by itself."""


def convert(page: str) -> str:
    """Return the text of a page of docs/ as Zensical reads it."""
    # Even parts are text, odd ones are blocks.
    parts = re.split(r"(^ *```.*?^ *```$)", page, flags=re.MULTILINE | re.DOTALL)
    return "".join(_convert_block(part) if at % 2 else _convert_text(part) for at, part in enumerate(parts))


def _convert_block(block: str) -> str:
    block = _FENCE.sub(_convert_fence, block)
    # Python-Markdown wants four spaces in front of a part of a list's item; GitHub wants three.
    return re.sub(r"^(?=.)", " ", block, flags=re.MULTILINE) if re.match(r"   `", block) else block


def _convert_fence(fence: re.Match[str]) -> str:
    indent, language, mark = fence.groups()
    title = f' title="{mark}"' if "." in mark else ""
    return f"{indent}```{language}{title}"


def _convert_text(text: str) -> str:
    return re.sub(r"^   (?=[^ ])", "    ", text, flags=re.MULTILINE).replace("](../", f"]({REPOSITORY}")


class _Fetches(HTMLParser):
    """Collects the addresses on other hosts that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(_LOADED.get(tag, "")) or ""
        if values.get("rel") not in _KEPT and re.match(r"(?:https?:)?//", address):
            self.found.append(address)


def foreign_addresses(site: Path) -> Iterator[str]:
    """Yield each address on another host that a page or style sheet of a site loads, as `file: address`."""
    for page in sorted(site.rglob("*.html")):
        fetches = _Fetches()
        fetches.feed(page.read_text(encoding="utf-8"))
        yield from (f"{page.relative_to(site)}: {address}" for address in fetches.found)
    for sheet in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", sheet.read_text(encoding="utf-8")):
            yield f"{sheet.relative_to(site)}: {address}"


def main() -> int:
    """Build the site; return the exit code."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "docs", COPY)
    (COPY / "assets").mkdir()
    shutil.copy(OURS / "site.css", COPY / "assets")
    shutil.copy(OURS / "iframe-worker.js", COPY / "assets")
    for page in COPY.rglob("*.md"):
        page.write_text(convert(page.read_text(encoding="utf-8")), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    code = subprocess.run([zensical, "build", "--strict", "--clean"], cwd=ROOT, check=False).returncode
    if code:
        return code
    for built in SITE.rglob("*.html"):
        root = "../" * (len(built.relative_to(SITE).parts) - 1)
        text = built.read_text(encoding="utf-8")
        built.write_text(text.replace(SHIM, f"{root}assets/iframe-worker.js"), encoding="utf-8")
    foreign = list(foreign_addresses(SITE))
    for line in foreign:
        print(f"{line}: the site must work offline", file=sys.stderr)
    return 1 if foreign else 0


if __name__ == "__main__":
    sys.exit(main())
