"""Names of cases and folders, and the patterns with which cases select providers and prompts."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Any

from holodeck_action.extensions.importers.collecting import NAME_LIMIT
from holodeck_action.extensions.importers.promptfoo.templates import Templates, script_text
from holodeck_action.extensions.importers.promptfoo.tests import Test
from holodeck_action.extensions.importers.source import UnfitError

_FOLDER_LIMIT = 60
"""Most characters of a folder's name."""


def case_name(test: Test, number: int, templates: Templates) -> str:
    """Return the name of a case: its description, else the values of its variables, else its number."""
    description = test.data.get("description")
    if description:
        try:
            return templates.render(str(description), test.variables)
        except UnfitError:
            return str(description)
    values = ", ".join(" ".join(script_text(value).split()) for value in test.variables.values())
    return values if values.strip() and len(values) <= NAME_LIMIT - 20 else f"test {number}"


def names_any(name_patterns: Any, names: Iterable[str]) -> bool:
    """Return whether one of the patterns `name_patterns`, with the wildcard `*`, matches a name; True if
    `name_patterns` is not a list.
    """
    if not isinstance(name_patterns, list):
        return True
    patterns = [re.sub(r"([?\[])", r"[\1]", str(item)) for item in name_patterns]
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns for name in names if name)


def slug(text: str) -> str:
    """Convert a text to a part of a folder name: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_FOLDER_LIMIT]
