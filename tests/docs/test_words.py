"""Phrases that made text hard to read stay out of docs, messages, docstrings and comments."""

from __future__ import annotations

from pathlib import Path

from scripts import check_words
from tests.tables import walk

ROOT = Path(__file__).parents[2]


def test_every_file_is_checked_before_the_tests() -> None:
    assert "-m scripts.check_words\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2]


@walk(
    ("source", "found"),
    [
        ('def f():\n    """Return what it found."""\n', 'a.py:2: "Return what": write name what is returned'),
        ('"""First.\n\nNone where it fails.\n"""\n', 'a.py:3: "None where": write None if'),
        ("x = 1  # Of a setting that is none.\n", 'a.py:1: "that is none": write an invalid'),
        ('class A:\n    x: int\n    """So many seconds of its own."""\n', 'a.py:3: "of its own": write its own'),
    ],
)
def test_a_phrase_is_found_at_its_line(source: str, found: str) -> None:
    assert [problem.startswith(found) for problem in check_words.problems(source, "a.py")] == [True]


@walk(
    ("name", "text", "found"),
    [
        ("a.py", 'x = "None where it is absent"\n', ['"None where"', '"where it is absent"']),
        ("a.py", 'x = f"{n} of 3 passed, all must"\n', ['"all must"']),
        ("a.py", 'x = f"{n} of 3 passed (50 %), 90 % must"\n', ['"0 % must"']),
        ("a.py", 'x = f"{n} of 3 passed, all must pass"\n', []),
        ("a.md", "# A\n\nIt belongs to\nnobody.\n", ['"nobody"']),
        ("a.md", "A run\ndoes not\ntell it.\n", ['"does not tell"']),
        ("a.md", "Text `that is none` and\n\n```yaml\nx: somebody\n```\n", []),
        ("a.md.j2", "{% if x %}a metric of its own{% endif %}\n", ['"of its own"']),
        ("metrics/judging/a.py", 'PROMPT = "Grade it anew."\n', []),
    ],
)
def test_messages_docs_and_templates_are_read(name: str, text: str, found: list[str]) -> None:
    phrases = [problem.split(": ")[1] for problem in check_words.problems(text, name)]
    assert phrases == found
