"""Help in groups, the name that was meant, and completion as shells ask for it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from holodeck_action.commands.command_classes import COMMAND_GROUPS
from holodeck_action.commands.command_line import cli
from holodeck_action.run.options.command_help import OPTION_GROUPS
from holodeck_action.seam import registry
from tests.commands.project import Project

PROGRAM = Path(sys.executable).with_name("holodeck-action")
COMPLETE = "_HOLODECK_ACTION_COMPLETE"


def sections(text: str) -> dict[str, list[str]]:
    """The first words of the entries of each section."""
    found: dict[str, list[str]] = {}
    title = ""
    for line in text.partition("  Exit codes:")[0].splitlines():
        if match := re.fullmatch(r"(\S.*):", line):
            title = match[1]
        elif match := re.match(r"  (-\S+|\w[\w-]*)", line):
            found.setdefault(title, []).append(match[1].rstrip(","))
    return found


@pytest.mark.needs
def test_help_shows_commands_and_options_in_groups(project: Project) -> None:
    shown = sections(project.run("--help").stdout)
    commands = {title: tuple(names) for title, names in shown.items() if title in COMMAND_GROUPS}
    added = registry.commands().values()
    assert commands == {
        title: (*names, *(command.name for command in added if command.group == title))
        for title, names in COMMAND_GROUPS.items()
    }
    # A command that no group names is shown, too.
    assert set(cli.commands) <= {name for names in shown.values() for name in names}
    # Sentences are whole.
    assert "..." not in project.run("--help").stdout.partition("Run:")[2]
    options = sections(project.run("run", "--help-all").stdout)
    assert [title for title in options if title in OPTION_GROUPS] == [
        *("Cases", "Agent and limits", "Gates", "Comparison and history", "Model calls", "Files and packages"),
        "Output",
    ]
    assert {"--case", "--tag", "--failed-from", "--resume"} <= set(options["Cases"])
    assert {"--min-pass-rate", "--max-flaky"} <= set(options["Gates"])
    # No name is in a group for nothing, and none in two.
    every = [*cli.commands.values(), *(registry.resolve(command.to) for command in added)]
    known = {parameter.name for command in every for parameter in command.get_params(click.Context(command))}
    grouped = [name for names in OPTION_GROUPS.values() for name in names if name != "help"]
    assert set(grouped) <= known
    assert len(grouped) == len(set(grouped))
    # Few options need no groups.
    assert "Options" in sections(project.run("verify", "--help").stdout)


def test_help_shows_the_everyday_options_and_help_all_the_rest(project: Project) -> None:
    def listed(*arguments: str) -> set[str]:
        return {name for names in sections(project.run(*arguments).stdout).values() for name in names if name[0] == "-"}

    few, every = listed("run", "--help"), listed("run", "--help-all")
    assert few < every
    assert len(few) <= 25
    assert {"--case", "--baseline", "--dry-run", "-o", "--help-all"} <= few
    assert {"--on-inconclusive", "--allow-plain-http"} <= every - few
    assert f"{len(every - few)} more options: holodeck-action run --help-all" in project.run("run", "--help").stdout
    # A command with fewer options shows them all.
    assert "--help-all" not in project.run("validate", "--help").stdout


def test_commands_that_are_easily_confused_name_each_other(project: Project) -> None:
    assert "use rejudge" in project.run("gate", "--help").stdout
    assert "use gate" in project.run("rejudge", "--help").stdout


@pytest.mark.needs("history", "traces", "view")
def test_what_shows_runs_is_listed_under_look(project: Project) -> None:
    assert sections(project.run("--help").stdout)["Look"] == ["report", "export", "history", "drift", "view"]


@pytest.mark.needs
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["valdate"], "No such command 'valdate'. Did you mean 'validate'?"),
        (["history", "shw"], "No such folder or command 'shw'. Did you mean 'show'?"),
        (["run", "--ouput-dir", "x"], "No such option --ouput-dir Did you mean --output-dir?"),
        (["xyzzy"], "No such command 'xyzzy'.\n"),
    ],
)
def test_a_misspelt_name_suggests_the_one_that_was_meant(project: Project, arguments: list[str], meant: str) -> None:
    finished = project.run(*arguments)
    # Versions of click differ in the marks around the names of options.
    said = re.sub(
        r"option:? '?(--\S+?)'?\.? Did you mean '?(--\S+?)'?\?", r"option \1 Did you mean \2?", finished.stderr
    )
    assert (finished.code, meant in said) == (2, True), finished.stderr


def asked(project: Project, shell: str, *words: str) -> str:
    """What the program answers a shell that completes the last word."""
    if shell == "fish":
        environ = {"COMP_WORDS": " ".join(("holodeck-action", *words)), "COMP_CWORD": words[-1]}
    else:
        environ = {"COMP_WORDS": " ".join(("holodeck-action", *words)), "COMP_CWORD": str(len(words))}
    return _process(project, **environ, **{COMPLETE: f"{shell}_complete"})


def _process(project: Project, **environ: str) -> str:
    finished = project.run_interpreter(**environ)
    assert (finished.code, finished.stderr) == (0, "")
    return finished.stdout


def test_a_shell_completes_commands_options_choices_and_files(project: Project) -> None:
    assert asked(project, "bash", "va").split() == ["plain,validate"]
    assert asked(project, "bash", "run", "--min-pass-r").split() == [
        "plain,--min-pass-rate",
        "plain,--min-pass-rate-lower-bound",
    ]
    assert asked(project, "bash", "report", "--format", "ht").split() == ["plain,html"]
    assert asked(project, "bash", "run", "ag").split() == ["file,ag"]
    assert asked(project, "bash", "run", "-o", "o").split() == ["file,o"]
    assert "validate" in asked(project, "zsh", "va")
    assert asked(project, "fish", "va").startswith("plain,validate")
    for shell in ("zsh", "fish"):
        assert COMPLETE in _process(project, **{COMPLETE: f"{shell}_source"})


@pytest.mark.skipif(not PROGRAM.exists() or shutil.which("bash") is None, reason="needs bash and the console script")
def test_bash_itself_completes(project: Project) -> None:
    project.write("agent.yaml", "name: x\n")
    script = (
        f'eval "$({COMPLETE}=bash_source holodeck-action)"\n'
        'words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); compopt() { :; };\n'
        '  _holodeck_action_completion holodeck-action; echo "${COMPREPLY[*]}"; }\n'
        "complete -p holodeck-action\n"
        "words holodeck-action re\n"
    )
    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=project.folder,
        env=project.environ(PATH=f"{PROGRAM.parent}:/usr/bin:/bin"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.stdout.splitlines() == [
        "complete -o nosort -F _holodeck_action_completion holodeck-action",
        "rejudge report",
    ], ended.stderr
