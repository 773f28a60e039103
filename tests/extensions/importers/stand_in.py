"""Stands in for promptfoo in proofs: it takes the same arguments and writes results of the same form.

It knows a few assertions, says what they say in promptfoo, and leaves a list of its environment.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any


def passes(assertion: dict[str, Any], output: str) -> bool:
    kind, value = assertion["type"].removeprefix("not-"), assertion.get("value")
    if not isinstance(value, str):
        return False
    found = {"contains": value in output, "starts-with": output.startswith(value), "equals": output == value}[kind]
    # A mistake that only a comparison shows.
    if value == "liar":
        found = not found
    return found is not assertion["type"].startswith("not-")


def main() -> int:
    arguments = sys.argv[1:]
    assert arguments[0] == "eval"
    options = dict(itertools.pairwise(arguments))
    root = json.loads(Path(options["-c"]).read_text(encoding="utf-8"))
    assert root["providers"] == ["echo"]
    results = [
        {
            "success": all(passes(assertion, test["providerOutput"]) for assertion in test["assert"]),
            "testCase": test,
            "testIdx": index,
            "response": {"output": test["providerOutput"]},
        }
        for index, test in enumerate(root["tests"])
    ]
    Path(__file__).with_name("seen.json").write_text(json.dumps(dict(os.environ)))
    Path(options["-o"]).write_text(json.dumps({"evalId": "eval", "results": {"version": 3, "results": results}}))
    return 0 if all(each["success"] for each in results) else 100


if __name__ == "__main__":
    sys.exit(main())
