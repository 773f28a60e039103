"""Show that every extension can be deleted, in a copy of this checkout.

    python -m scripts.core [--each] [--tests] [NAME ...]

Without `--each` all extensions are deleted at once (`make core`): linters, types, one test of each file and the demo
must pass. With it each is deleted alone, with those that need it: import contract, types, `--help`, and `validate` of
all examples, of which those that need it must be refused. `--tests` adds one test of each file (`make core-all`).
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
from scripts.products import ROOT, interpreter

EXTENSIONS = Path("holodeck_action", "extensions")
TESTS = Path("tests", "extensions")
TYPED = ("holodeck_action", "tests", "runner")
"""What is typed; `bench` and `scripts` know all extensions."""
REFUSED = "is not known to this installation"
DEMO = ("examples/support/agent.yaml", "--target", "model", "--replay", "examples/support/cassette")
_TIMEOUT_S = 1800
_SHOWN_LINES = 60


@dataclass(frozen=True)
class House:
    """A copy of the checkout in `tree`, and the interpreter that finds it and nothing of the checkout itself."""

    tree: Path
    python: str

    def run(self, name: str, *command: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run the copy's interpreter with arguments; return what it prints.

        Raises:
            click.ClickException: it ends with another exit code than those that are expected.
        """
        finished = subprocess.run(
            (self.python, *command),
            cwd=self.tree,
            env={**os.environ, "OPENAI_BASE_URL": "http://localhost/v1", "OPENAI_API_KEY": "none"},
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

    def product(self, *arguments: str, expected: tuple[int, ...] = (0,)) -> str:
        """Run the product's command line in the copy; return what it prints."""
        return self.run(" ".join(arguments), "-m", "holodeck_action.cli", *arguments, expected=expected)

    def check(self) -> None:
        """Check import contract, types and `--help`."""
        self.run("lint-imports", "-c", "from importlinter.cli import lint_imports_command as run; run()")
        self.run("mypy", "-m", "mypy", *TYPED)
        self.product("--help")

    def test(self, absent: frozenset[str]) -> None:
        """Run one test of each file that does not need the extensions that are absent."""
        without = f"--without={','.join(sorted(absent))}"
        self.run("pytest --quick", "-m", "pytest", "--quick", "-p", "no:cacheprovider", "--tb=short", without)

    def refused(self, suites: Iterable[str]) -> dict[str, str]:
        """Return what is said of each suite that cannot be asked, or not with its own model."""
        said = {}
        for suite in suites:
            planned = self.product("run", "--dry-run", "--target", "model", suite, expected=(0, 2))
            said[suite] = self.product("validate", suite, expected=(0, 2)) + planned
        return {suite: words for suite, words in said.items() if "error:" in words}

    def delete(self, names: frozenset[str]) -> None:
        """Delete extensions and their tests: those in their folders, and every one that imports something of theirs."""
        for name in names:
            shutil.rmtree(self.tree / EXTENSIONS / name)
            shutil.rmtree(self.tree / TESTS / name, ignore_errors=True)
        deleted = {f"{_module(folder)}.{name}" for folder in (EXTENSIONS, TESTS) for name in names}
        imported = {path: set(_imported(path)) for path in (self.tree / "tests").rglob("*.py")}
        while gone := [path for path, found in imported.items() if any(_within(name, deleted) for name in found)]:
            for path in gone:
                del imported[path]
                deleted.add(_module(path.relative_to(self.tree).with_suffix("")))
                path.unlink()


def _module(path: Path) -> str:
    return ".".join(path.parts)


def _within(name: str, modules: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=found):
                yield from (each.name for each in found)
            case ast.ImportFrom(module=str(module), names=found):
                yield from (f"{module}.{each.name}" for each in found)


def delete_all(house: House) -> str:
    """Delete every extension, and show that the core works; return how the demo ends.

    Raises:
        click.ClickException: something of it fails.
    """
    names = frozenset(extension.name for extension in own_extensions())
    house.delete(names)
    house.run("ruff", "-m", "ruff", "check", ".")
    house.run("check_doors", "-m", "scripts.check_doors")
    house.check()
    house.test(names)
    return house.product("run", *DEMO, "-o", "out", expected=(1,)).splitlines()[-1]


def with_dependants(name: str) -> frozenset[str]:
    """Return an extension and all that need it."""
    found = {name}
    while more := {made.name for made in own_extensions() if found & set(made.needs)} - found:
        found |= more
    return frozenset(found)


def delete_alone(house: House, names: frozenset[str], suites: Sequence[str], tests: bool) -> Iterator[str]:
    """Delete extensions, show that the rest works, and put them back; yield which of the suites are refused then.

    Raises:
        click.ClickException: something of it fails.
    """
    kept = house.tree.with_name("kept")
    for folder in (EXTENSIONS, Path("tests")):
        shutil.copytree(house.tree / folder, kept / folder)
    try:
        house.delete(names)
        house.check()
        for suite, said in house.refused(suites).items():
            if REFUSED not in said:
                raise click.ClickException(f"{suite} is not refused by the name of what is missing: {said}")
            yield f"{suite} is refused"
        if tests:
            house.test(names)
    finally:
        shutil.copytree(kept, house.tree, dirs_exist_ok=True)
        shutil.rmtree(kept)


def build(folder: Path) -> House:
    """Copy what git tracks and what is new, and the cache of types."""
    tree = folder / "tree"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for cache in (".mypy_cache", ".tools"):
        if (ROOT / cache).is_dir():
            shutil.copytree(ROOT / cache, tree / cache, symlinks=True)
    # Some checks ask git for the files.
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return House(tree, interpreter(tree, folder / "environment"))


@click.command()
@click.option("--each", is_flag=True, help="Delete each extension alone.")
@click.option("--tests", is_flag=True, help="With --each: run one test of each file, too.")
@click.argument("names", nargs=-1, type=click.Choice([extension.name for extension in own_extensions()]))
def main(each: bool, tests: bool, names: tuple[str, ...]) -> None:
    """Delete extensions in a copy of this checkout, and check what is left."""
    with tempfile.TemporaryDirectory() as folder:
        house = build(Path(folder))
        if not each:
            click.echo(f"without extensions: {delete_all(house)}")
            return
        examples = [str(suite.relative_to(house.tree)) for suite in sorted(house.tree.glob("examples/*/agent.yaml"))]
        # One of them needs a package of its own.
        valid = [suite for suite in examples if suite not in house.refused([suite])]
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
