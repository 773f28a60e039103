"""Writes the inputs of action.yml and action-types.yml, and runner/action.yml, the Action without a container.

Names, defaults and types are from the declarations in the code, descriptions from the table in docs/action.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.run.options.action_inputs import ACTION_INPUTS
from holodeck_action.run.options.declarations import Input
from holodeck_action.run.options.input_kinds import FLAG

ROOT = Path(__file__).parents[1]
ACTION, TYPES, RUNNER = ROOT / "action.yml", ROOT / "action-types.yml", ROOT / "runner" / "action.yml"
_DEFAULTS = {"github-token": "${{ github.token }}"}
"""Defaults that GitHub fills in."""
_LINES = """ &lines
    type: list
    separator: "\\n"
    list-item:
      type: string"""

_HEAD = """\
# Generated from action.yml by `make fields`: the same program on the job's own Python, without a container.
name: Evaluate an agent on the runner
"""
_RUNS = """
runs:
  using: composite
  steps:
    - if: runner.os == 'Windows'
      shell: bash
      run: |
        echo "::error title=holodeck-action::This action needs Linux or macOS; Windows has WSL and containers for it."
        exit 2
    # All inputs go as one variable, so that none is part of a script. With `exec` no process is left that shows them.
    # No python3 of the checkout is started: neither one that PATH has there, nor a link there, nor by a relative entry.
    - id: evaluate
      shell: bash
      env:
        HOLODECK_ACTION_INPUTS: ${{ toJSON(inputs) }}
      run: |
        workspace=$(cd -P -- "$GITHUB_WORKSPACE" && pwd)
        IFS=: read -r -a folders <<< "$PATH"
        for folder in "${folders[@]}"; do
          [[ $folder == /* && -f $folder/python3 && -x $folder/python3 ]] || continue
          place=$folder/python3
          while cd -P -- "${place%/*}/" && [[ $PWD/ != "$workspace"/* ]]; do
            if [[ ! -L ${place##*/} ]]; then
              cd -- "${RUNNER_TEMP:-/}"
              exec "$folder/python3" -I "$GITHUB_ACTION_PATH/start.py"
            fi
            place=$(command -p readlink -- "${place##*/}")
            [[ $place == /* ]] || place=$PWD/$place
          done
        done
        { echo "verdict=invalid"; echo "exit-code=2"; } >> "$GITHUB_OUTPUT"
        echo "::error title=holodeck-action::PATH has no python3 outside of the workspace: add actions/setup-python."
        exit 2
"""


def input_meanings(page: str) -> dict[str, str]:
    """Return the description of each input by name, without markup, from the text of docs/action.md."""
    section = page.partition("\n## Inputs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (?:[^|]+ )?\| (.*) \|$", section, re.MULTILINE)
    return {name: re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", meaning).replace("`", "") for name, meaning in rows}


def action_text(text: str, page: str) -> str:
    """Return the text of action.yml with the declared inputs and the descriptions from docs/action.md (`page`)."""
    meanings = input_meanings(page)
    return _with_inputs(text, "".join(_input_text(item, meanings) for item in ACTION_INPUTS))


def _input_text(item: Input, meanings: Mapping[str, str]) -> str:
    more = " true or false." if item.kind is FLAG else ""
    default = item.default or _DEFAULTS.get(item.name, "")
    told = f"  {item.name}:\n    description: {_scalar(meanings[item.name] + more)}\n"
    return told + (f"    default: {_scalar(default)}\n" if default else "")


def types_text(text: str) -> str:
    """Return the text of action-types.yml with the types of the declared inputs."""
    first = next(item for item in ACTION_INPUTS if item.kind.many)
    return _with_inputs(
        text, "".join(f"  {item.name}:{_LINES if item is first else _type_text(item)}\n" for item in ACTION_INPUTS)
    )


def _type_text(item: Input) -> str:
    kind, type_ = item.kind, "string"
    if kind.many:
        return " *lines"
    if kind.numbers is not None:
        type_ = "integer" if kind.numbers.integer else "float"
    elif kind is FLAG:
        type_ = "boolean"
    elif kind.choices:
        type_ = "enum\n    allowed-values:" + "".join(f"\n      - {_scalar(word)}" for word in kind.choices)
    return f"\n    type: {type_}"


def _with_inputs(text: str, inputs: str) -> str:
    head, _, rest = text.partition("\ninputs:\n")
    return f"{head}\ninputs:\n{inputs}\noutputs:\n{rest.partition('outputs:' + chr(10))[2]}"


def _scalar(text: str) -> str:
    """Return a text as a YAML scalar, quoted only if necessary."""
    plain = re.fullmatch(r"[\w$][^#]*", text) and ": " not in text and text not in ("true", "false", "off", "on")
    return text if plain else json.dumps(text, ensure_ascii=False)


def runner_action_text(text: str) -> str:
    """Return the text of runner/action.yml, given the text of action.yml."""
    told, _, rest = text.partition("\nbranding:\n")
    inputs, _, rest = rest[rest.index("\ninputs:\n") :].partition("\noutputs:\n")
    outputs, _, _ = rest.partition("\nruns:\n")
    lines = [f"{_HEAD}{told.partition(chr(10))[2]}\n{inputs}\noutputs:"]
    for line in outputs.splitlines():
        lines.append(line)
        if line.startswith("  ") and not line.startswith("   "):
            name = line.strip().rstrip(":")
        elif line:
            lines.append(f"    value: ${{{{ steps.evaluate.outputs.{name} }}}}")
    return "\n".join(lines) + "\n" + _RUNS


if __name__ == "__main__":
    made = action_text(ACTION.read_text(encoding="utf-8"), (ROOT / "docs" / "action.md").read_text(encoding="utf-8"))
    ACTION.write_text(made, encoding="utf-8")
    TYPES.write_text(types_text(TYPES.read_text(encoding="utf-8")), encoding="utf-8")
    RUNNER.write_text(runner_action_text(made), encoding="utf-8")
