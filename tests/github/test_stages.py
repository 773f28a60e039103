"""The workflows of docs/github.md work as they stand there."""

from __future__ import annotations

from tests.commands.project import Project
from tests.github.fake import FakeGitHub
from tests.github.stages import both_stages, broken_after_green, evaluate_workflow
from tests.github.workflow import InProcess


def test_the_workflow_of_the_documentation(hub: FakeGitHub, project: Project) -> None:
    evaluate_workflow(hub, project, InProcess())


def test_the_two_stages_of_the_documentation(hub: FakeGitHub, project: Project) -> None:
    both_stages(hub, project, InProcess())


def test_the_second_stage_speaks_up_without_a_record(hub: FakeGitHub, project: Project) -> None:
    broken_after_green(hub, project, InProcess())
