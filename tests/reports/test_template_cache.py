"""Compiled templates are kept, and never used for another source, program or environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holodeck_action.reports.template_cache import TemplateCache
from holodeck_action.reports.templating import markdown_environment, template_folder
from tests.commands.project import Project

NAME = "summary.md.j2"


def test_a_compiled_template_is_found_again_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    environment = markdown_environment()
    environment.get_template(NAME)
    cache, source = environment.bytecode_cache, (template_folder() / NAME).read_text(encoding="utf-8")
    assert isinstance(cache, TemplateCache)
    assert cache.get_bucket(environment, NAME, NAME, source).code is not None
    assert cache.get_bucket(environment, NAME, NAME, f"{source} ").code is None
    assert TemplateCache("another environment").get_bucket(environment, NAME, NAME, source).code is None


@pytest.mark.full
def test_what_is_no_compiled_template_is_made_anew(project: Project) -> None:
    project.numbered(1)
    first = project.run_process("run", "-o", "first", PYTHONDONTWRITEBYTECODE="")
    folder = Path(str(markdown_environment().bytecode_cache.directory))  # type: ignore[union-attr]
    kept = list(folder.glob("*.jinjac"))
    assert kept
    for file in kept:
        file.write_bytes(b"no bytecode")
    again = project.run_process("run", "-o", "again", PYTHONDONTWRITEBYTECODE="")
    assert (first.code, again.code) == (0, 0), again.stderr
    assert again.stdout == first.stdout
    assert any(file.read_bytes() != b"no bytecode" for file in kept)
