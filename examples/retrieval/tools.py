"""Reading the handbook: sections are headed `## <id> <title>`."""

from __future__ import annotations

from pathlib import Path

HANDBOOK = Path(__file__).parent / "handbook"


def sections() -> dict[str, str]:
    """Return the text of every section by its id, on one line."""
    found: dict[str, str] = {}
    for document in sorted(HANDBOOK.glob("*.md")):
        for part in document.read_text(encoding="utf-8").split("\n## ")[1:]:
            heading, _, text = part.partition("\n")
            found[heading.split(" ", 1)[0]] = " ".join(text.split())
    return found


def read_section(section: str) -> str:
    """Return the whole text of one section, such as `safety-3`."""
    return sections()[section]
