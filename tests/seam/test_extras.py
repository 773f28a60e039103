"""A missing extra is installed the way the program was."""

from __future__ import annotations

from pathlib import Path

from holodeck_action.seam.extras import way_to_get
from tests.tables import walk


@walk(
    ("folder", "left", "way"),
    [
        ("venv", "", "run pip install 'holodeck-action[mcp]'"),
        ("uv/tools/holodeck-action", "uv-receipt.toml", "run uv tool install 'holodeck-action[mcp]'"),
        ("pipx/venvs/holodeck-action", "pipx_metadata.json", "run pipx install --force 'holodeck-action[mcp]'"),
        ("uv/archive-v0/x", "", "run uvx 'holodeck-action[mcp]'"),
    ],
)
def test_a_missing_extra_is_installed_as_the_program_was(tmp_path: Path, folder: str, left: str, way: str) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    if left:
        (prefix / left).touch()
    assert way_to_get("mcp", prefix=str(prefix)) == way
