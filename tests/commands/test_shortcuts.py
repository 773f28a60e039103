"""`run` has the short options of pytest, and errors and helps name each thing once."""

from __future__ import annotations

import re

import click
import pytest

from holodeck_action.commands.command_line import cli
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project

LAST = ".holodeck/last"


def _ran(project: Project, folder: str = LAST) -> list[str]:
    return [case.name or case.id for case in read_record(project.folder / folder / "results.json").cases]


@pytest.mark.proves("run: --keyword --concurrency --exitfirst")
def test_words_choose_cases_and_x_stops_at_the_first_failure(project: Project) -> None:
    project.numbered(4, frozenset({0}))
    assert project.run("run", "-k", "1", "-k", "se 2", "-j", "2").code == 0
    assert _ran(project) == ["case 1", "case 2"]
    unknown = project.run("run", "-k", "nothing")
    assert (unknown.code, "'*nothing*' matches no case" in unknown.stderr) == (2, True)
    stopped = project.run("run", "-x", "-j", "1")
    assert (stopped.code, "stopped after 1 of 4 cases: 1 failure decides" in stopped.stdout) == (1, True)
    assert project.run("run", "-x", "--stop", "never").code == 2


@pytest.mark.proves("run: --last-failed")
def test_the_cases_that_failed_run_again_and_all_of_them_if_none_did(project: Project) -> None:
    project.numbered(3, frozenset({2}))
    # Without an earlier run.
    assert project.run("run", "--lf").code == 1
    assert len(_ran(project)) == 3
    assert project.run("run", "--lf").code == 1
    assert _ran(project) == ["case 2"]
    project.numbered(3)
    assert project.run("run", "--last-failed").code == 0
    assert _ran(project) == ["case 2"]
    assert project.run("run", "--lf").code == 0
    assert len(_ran(project)) == 3
    # With a folder for results, the last run is the one in it.
    project.numbered(3, frozenset({1}))
    assert project.run("run", "-o", "out").code == 1
    assert project.run("run", "-o", "out", "--lf").code == 1
    assert _ran(project, "out") == ["case 1"]
    assert project.run("run", "--lf", "--failed-from", "out/results.json").code == 2


@pytest.mark.proves("run: --quiet")
def test_quiet_prints_a_line_for_a_suite_that_passes_and_the_report_of_one_that_does_not(project: Project) -> None:
    project.numbered(2)
    passed = project.run("run", "-q")
    assert (passed.code, passed.stdout.count("\n"), passed.stderr) == (0, 1, "")
    assert passed.stdout.startswith("PASSED: ")
    loud = project.run("run")
    assert passed.stdout == loud.stdout.splitlines(keepends=True)[-1]
    project.numbered(2, frozenset({0}))
    failed = project.run("run", "-q")
    assert (failed.code, failed.stdout) == (1, project.run("run").stdout)


def test_an_unknown_option_names_the_commands_that_take_it(project: Project) -> None:
    wrong = project.run("run", "--format", "json")
    assert (wrong.code, "No such option: --format; commands that take it: compare, report" in wrong.stderr) == (2, True)
    assert "--repeat" not in wrong.stderr
    assert "--resume" in project.run("run", "--resumee").stderr


def test_each_help_has_at_most_one_list_of_exit_codes() -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        text = f"{command.help}\n{command.epilog or ''}"
        assert len(re.findall(r"\bExit codes?\b(?=:| \d)", text)) <= 1, name
