"""A file of a suite that is only a Git LFS pointer is refused wherever it is read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.commands.project import Project

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"
SAID = "is in Git LFS, and only its pointer is here: run git lfs pull; in a workflow, give actions/checkout lfs: true"
SEARCH = {"name": "faq", "description": "Answers", "source": "large"}
HOLDERS: dict[str, dict[str, Any]] = {
    "large.csv": {"test_cases": None, "test_cases_file": "large.csv"},
    "large.xlsx": {"test_cases": None, "test_cases_file": "large.xlsx"},
    "large.parquet": {"test_cases": None, "test_cases_file": "large.parquet"},
    "large.md": {"instructions": {"file": "large.md"}},
    "large.jsonl": {"policy": {"target": "recorded:large.jsonl"}},
    "large.pdf": {"case": {"files": [{"path": "large.pdf", "type": "pdf"}]}},
    "large.png": {"case": {"files": [{"path": "large.png", "type": "image"}]}},
    "large.json": {"case": {"evaluations": [{"type": "json", "json_schema": "large.json"}]}},
    "large/one.txt": {"tools": [{"type": "vectorstore", **SEARCH}]},
    "large/two.pdf": {"tools": [{"type": "hierarchical_document", **SEARCH}]},
    "holodeck-action.yaml": {},
    "config.yaml": {},
}


@pytest.mark.needs
@pytest.mark.parametrize("name", HOLDERS)
def test_a_pointer_is_refused_with_the_way_to_get_the_file(project: Project, name: str) -> None:
    more = dict(HOLDERS[name])
    case = {"name": "one", "input": "?", "ground_truth": "yes", **more.pop("case", {})}
    project.policy(**more.pop("policy", {}))
    project.suite([case], **more)
    project.write("large.txt" if name.startswith("large/") else name, POINTER)
    project.write(name, POINTER)
    finished = project.run("validate", OPENAI_API_KEY="key")
    assert finished.code == 2, finished.stdout + finished.stderr
    assert SAID in finished.stderr.replace("\n", " "), finished.stderr


def test_a_longer_file_that_begins_like_a_pointer_is_read(project: Project) -> None:
    project.suite([{"name": "one", "input": "?", "ground_truth": "yes"}], instructions={"file": "prompt.md"})
    project.write("prompt.md", POINTER + "It goes on. " * 100)
    assert project.run("validate", OPENAI_API_KEY="key").code == 0
