"""How far a run is: bars on a terminal, few lines in a log, folded lines on GitHub, colours as the variables say."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from holodeck_action.reports.terminal.progress import progress_display
from holodeck_action.text.terminal import Terminal
from tests.action.runner import read_log
from tests.action.step import Step
from tests.commands.project import Project
from tests.commands.test_streams import HOSTILE, no_line_is_obeyed, on_a_terminal

# Answers the number in the question, and names a price.
PRICED = """\
import json, sys
for line in sys.stdin:
    number = json.loads(line)["input"].split()[-1].rstrip("?")
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": 0.25}
    print(json.dumps({"response": "wrong" if number == "7" else number, "usage": usage}), flush=True)
"""


def many(project: Project, count: int = 40) -> None:
    """A suite whose case 7 is answered wrongly."""
    project.numbered(count)
    project.write("agent.py", PRICED)
    project.policy(target=f"command:{sys.executable} -u agent.py", limits={"concurrency": 2})


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def rows(shown: str) -> list[str]:
    """What was drawn, each state of a line that is written over as a line of its own."""
    return [row for row in re.split(r"\x1b\[2K|[\r\n]+", shown) if plain(row).strip()]


@pytest.mark.full
def test_a_log_gets_a_line_for_each_tenth_and_failures_at_once(project: Project) -> None:
    many(project)
    finished = project.run("run")
    assert finished.code == 1
    lines = [line for line in finished.stderr.splitlines() if not line.startswith("note: ")]
    states = [line for line in lines if re.match(r"\[\d+/40\] \d+ (passed|failed)", line)]
    assert [int(line[1:].split("/")[0]) for line in states] == list(range(4, 41, 4))
    assert re.fullmatch(r"\[40/40\] 39 passed, 1 failed, [\d.]+ cases/(s|min), \$10\.0000", states[-1]), states
    (failed,) = (at for at, line in enumerate(lines) if re.fullmatch(r"\[\d+/40\] failed +case 7 \([\d.]+ m?s\)", line))
    assert failed < lines.index(states[-1])
    assert len(lines) == len(states) + 1
    # The report that ends the log says why.
    assert "equality: 'wrong' differs from '7'" in finished.stdout
    assert "::" not in finished.stderr


def test_on_github_the_lines_of_other_cases_are_folded(project: Project) -> None:
    many(project, 12)
    finished = project.run("run", GITHUB_ACTIONS="true")
    log = read_log(finished.stderr.encode())
    assert [(command.name, command.data) for command in log.commands] == [("group", "11 other cases"), ("endgroup", "")]
    folded = finished.stderr.partition("::group::")[2].partition("::endgroup::")[0].splitlines()[1:]
    assert sorted(re.findall(r"case \d+", "".join(folded))) == sorted(f"case {n}" for n in range(12) if n != 7)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_name_of_a_case_is_obeyed_in_a_large_suite(project: Project, hostile: str) -> None:
    """In the step commands are stopped: they are resumed for the two that fold, with another token each time."""
    step = Step(project)
    project.suite([{"name": f"{hostile}{n}", "input": hostile, "ground_truth": f"{n % 6}"} for n in range(12)])
    project.answers([{"case": f"{hostile}{n}", "response": f"{n}{hostile if n > 9 else ''}"} for n in range(12)])
    project.policy(target="recorded:answers.jsonl")
    ended = step.run(GITHUB_ACTIONS="true")
    assert ended.code == 1, ended.text
    commands = ended.log.commands
    names = [command.name for command in commands if command.name != "add-mask"]
    assert names == ["stop-commands", "group", "stop-commands", "endgroup", "stop-commands", "error"]
    assert commands[[command.name for command in commands].index("group")].data == "6 other cases"
    tokens = [command.data for command in commands if command.name == "stop-commands"]
    assert len(set(tokens)) == 3
    folded = ended.output.decode().partition("::group::")[2].partition("::endgroup::")[0].splitlines()
    assert sum("passed  " in line for line in folded) == 6
    finished = project.run("run")
    no_line_is_obeyed(finished.stderr)


def test_a_log_is_not_silent_for_longer_than_15_seconds() -> None:
    stream, now = io.StringIO(), [0.0]
    shows = progress_display(stream, Terminal(None, colour=False, live=False), None, lambda: now[0])
    with shows.cases([30], stop_when_decided=True) as shown:
        for now[0] in (1.0, 14.9, 15.0, 16.0, 29.0, 30.5):
            shown.show_waiting()
    assert stream.getvalue() == "[0/30] no case is finished yet\n" * 2


@pytest.mark.full
def test_a_terminal_shows_what_is_done_and_failures_above_the_bar(project: Project) -> None:
    many(project)
    code, shown = on_a_terminal(project, "run", COLUMNS="100")
    assert code == 1
    drawn = [plain(row).strip() for row in rows(shown)]
    phases = [row[2:-2] for row in drawn if "\u2800" <= row[0] < "\u2900"]
    assert list(dict.fromkeys(phases)) == [
        "loading suites",
        "looking for the base and the history",
        "preparing targets and judges",
        "writing results",
    ]
    assert drawn[0].endswith("loading suites …")
    failed = drawn.index("failed: case 7: equality: 'wrong' differs from '7'")
    bars = [at for at, row in enumerate(drawn) if row.startswith("running ")]
    assert bars[0] < failed < bars[-1]
    # The bar is drawn again some time after a case is done.
    assert re.search(r"running \S+ +\d+/40 1 failed, [\d.]+ cases/(s|min), \$\d+\.\d\d00 \d:\d\d:\d\d", drawn[bars[-1]])
    # Nothing of it stays: the last thing on the screen is what a log would have, too.
    assert drawn[-1].startswith("note: the results are kept in .holodeck/last")
    narrow = [plain(row) for row in rows(on_a_terminal(project, "run", COLUMNS="50")[1])]
    assert max(map(len, narrow)) <= 50


@pytest.mark.full
def test_the_run_beside_has_a_bar_of_its_own(project: Project) -> None:
    many(project, 12)
    project.answers([{"case": f"case {n}", "response": str(n)} for n in range(12)], name="before.jsonl")
    code, shown = on_a_terminal(project, "run", "--against-target", "recorded:before.jsonl", COLUMNS="100")
    assert code == 1, shown
    drawn = [plain(row).strip() for row in rows(shown)]
    assert any(re.match(r"head \S+ +\d+/12", row) for row in drawn)
    assert any(re.match(r"base \S+ +12/12", row) for row in drawn)
    # Counted are the head's.
    log = project.run("run", "--against-target", "recorded:before.jsonl").stderr
    assert re.search(r"\[24/24\] 11 passed, 1 failed", log)


COLOUR = "\x1b[1;31m"


@pytest.mark.parametrize(
    ("environ", "coloured", "live"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, False, True),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
        ({"CI": "true"}, True, False),
    ],
)
def test_variables_say_what_a_terminal_shows(
    project: Project, environ: dict[str, str], coloured: bool, live: bool
) -> None:
    project.numbered(3, frozenset({1}))
    code, shown = on_a_terminal(project, "run", **environ)
    assert code == 1
    assert (COLOUR in shown) == coloured
    assert ("\x1b[2K" in shown) == live
    assert ("[3/3] " in shown) == (not live)
    if not coloured:
        assert not re.search(r"\x1b\[[0-9;]*[^0m;]m", shown)


def test_a_log_has_colours_only_where_they_are_forced(project: Project) -> None:
    project.numbered(3, frozenset({1}))
    assert "\x1b" not in project.run("run").stdout
    for value, coloured in (("1", True), ("0", False)):
        finished = project.run("run", FORCE_COLOR=value)
        assert (COLOUR in finished.stdout) == coloured
        assert "\x1b[2K" not in finished.stdout + finished.stderr
    forced = project.run("report", FORCE_COLOR="1").stdout
    assert plain(forced).split() == project.run("report").stdout.split()
    project.write("agent.yaml", "a: b: c\n")
    assert project.run("validate", FORCE_COLOR="1").stderr.startswith(f"{COLOUR}error:")
    assert "\x1b" not in project.run("validate", FORCE_COLOR="1", NO_COLOR="1").stderr


@pytest.mark.parametrize(("width", "missing"), [(35, ["needs"]), (100, [])])
def test_a_report_on_a_narrow_terminal_keeps_words_whole(project: Project, width: int, missing: list[str]) -> None:
    sentence = "This answer is long enough that no terminal of this width can show it in one line of its own."
    metrics: list[dict[str, Any]] = [
        {"type": "standard", "metric": "equality"},
        {"type": "standard", "metric": "rouge", "threshold": 0.5, "name": "overlap with words"},
    ]
    project.suite([{"name": "long", "input": "q", "ground_truth": sentence}], metrics)
    project.answers([{"case": "long", "response": f"{sentence} Really."}])
    project.policy(target="recorded:answers.jsonl")
    code, shown = on_a_terminal(project, "run", COLUMNS=str(width))
    assert code == 1
    lines = [plain(row) for row in rows(shown)]
    lines = lines[max(at for at, line in enumerate(lines) if line.startswith("✗ long")) :]
    assert max(map(len, lines)) <= width
    heads = next(line for line in lines if line.startswith("metric ")).split()
    wanted = ["metric", "mean", "needs", "passed", "failed"]
    assert heads == [head for head in wanted if head not in missing]
    assert (f"not shown at this width: {', '.join(missing)}" in lines) == bool(missing)
    # The rest of a value stands below its beginning.
    at = next(number for number, line in enumerate(lines) if line.startswith("      answer:   "))
    assert lines[at + 1][:16].isspace()
    words = " ".join(" ".join(lines[at : at + 6]).split())
    assert f"answer: {sentence} Really." in words
