"""Checks that a Struct declares each keyword of `msgspec.structs.replace`, which mypy does not; `make lint` runs it."""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(sources: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each keyword that no Struct of these modules declares; `sources` are by name of the file."""
    trees = {name: [*ast.walk(ast.parse(source))] for name, source in sources.items()}
    classes = [node for nodes in trees.values() for node in nodes if isinstance(node, ast.ClassDef)]
    kinds = {"Struct"}
    while more := {each.name for each in classes if kinds & {*map(ast.unparse, each.bases)}} - kinds:
        kinds |= more
    lines = [line for each in classes if each.name in kinds for line in each.body if isinstance(line, ast.AnnAssign)]
    fields = {ast.unparse(line.target) for line in lines}
    for name, nodes in trees.items():
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "msgspec.structs"]
        known = {each.asname or each.name for node in imports for each in node.names if each.name == "replace"}
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            if ast.unparse(call.func) in {"structs.replace", *known}:
                wrong = [word.arg for word in call.keywords if word.arg is not None and word.arg not in fields]
                yield from (f"{name}:{call.lineno}: no Struct has the field {word}" for word in wrong)


if __name__ == "__main__":
    files = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in (ROOT / "holodeck_action").rglob("*.py")}
    sys.exit("\n".join(problems(files)) or 0)
