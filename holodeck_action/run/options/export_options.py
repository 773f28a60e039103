"""The options of `export`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.text.given_paths import GivenPath


class ExportOptions(Struct, frozen=True):
    """The options of the command `export`.

    Attributes:
        results: path of a results.json.
        file: path of the document, or of the folder of tables, to write; None to write to standard output.
        options: values of the options that only this format has, by name.
    """

    results: GivenPath
    file: GivenPath | None
    options: Mapping[str, Any]
