"""Hostile traces: they change no verdict of others, cause no traceback, and stay within limits of time and memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.traces.spans import exchange, openinference, request, span
from tests.extensions.traces.test_trace_target import night, outcomes, recorded, suite, trace

CHECKS = ({"type": "contains", "value": "Leeds"}, {"type": "tool_calls_made", "tools": ["find_order"]})
SECRET = "sk-proj-Zk3vQ8xT1bN5mR7wY2pL"
GOOD = [
    exchange(trace(1), "Where is A-17?", "In Leeds.", session="s-1", tool="find_order"),
    exchange(trace(2), "And B-4?", "No idea.", session="s-1", at=60, tool="find_order"),
    openinference(trace(3), "Where are you?", "In Leeds.", session="s-2", at=9),
]


def hostile(seed: int) -> list[str]:
    """Return lines with spans that no library writes."""
    dice = random.Random(seed)
    found: list[str] = []
    wrong: list[Any] = [None, True, 5, -1, 1.5, "", "x" * 300, [], {}, [[]], {"a": []}, "\ud800", 2**70, "NaN"]
    for number in range(60):
        name = trace(1000 + 60 * seed + number)
        spans = exchange(name, f"Question {number}", f"Answer {number} <script>alert(1)</script> ${{HOME}}", at=number)
        victim = dice.choice(spans)
        kind = dice.randrange(8)
        if kind == 0:
            victim[dice.choice(list(victim))] = dice.choice(wrong)
        elif kind == 1:
            for each, parent in zip(spans, [*spans[1:], spans[0]], strict=True):
                each["parentSpanId"] = parent["spanId"]
        elif kind == 2:
            victim["attributes"].append({"key": "gen_ai.conversation.id", "value": dice.choice(wrong)})
        elif kind == 3:
            victim["attributes"].append({"key": "deep", "value": "DEEP"})
        elif kind == 4:
            victim["endTimeUnixNano"], victim["startTimeUnixNano"] = "0", str(2**63)
        elif kind == 5:
            spans += spans
        elif kind == 6:
            # It claims a session of others, but another of its spans claims one, too.
            spans.append(span(name, 9, 0, "invoke_agent", 0, {"session.id": "s-1", "gen_ai.operation.name": "chat"}))
            spans.append(span(name, 8, 0, "invoke_agent", 0, {"session.id": "s-9", "gen_ai.operation.name": "chat"}))
        levels = dice.choice((40, 120, 2000))
        deep = '{"arrayValue": {"values": [' * levels + "]}}" * levels
        line = json.dumps(request(spans)).replace('"DEEP"', deep)
        found.append(line[: dice.randrange(len(line))] if kind == 7 else line)
    return [
        *found,
        "null",
        "[]",
        "{}",
        '{"resourceSpans": 5}',
        '{"resourceSpans": [null, {"scopeSpans": [5]}]}',
        "\0\1",
    ]


@pytest.mark.parametrize("seed", range(3))
def test_hostile_traces_change_no_verdict_of_others(project: Project, seed: int) -> None:
    suite(project, CHECKS[0])
    night(project, *GOOD)
    project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")
    alone = {case.id: case for case in recorded(project).cases}
    verdicts = dict(zip(alone, outcomes(project), strict=True))
    lines = [json.dumps(request(each)) for each in GOOD] + hostile(seed)
    random.Random(seed).shuffle(lines)
    project.write("night.jsonl", "\n".join(lines).encode("utf-8", "surrogatepass"))

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 1, done.stderr
    together = {case.id: case for case in recorded(project).cases}
    assert set(alone) < set(together)
    assert len(together) > 40
    for name, judged in zip(together, outcomes(project), strict=True):
        if name in alone:
            assert judged == verdicts[name]
            mine, other = alone[name].trials[0].turns, together[name].trials[0].turns
            assert [(turn.input, turn.response, turn.tool_invocations) for turn in mine] == [
                (turn.input, turn.response, turn.tool_invocations) for turn in other
            ]
    page = (project.out / "report.html").read_text()
    assert "<script>alert" not in page
    assert "${HOME}" in (project.out / "results.json").read_text()


def test_secrets_of_the_job_in_traces_are_masked(project: Project) -> None:
    night(
        project,
        exchange(trace(1), f"My key is {SECRET}", f"Thanks, {SECRET}!", session=SECRET, tool="find_order"),
        [span(trace(2), 1, 0, SECRET, 0, {"gen_ai.operation.name": SECRET, "session.id": f"s {SECRET}"})],
    )
    project.write("broken/a.jsonl", f'{{"resourceSpans": {SECRET}')
    project.write("broken/b.jsonl", (project.folder / "night.jsonl").read_bytes())
    suite(project, CHECKS[0])

    for target in ("night.jsonl", "broken", f"missing-{SECRET}"):
        done = project.run("run", "agent.yaml", "-o", "out", "--target", f"traces:{target}", SHOP_API_KEY=SECRET)
        assert SECRET not in done.stdout + done.stderr
        for file in project.out.rglob("*") if project.out.exists() else ():
            assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file


# A process inherits the `ru_maxrss` of the one that started it, but not `VmHWM`.
MEASURED = """
import re, resource, sys
from pathlib import Path
from holodeck_action.cli import main
import io
code = main(tuple(sys.argv[1:]), {"HOME": "/nonexistent"}, Path.cwd(), io.StringIO(), sys.stdout, sys.stderr)
used = resource.getrusage(resource.RUSAGE_SELF)
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(f"measured {code} {peak // 1024} {used.ru_utime + used.ru_stime:.0f}")
"""


def measure(project: Project, *more: str) -> tuple[int, int, int, str]:
    """Judge `night.jsonl`; return the exit code, MB of memory, seconds of the processor, and the output."""
    arguments = ("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl", "--no-html", *more)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *arguments], cwd=project.folder, capture_output=True, text=True, timeout=500
    )
    assert "measured" in done.stdout, done.stderr
    code, megabytes, seconds = map(int, done.stdout.split("measured ")[1].split())
    return code, megabytes, seconds, done.stdout + done.stderr


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ends", [True, False])
def test_a_line_that_is_too_long_is_one_notice(project: Project, ends: bool) -> None:
    """The tools of a trace that it names, even behind its first 16 MB, are unknown; other traces are unharmed."""
    lines = [json.dumps(request(each)) for each in GOOD]
    named = json.dumps(request(exchange(trace(5), "And C-1?", "In Leeds.", tool="find_order")))
    with (project.folder / "night.jsonl").open("w") as file:
        file.write("\n".join([*lines[:2], named, '{"resourceSpans": [{"x": "']))
        for _ in range(100):
            file.write("x" * 1_000_000)
        file.write(f'", "traceId": "{trace(5)}", "y": "{"y" * 65_536}"}}]}}' + "\n" * ends)
        file.write(lines[2] if ends else "")
    suite(project, CHECKS[0])

    code, megabytes, _, output = measure(project)

    assert code == 1, output
    sentence = "traces: night.jsonl: line 4 has more than 16,000,000 bytes; export fewer spans at once"
    assert output.count(sentence) == 1
    assert "Traceback" not in output
    calls = {case.id: [turn.tool_invocations for turn in case.trials[0].turns] for case in recorded(project).cases}
    assert calls.pop(trace(5)) == [None]
    assert [call and call[0].name for call in calls["s-1"]] == ["find_order", "find_order"]
    assert len(calls) == (2 if ends else 1)
    assert megabytes <= 250


def test_a_document_that_is_too_long_is_one_notice(project: Project) -> None:
    named = json.dumps(request(exchange(trace(5), "And C-1?", "In Leeds.", tool="find_order")))
    for name, text in (("a.jsonl", named), ("b.json", f'[\n"{"x" * 17_000_000}",\n{{"trace_id": "{trace(5)}"}}]')):
        project.write(f"night/{name}", text)
    suite(project, CHECKS[0])

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night")

    assert done.code == 0, done.stderr
    assert "traces: b.json: line 1 has more than 16,000,000 bytes; export fewer" in (done.stderr + done.stdout).replace(
        "night/", ""
    )
    assert recorded(project).cases[0].trials[0].turns[0].tool_invocations is None


@pytest.mark.full
def test_more_unreadable_traces_than_can_be_kept_are_refused(project: Project) -> None:
    listed = "".join(f'"traceId": "{number:032x}", ' for number in range(400_000))
    project.write("night.jsonl", f"{json.dumps(request(GOOD[0]))}\n{{{listed}\n")
    suite(project, CHECKS[0])

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 2
    assert "spans of more than 200,000 traces cannot be read; give fewer files; night.jsonl: line 2 has" in done.stderr


@pytest.mark.full
def test_more_scores_than_can_be_kept_are_a_notice(project: Project) -> None:
    score = {"traceId": trace(1), "value": 1.0, "name": "quality"}
    scores = "".join(f"{json.dumps({**score, 'name': f'n{number}'})}\n" for number in range(100_001))
    project.write("night.jsonl", f"{json.dumps(request(GOOD[0]))}\n{scores}")
    suite(project, CHECKS[0])

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 0, done.stderr
    assert "more than 100,000 scores and annotations: the rest is not read" in done.stderr + done.stdout


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_hundred_thousand_spans_take_300_mb_at_most(project: Project) -> None:
    with (project.folder / "night.jsonl").open("w") as file:
        for start in range(0, 20_000, 100):
            spans = [
                each
                for n in range(start, start + 100)
                for each in exchange(
                    trace(n + 1), f"Where is {n}? " + "x" * 400, "In Leeds. " + "y" * 400, at=n, tool="find"
                )
            ]
            spans += [span(trace(n + 1), 7, 1, "GET", n, {"http.method": "GET"}) for n in range(start, start + 100)]
            file.write(json.dumps(request(spans)) + "\n")
    suite(project, CHECKS[0])

    code, megabytes, seconds, output = measure(project, "--sample", "500")

    assert code == 0, output
    assert len(recorded(project).cases) == 500
    assert megabytes <= 300
    # Seconds of the processor, whatever else runs.
    assert seconds <= 120
