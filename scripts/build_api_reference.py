"""Build docs/api.md from the public names of the package, their signatures, types and docstrings.

python -m scripts.build_api_reference
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ForwardRef

from pydantic import BaseModel

from holodeck_action import api, metrics
from holodeck_action.seam import registry

PAGE = Path(__file__).parents[1] / "docs" / "api.md"
FIELDS = PAGE.with_name("fields.md")
INTRO = """# Python API

The public names of `holodeck_action` and the classes of `holodeck_action.metrics`. This page is generated from their
types and docstrings; `make fields` renews it. [From Python](python.md) shows how they are used.
"""
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?:(?: +.*)?\n)*)", re.MULTILINE)
_ITEM = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def build_page() -> str:
    """Return the text of docs/api.md."""
    public = {name: getattr(api, name) for name in sorted(api.__all__, key=str.lower)}
    functions = [_function(name, value) for name, value in public.items() if inspect.isfunction(value)]
    classes = [_class(name, value) for name, value in public.items() if inspect.isclass(value)]
    rows = [_metric_row(name, source) for name, source in sorted(metrics.public().items())]
    head = "## Metrics\n\nThe settings of each are the fields of its entry in a suite.\n"
    table = ["| class | fields | what it is |\n|---|---|---|", *rows]
    page = "\n".join([INTRO, "## Functions\n", *functions, "## Values\n", *classes, head, *table, ""])
    return page.replace("AnyPath", "str | PathLike[str]")


def _function(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    lines = [f"def {name}("]
    keyword_only = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        value = parameter.default
        text = json.dumps(value) if isinstance(value, str) else repr(value)  # in the quotes of the formatter
        default = "" if value is parameter.empty else f" = {text}"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        lines.append(f"    {stars}{parameter.name}: {parameter.annotation}{default},")
    lines.append(f") -> {signature.return_annotation}: ...")
    about, sections = _read_docstring(function)
    parts = [f"### {name}\n", "```python norun", *lines, "```\n", about]
    for title, word in (("Args", "argument"), ("Raises", "error")):
        if title in sections:
            rows = [_row(f"`{item}`", text) for item, text in sections[title].items()]
            parts += ["", f"| {word} | meaning |\n|---|---|", *rows]
    return "\n".join(parts) + "\n"


def _class(name: str, kind: type) -> str:
    about, sections = _read_docstring(kind)
    meanings = sections.get("Attributes", {})
    parts = [f"### {name}\n", about]
    if issubclass(kind, BaseModel):
        return "\n".join([*parts, f"\nIts fields are in the [field reference](fields.md#{name.lower()}).\n"])
    types = {field: text for field, text in _annotations(kind) if not field.startswith("_")}
    for field, value in vars(kind).items():
        if isinstance(value, property) and not field.startswith("_"):
            types[field] = str(inspect.signature(value.fget).return_annotation) if value.fget else ""
            meanings.setdefault(field, " ".join((inspect.getdoc(value) or "").split()))
    if types:
        head = "| attribute | type | meaning |\n|---|---|---|" if meanings else "| attribute | type |\n|---|---|"
        rows = [
            _row(f"`{field}`", f"`{text}`", *([meanings.get(field, "")] if meanings else []))
            for field, text in types.items()
        ]
        parts += ["", head, *rows]
    return "\n".join(parts) + "\n"


def _annotations(kind: type) -> Iterator[tuple[str, str]]:
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("holodeck_action"):
            for field, text in inspect.get_annotations(owner).items():
                written = text.__forward_arg__ if isinstance(text, ForwardRef) else str(text)
                yield field, written.replace("AnyPath", "str | PathLike[str]")


def _metric_row(name: str, source: str) -> str:
    kind = registry.resolve(source)
    assert isinstance(kind, type)
    about, _ = _read_docstring(kind)
    # A metric of `type: standard` has no section: its fields are those of this type.
    entry = kind.__name__ if f"### {kind.__name__}\n" in FIELDS.read_text(encoding="utf-8") else "StandardMetric"
    return _row(f"`{name}`", f"[{entry}](fields.md#{entry.lower()})", about.partition("\n\n")[0])


def _read_docstring(documented: Any) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the text of a docstring without its sections, and the items of each section by name."""
    text = (inspect.getdoc(documented) or "") + "\n"
    sections = {
        found[1]: {item: " ".join(meaning.split()) for item, meaning in _ITEM.findall(found[2])}
        for found in _SECTION.finditer(text)
    }
    paragraphs = _SECTION.sub("", text).strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs), sections


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> int:
    """Write the page; return the exit code."""
    PAGE.write_text(build_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
