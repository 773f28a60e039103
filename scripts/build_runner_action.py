"""Writes runner/action.yml: the Action without a container, with the inputs and outputs of action.yml."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "runner" / "action.yml"

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


def runner_action(text: str) -> str:
    """Return the text of runner/action.yml for that of action.yml."""
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
    TARGET.write_text(runner_action((ROOT / "action.yml").read_text(encoding="utf-8")), encoding="utf-8")
