"""A written suite says what was imported, character by character, or nothing is written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.project import Project

BREAKS = ("\x85", "\u2028", "\u2029", "\r", "\r\n", "\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e")
ODD = (
    *BREAKS,
    "\t",
    "\0",
    "\x07",
    "\x7f",
    "\x9f",
    "\ufeff",
    "\ufffe",
    "\ufdd0",
    "\xad",
    "\u200b",
    "\U0001f600",
    "\ud83d\ude00",
)
TEXTS = (
    "a",
    " ",
    "  ",
    "# b",
    ": c",
    "- ",
    "'",
    '"',
    "\\",
    "${HOME}",
    "$${x}",
    "%",
    "|",
    ">",
    "&x",
    "*x",
    "!t",
    "yes",
    "1.0",
)
TEXT = st.lists(st.sampled_from((*ODD, *TEXTS)), min_size=1, max_size=6).map("".join)


@pytest.mark.full
def test_no_line_break_or_control_character_is_lost(project: Project) -> None:
    texts = [f"a{character}b{character}" for character in ODD]
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16") for text in texts]
    # Each prompt has one case, which expects that prompt as the answer.
    prompts = [{"raw": text, "label": f"p{index}"} for index, text in enumerate(texts)]
    cases = [
        {"description": f"case {index}", "prompts": [f"p{index}"], "assert": [{"type": "equals", "value": text}]}
        for index, text in enumerate(texts)
    ]
    project.write("c.json", json.dumps({"prompts": prompts, "providers": ["echo"], "tests": cases}))
    finished = project.run("import", "promptfoo", "c.json", "-o", "new")
    assert finished.code == 0, finished.stderr
    finished, record = project.evaluate("new")
    # The question is echoed, and is the expected text.
    assert finished.code == 0, finished.stdout
    assert [turn.input for case in record.cases for turn in case.trials[0].turns] == texts


@pytest.mark.full
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(TEXT, min_size=1, max_size=20))
@example(
    texts=[" a\n\nb ", "a\x85\n", "\n\n", "\t\n\t", "a \nb", "\u2028", "é\n \n", "\ufeff", "a\n\x85b", "x\0HOME\0"]
)
def test_generated_texts_are_asked_and_expected_as_they_are(texts: list[str]) -> None:
    texts = [text.encode("utf-16", "surrogatepass").decode("utf-16") for text in texts]
    cases = [
        {"description": f"case {index}", "vars": {"answer": text, "more": f"{text}x"}, "providerOutput": f"x{text}"}
        | {"assert": [{"type": "equals", "value": f"x{text}"}, {"type": "contains", "value": f"x{text}"}]}
        for index, text in enumerate(texts)
    ]
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.write("c.json", json.dumps({"prompts": ["{{more}}"], "providers": ["echo"], "tests": cases}))
        finished = project.run("import", "promptfoo", "c.json", "-o", "new")
        assert finished.code == 0, finished.stderr
        finished, record = project.evaluate("new")
        # Both assertions hold in every case: answer, expected answer and the grader's text are the same.
        assert finished.code == 0, finished.stdout
        assert [case.trials[0].turns[0].input for case in record.cases] == [f"{text}x" for text in texts]


def test_a_suite_that_would_say_something_else_is_not_written(project: Project) -> None:
    # The loader knows more of a suite than the importer: a blank name is no name.
    case = {"description": "it", "vars": {"answer": "x"}, "assert": [{"type": "llm-rubric", "value": "fine"}]}
    provider = {"id": "openai:gpt-4o", "config": {"temperature": "warm"}}
    project.write("c.json", json.dumps({"prompts": ["{{answer}}"], "providers": [provider], "tests": [case]}))
    finished = project.run("import", "promptfoo", "c.json", "-o", "new", "--report", "new/account.json")
    assert (finished.code, finished.stdout) == (2, "")
    assert "nothing was written, because the suite would not load" in finished.stderr
    assert not (project.folder / "new").exists()
