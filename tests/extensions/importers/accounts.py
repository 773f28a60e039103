"""The account of an import, and the assertions that a configuration has."""

from __future__ import annotations

import json
from typing import Any

from tests.commands.project import Project


def account(project: Project, folder: str = "") -> list[dict[str, Any]]:
    """The rows of `account.json`."""
    rows: list[dict[str, Any]] = json.loads((project.folder / folder / "account.json").read_text(encoding="utf-8"))
    return rows


def assertions_in(value: Any) -> list[str]:
    """The types of all assertions below `assert`, wherever they stand."""
    if isinstance(value, list):
        return [found for item in value for found in assertions_in(item)]
    if not isinstance(value, dict):
        return []
    found = [each for key, item in value.items() if key != "assert" for each in assertions_in(item)]
    for item in value.get("assert", ()):
        inner = assertions_in(item)
        found += inner if item.get("type") == "assert-set" else [item.get("type", item.get("$ref")), *inner]
    return found
