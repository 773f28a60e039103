"""docs/parquet.md: every column is described, and the examples are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from holodeck_action.extensions.parquet.parquet_tables import TABLES
from tests.commands.project import Project

PAGE = (Path(__file__).parents[2] / "docs" / "parquet.md").read_text()
KINDS = {"string": "text", "int64": "integer", "double": "number", "bool": "boolean", "list": "list of text"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three cases, one of them answered wrongly, in the folder tables."""
    project = Project(tmp_path_factory.mktemp("ran"))
    project.numbered(3, frozenset({1}))
    metrics = [{"type": "standard", "metric": name, "threshold": 0.5} for name in ("f1_score", "equality")]
    project.suite([{"name": f"case {n}", "input": "?", "ground_truth": str(n)} for n in range(3)], metrics)
    assert project.run("run", "-o", "results").code == 1
    assert project.run("export", "results", "--format", "parquet", "-o", "tables").code == 0
    return project


def described() -> dict[tuple[str, str], tuple[str, str]]:
    """Type and content of each column by table and name."""
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| ([^|]+) \| ([^|]*) ?\|$", PAGE, re.MULTILINE)
    return {(table, name): (kind, content) for table, name, kind, content in rows}


@pytest.mark.full
def test_every_column_is_described(ran: Project) -> None:
    told = described()
    found: dict[tuple[str, str], str] = {}
    for table in TABLES:
        schema = pyarrow.parquet.read_schema(ran.folder / "tables" / f"{table}-00000.parquet")
        for field in schema:
            kind = str(field.type).partition("<")[0]
            found[table, field.name] = KINDS.get(kind, kind)
            if kind == "struct":
                named = set(re.findall(r"`(\w+)`", told[table, field.name][1]))
                assert named == {each.name for each in field.type}, (table, field.name)
    assert told.keys() == found.keys()
    for place, (kind, _) in told.items():
        # What is JSON, only the page tells.
        assert ("text" if kind == "json" else kind) == found[place], place


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.full
def test_the_example_for_pandas_runs(ran: Project) -> None:
    pytest.importorskip("pandas")
    (program,) = blocks("python")
    ended = subprocess.run([sys.executable, "-c", program], cwd=ran.folder, capture_output=True, text=True, check=True)
    assert re.search(r"^equality +3\.0 +0\.66", ended.stdout, re.MULTILINE)
    assert "case-1" in ended.stdout
    assert "case-2" not in ended.stdout


def test_the_examples_for_duckdb_run(ran: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb: Any = pytest.importorskip("duckdb")
    monkeypatch.chdir(ran.folder)
    means, worst = (duckdb.sql(query).fetchall() for query in blocks("sql"))
    assert [(name, below) for name, _, below in means] == [("equality", 1), ("f1_score", 1)]
    assert [(score, case, response) for score, case, response, _ in worst] == [
        (0.0, "case-1", "wrong"), (1.0, "case-0", "0"), (1.0, "case-2", "2"),
    ]  # fmt: skip
