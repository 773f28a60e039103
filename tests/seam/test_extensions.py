"""What extensions declare is true, costs nothing until it is used, and comes from other packages, too."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import holodeck_action
from holodeck_action.commands.command_line import cli
from holodeck_action.metrics.registry import metric_type
from holodeck_action.seam import registry
from holodeck_action.seam.manifest import Extension
from scripts.products import interpreter
from tests.commands.project import Project

FOLDER = Path(holodeck_action.__file__).parent / "extensions"
EXTENSIONS = registry.own_extensions()
each_extension = pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda extension: extension.name)


def imported(folder: Path) -> set[str]:
    """The modules that the files of a folder import."""
    found = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def test_every_folder_is_an_extension() -> None:
    there = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {extension.name for extension in EXTENSIONS} == there


@each_extension
def test_an_extension_needs_what_it_imports(extension: Extension) -> None:
    found = imported(FOLDER / extension.name)
    others = {name.split(".")[2] for name in found if name.startswith("holodeck_action.extensions.")}
    assert others - {extension.name} == set(extension.needs)


@each_extension
def test_what_it_adds_is_what_it_says(extension: Extension) -> None:
    for command in extension.commands:
        found = registry.resolve(command.to)
        assert isinstance(found, click.Command)
        assert (found.name, found.get_short_help_str(limit=1000)) == (command.name, command.help)
        assert cli.get_command(click.Context(cli), command.name) is found
    for metric in extension.metrics:
        assert metric_type(registry.resolve(metric.to)) == metric.type
    for tool in extension.tools:
        assert callable(registry.resolve(tool.build))
    for library in extension.libraries:
        assert (FOLDER.parent.parent / f"{library.measuring.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_start_and_help_import_manifests_alone(project: Project, argument: str) -> None:
    code = (
        "import sys, io, pathlib\n"
        "from holodeck_action.cli import main\n"
        f"code = main([{argument!r}], {{}}, pathlib.Path.cwd(), sys.stdin, io.StringIO(), io.StringIO())\n"
        "print(*sorted(name for name in sys.modules if name.startswith('holodeck_action.extensions.')))\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=project.folder, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    modules = [name.removeprefix("holodeck_action.extensions.") for name in ended.stdout.split()]
    assert {name for name in modules if "." in name} == {f"{name.name}.manifest" for name in EXTENSIONS}


EXAMPLE = FOLDER.parents[1] / "examples" / "extension"
DECLARED = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
[(GROUP, ENTRIES)] = DECLARED.items()
POINT = f"hello = {ENTRIES['hello']}"


def installed(project: Project, point: str = POINT) -> str:
    """Install the example with an entry point; return the folder in which it is."""
    shutil.copytree(EXAMPLE / "hello", project.folder / "site" / "hello")
    project.write("site/hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    project.write("site/hello-1.0.dist-info/entry_points.txt", f"[{GROUP}]\n{point}\n")
    return str(project.folder / "site")


def test_a_package_beside_this_one_may_add_a_command(project: Project) -> None:
    finished = project.run_process("greet", "Ada", PYTHONPATH=installed(project))
    assert (finished.code, finished.stdout, finished.stderr) == (0, "Hello, Ada!\n", "")


def test_a_package_beside_this_one_may_add_a_kind_of_file_of_cases(project: Project) -> None:
    """It is installed for good: what reads files of cases is a process that sees no variable of the job."""
    python = interpreter(Path(installed(project)), project.folder / "installed")
    project.suite([], test_cases=None, test_cases_file="cases.words")
    project.write("cases.words", "hi\nho\n")
    command = (python, "-m", "holodeck_action.cli", "validate", "agent.yaml")
    environ = project.environ(PYTHONPATH=str(FOLDER.parent.parent))
    ended = subprocess.run(command, cwd=project.folder, env=environ, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, "2 cases" in ended.stdout) == (0, True), ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("point", "problem"),
    [
        ("hello = nowhere:EXTENSION", "the extension hello of the package hello cannot be imported: No module named"),
        ("hello = hello.manifest:MISSING", "the extension hello of the package hello cannot be imported"),
        ("hello = hello.command:greet", "the extension hello of the package hello is not an Extension of that name"),
        ("view = hello.manifest:EXTENSION", "the extension view of the package hello is not an Extension of that name"),
    ],
)
def test_a_package_that_cannot_be_used_is_named(project: Project, point: str, problem: str) -> None:
    finished = project.run_process("greet", "Ada", PYTHONPATH=installed(project, point))
    assert (finished.code, problem in finished.stderr) == (2, True), finished.stderr
    assert "Traceback" not in finished.stderr
    # What is known needs no other package.
    assert project.run_process("schema", "reply", PYTHONPATH=str(project.folder / "site")).code == 0
