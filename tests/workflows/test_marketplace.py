"""What GitHub's release form demands of an Action before it lists it in the Marketplace.

The rules are those of "Publishing actions in GitHub Marketplace" and of the form. `tests/action/test_metadata.py`
compares action.yml with GitHub's schema, which has the permitted icons and colours. Older versions of GitHub's page
forbade workflows in the repository; current ones do not.
"""

from __future__ import annotations

import subprocess

import pytest
import yaml

from scripts.release import IMAGE
from tests.workflows.files import ACTION, ROOT

DECLARED = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
OWNER = ACTION.partition("/")[0]


def test_one_metadata_file_is_in_the_root() -> None:
    assert [path.name for path in ROOT.glob("action.y*ml")] == ["action.yml"]
    tracked = subprocess.run(
        ["git", "ls-files", "*Dockerfile", "README.md", "LICENSE"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"Dockerfile", "README.md", "LICENSE"} <= set(tracked)


def test_no_one_else_can_take_the_name() -> None:
    """Only the owner of an organisation may use its name, so that no other action can have it."""
    assert DECLARED["name"] == OWNER
    assert f"ghcr.io/{OWNER}/" in IMAGE


@pytest.mark.parametrize("file", ["action.yml", "runner/action.yml"])
def test_the_description_fits_the_form(file: str) -> None:
    described = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["description"]
    assert 20 < len(described) < 125
    assert "\n" not in described


def test_the_page_has_a_badge_and_an_author() -> None:
    assert set(DECLARED["branding"]) == {"icon", "color"}
    assert DECLARED["author"]
