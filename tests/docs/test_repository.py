"""The signs of the repository lead somewhere: paths exist, targets of make too, and forms fit GitHub's schemas."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.tables import walk

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", ROOT / "docs" / "extending.md"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.needs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_paths_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"`((?:holodeck_action|tests|docs|examples|templates|scripts|bench|\.github)/[\w./-]*)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.needs
def test_names_are_where_the_architecture_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)`(?: of `(\w+)`)? in `([\w/]+\.py)`", page)
    assert len(named) > 4
    for name, owner, file in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", text), (name, file)
        assert f"class {owner}" in text or not owner, (owner, file)


@walk("page", [ROOT / "README.md", *PAGES])
def test_targets_of_make_exist(page: Path) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert [target for target in named if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.name))
def test_issue_forms_fit_githubs_schema(form: Path) -> None:
    schema = "vendor.github-issue-config" if form.name == "config.yml" else "vendor.github-issue-forms"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(form)]
    finished = subprocess.run(check, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout


def test_hooks_run_what_the_development_environment_has() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repository in config["repos"] for hook in repository["hooks"]]
    assert len(hooks) > 3
    for hook in hooks:
        program, *arguments = hook["entry"].split()
        assert Path(sys.executable).with_name(Path(program).name).exists(), program
        if arguments[:1] == ["-m"]:
            assert (ROOT / f"{arguments[1].replace('.', '/')}.py").exists()


@pytest.mark.needs
def test_the_architecture_has_a_row_for_every_room_in_the_order_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("| rooms, top to bottom |")[2].partition("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)(?:/|\.py)`", row.split(" | ")[0])) for row in table.splitlines()[2:]]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert rows == [{room.rpartition(".")[2] for room in layer.split(" | ")} for layer in layers]
    modules = {path.stem for path in (ROOT / "holodeck_action").glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in (ROOT / "holodeck_action").glob("*/__init__.py")}
    assert set.union(*rows) == (modules | packages) - {"extensions"}
    extensions = {path.parent.name for path in (ROOT / "holodeck_action" / "extensions").glob("*/manifest.py")}
    listed = page.partition("| extension |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)/` \|", listed, re.MULTILINE)) == extensions


def test_documents_that_the_code_names_exist() -> None:
    files = [*(ROOT / "holodeck_action").rglob("*.py"), *(ROOT / "templates").iterdir(), ROOT / "action.yml"]
    named = {name for file in files for name in re.findall(r"docs/[\w-]+\.md", file.read_text(encoding="utf-8"))}
    assert len(named) > 3
    assert [name for name in named if not (ROOT / name).exists()] == []
