"""Writes schemas/: the JSON Schemas of agent.yaml and the policy file, which editors read at the tag of a release."""

from __future__ import annotations

import json
from pathlib import Path

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.suite_schemas import suite_schema

FOLDER = Path(__file__).parents[1] / "schemas"


def schema_text(document: str) -> str:
    """Return the schema of `agent` or `policy`, as `holodeck-action schema` prints it."""
    return f"{json.dumps(suite_schema(document, built_in()), indent=2, ensure_ascii=False)}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in ("agent", "policy"):
        (FOLDER / f"{name}.schema.json").write_text(schema_text(name), encoding="utf-8")
