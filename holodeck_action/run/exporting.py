"""What `export` is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.text.given_paths import GivenPath


class Exporting(Struct, frozen=True):
    """What is asked for.

    Attributes:
        results: a results.json.
        file: where the document or the folder of tables goes; None for standard output.
        options: of the format, by name.
    """

    results: GivenPath
    file: GivenPath | None
    options: Mapping[str, Any]
