"""A keyword of `msgspec.structs.replace` that no Struct declares is found before the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import check_replace
from tests.tables import walk

ROOT = Path(__file__).parents[2]
STRUCTS = """
class First(Struct, frozen=True):
    kept: int
    name = "no field"

class Second(First, frozen=True):
    more: str = ""

class Other:
    foreign: int
"""


@pytest.mark.full
def test_the_package_is_checked_before_the_tests() -> None:
    assert "-m scripts.check_replace\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]
    done = subprocess.run([sys.executable, "-m", "scripts.check_replace"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@walk(
    ("code", "unknown"),
    [
        ("from msgspec.structs import replace\nreplace(x, kept=1, more='', **others)", []),
        ("from msgspec.structs import replace\nreplace(x, kept=1, foreign=2)", ["foreign"]),
        ("from msgspec.structs import replace as changed\nchanged(x,\n    name=1)", ["name"]),
        ("from msgspec import structs\nstructs.replace(x, less=1, fewer=2)", ["less", "fewer"]),
        ("from dataclasses import replace\nreplace(x, foreign=2)", []),
        ("'text'.replace('a', 'b')", []),
    ],
)
def test_a_keyword_that_no_struct_declares_is_found(code: str, unknown: list[str]) -> None:
    found = [*check_replace.problems({"a.py": code, "b.py": STRUCTS})]
    assert found == [f"a.py:2: no Struct has the field {name}" for name in unknown]
