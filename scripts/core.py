"""Shows that every extension can be deleted, in a copy of this checkout.

    python -m scripts.core [--each] [--tests] [NAME ...]

Without `--each`, all extensions are deleted at once (`make core`); linters, types, the tests of `make test` and the
demo must pass. With `--each`, each extension is deleted alone, together with those that need it; the import contract,
types, `--help` and `validate` of all examples must pass, but examples that need it must be refused. `--tests` adds the
tests of `make test` (`make core-all`).
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from holodeck_action.seam.registry import own_extensions
from scripts.products import ROOT, copy_checkout, interpreter

EXTENSIONS = Path("holodeck_action", "extensions")
TESTS = Path("tests", "extensions")
USERS = ("tests", "bench", "scripts")
"""Folders whose modules may import an extension; such modules are deleted with it."""
CHECKED = ("holodeck_action", "tests", "runner")
"""Folders to lint and type-check; `bench` and `scripts` need all extensions."""
REFUSED = ("is not known to this installation", "; installed extension packages: ")
DEMO = ("examples/support/agent.yaml", "--target", "model", "--replay", "examples/support/cassette")
MODEL = {"OPENAI_BASE_URL": "http://localhost/v1", "OPENAI_API_KEY": "none"}
"""Variables that examples need to be valid."""
_TIMEOUT_S = 1800
_SHOWN_LINES = 60


@dataclass(frozen=True)
class Copy:
    """A copy of the checkout in `tree`, and an interpreter that imports from it and not from the checkout."""

    tree: Path
    python: str

    def run(self, name: str, *command: str, expected: tuple[int, ...] = (0,), **environ: str) -> str:
        """Run the copy's interpreter with arguments and extra variables; return its output.

        Raises:
            click.ClickException: it ends with an unexpected exit code.
        """
        finished = subprocess.run(
            (self.python, *command),
            cwd=self.tree,
            env={**os.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if finished.returncode not in expected:
            shown = "\n".join(finished.stdout.splitlines()[-_SHOWN_LINES:])
            raise click.ClickException(f"{name} ends with exit code {finished.returncode}:\n{shown}")
        return finished.stdout

    def run_product(self, *arguments: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run the product's command line in the copy; return its output."""
        command = ("-m", "holodeck_action.cli", *arguments)
        return self.run(" ".join(arguments), *command, expected=expected, **MODEL)

    def check(self) -> None:
        """Check import contract, types and `--help`."""
        self.run("lint-imports", "-c", "from importlinter.cli import lint_imports_command as run; run()")
        self.run("mypy", "-m", "mypy", *CHECKED)
        self.run_product("--help")

    def test(self, absent: frozenset[str]) -> None:
        """Run the tests of the default tier that do not need the extensions that are absent."""
        without = f"--without={','.join(sorted(absent))}"
        self.run("pytest", "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", without)

    def refusal_notices(self, suites: Iterable[str]) -> dict[str, str]:
        """Return the error of each suite that the copy refuses because an extension is missing, by suite."""
        said = {}
        for suite in suites:
            planned = self.run_product("run", "--dry-run", "--target", "model", suite, expected=(0, 2))
            said[suite] = self.run_product("validate", suite, expected=(0, 2)) + planned
        return {suite: words for suite, words in said.items() if "error:" in words}

    def delete(self, names: frozenset[str]) -> None:
        """Delete extensions, their tests, and every module that imports from them."""
        for name in names:
            shutil.rmtree(self.tree / EXTENSIONS / name)
            shutil.rmtree(self.tree / TESTS / name, ignore_errors=True)
        deleted = {f"{_module(folder)}.{name}" for folder in (EXTENSIONS, TESTS) for name in names}
        users = (path for folder in USERS for path in (self.tree / folder).rglob("*.py"))
        imported = {path: set(_imported_modules(path)) for path in users}
        while gone := [path for path, found in imported.items() if any(_is_within(name, deleted) for name in found)]:
            for path in gone:
                del imported[path]
                deleted.add(_module(path.relative_to(self.tree).with_suffix("")))
                path.unlink()
        # The stub of the metrics names those of extensions, too.
        self.run("build_stubs", "-m", "scripts.build_stubs")


def _module(path: Path) -> str:
    return ".".join(path.parts)


def _is_within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=found):
                yield from (each.name for each in found)
            case ast.ImportFrom(module=str(module), names=found):
                yield from (f"{module}.{each.name}" for each in found)


def delete_all(house: Copy) -> str:
    """Delete every extension and check the core; return the last line of the demo.

    Raises:
        click.ClickException: a check fails.
    """
    names = frozenset(extension.name for extension in own_extensions())
    house.delete(names)
    house.run("ruff", "-m", "ruff", "check", *CHECKED)
    house.run("check_doors", "-m", "scripts.check_doors")
    house.check()
    house.test(names)
    return house.run_product("run", *DEMO, "-o", "out", expected=(1,)).splitlines()[-1]


def with_dependants(name: str) -> frozenset[str]:
    """Return an extension and all extensions that need it."""
    found = {name}
    while more := {made.name for made in own_extensions() if found & set(made.needs)} - found:
        found |= more
    return frozenset(found)


def delete_alone(house: Copy, names: frozenset[str], suites: Sequence[str], tests: bool) -> Iterator[str]:
    """Delete extensions, check the rest, and restore them; yield a line for each suite that is refused meanwhile.

    Raises:
        click.ClickException: a check fails.
    """
    kept = house.tree.with_name("kept")
    for folder in (EXTENSIONS, *USERS):
        shutil.copytree(house.tree / folder, kept / folder)
    try:
        house.delete(names)
        house.check()
        for suite, said in house.refusal_notices(suites).items():
            if not any(phrase in said for phrase in REFUSED):
                raise click.ClickException(f"{suite} is not refused by the name of what is missing: {said}")
            yield f"{suite} is refused"
        if tests:
            house.test(names)
    finally:
        shutil.copytree(kept, house.tree, dirs_exist_ok=True)
        shutil.rmtree(kept)


def build(folder: Path) -> Copy:
    """Copy all tracked and new files and the cache of types into a folder."""
    tree = folder / "tree"
    copy_checkout(ROOT, tree)
    return Copy(tree, interpreter(tree, folder / "environment"))


@click.command()
@click.option("--each", is_flag=True, help="Delete each extension alone.")
@click.option("--tests", is_flag=True, help="With --each: run the tests of `make test`, too.")
@click.argument("names", nargs=-1, type=click.Choice([extension.name for extension in own_extensions()]))
def main(each: bool, tests: bool, names: tuple[str, ...]) -> None:
    """Delete extensions in a copy of this checkout, and check what is left."""
    with tempfile.TemporaryDirectory() as folder:
        house = build(Path(folder))
        if not each:
            click.echo(f"without extensions: {delete_all(house)}")
            return
        examples = [str(suite.relative_to(house.tree)) for suite in sorted(house.tree.glob("examples/*/agent.yaml"))]
        # One of the examples needs its own package.
        valid = [suite for suite in examples if suite not in house.refusal_notices([suite])]
        failed = []
        for name in names or [extension.name for extension in own_extensions()]:
            gone = with_dependants(name)
            try:
                said = ", ".join(delete_alone(house, gone, valid, tests)) or "every example is valid"
            except click.ClickException as error:
                failed.append(name)
                said = error.message
            click.echo(f"without {', '.join(sorted(gone))}: {said}")
        if failed:
            raise click.ClickException(f"the rest does not work without {', '.join(failed)}")


if __name__ == "__main__":
    main()
