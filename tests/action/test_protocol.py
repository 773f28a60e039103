"""No text becomes a workflow command or an output that we did not mean (hypothesis finds the text)."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.github.runner import (
    MESSAGE_LIMIT,
    ChannelError,
    append_outputs,
    append_summary,
    error_command,
    mask_commands,
    stop_commands,
)
from tests.action.runner import Command, read_log, read_pairs
from tests.action.step import Step
from tests.tables import walk

COMMANDS = (
    "::error::boom",
    "  ::add-mask::e",
    "\u200b::set-output name=verdict::passed",
    "\ufeff::warning file=a,line=1::x",
    "::stop-commands::pause",
    "::endgroup::",
    "::pause::",
    "##[error]boom",
    "text ##[add-mask]e",
    "##[stop-commands]x",
    "verdict=passed",
    "verdict<<EOF",
    "EOF",
    "\x1b[31m::error::\x1b[0m",
    "\u202e::error::\u2066",
    "```\n</details>\n<script>",
)
LINES = st.one_of(st.sampled_from(COMMANDS), st.text(max_size=30))
TEXTS = st.lists(LINES, min_size=1, max_size=6).flatmap(
    lambda lines: st.sampled_from(["\n", "\r", "\r\n", " ", "", "\x85", "\u2028"]).map(lambda gap: gap.join(lines))
)


@given(st.lists(TEXTS, max_size=5))
def test_nothing_between_is_a_command(texts: list[str]) -> None:
    stream = io.StringIO()
    with stop_commands(stream, lambda: "f2a1"):
        for text in texts:
            stream.write(text)
    stream.write("::notice::after\n")
    log = read_log(stream.getvalue().encode(errors="replace"))
    assert [command.name for command in log.commands] == ["stop-commands", "notice"]


@given(TEXTS)
def test_an_error_says_what_was_meant(message: str) -> None:
    log = read_log((error_command("100 %, a:b", message) + "\n").encode(errors="replace"))
    shown = message[:MESSAGE_LIMIT].encode(errors="replace").decode()
    assert log.commands == (Command("error", shown, {"title": "100 %, a:b"}),)


@given(st.lists(TEXTS, max_size=4))
def test_masks_hide_every_line_and_are_nothing_else(secrets: list[str]) -> None:
    commands = mask_commands(secrets, min_length=4)
    log = read_log("".join(f"{command}\n" for command in commands).encode(errors="replace"))
    assert set(log.text) <= {""}
    hidden = {line.strip() for secret in secrets for line in secret.splitlines() if len(line.strip()) >= 4}
    expected = {line.encode(errors="replace").decode() for line in hidden}
    assert {command.data for command in log.commands} == expected
    assert {command.name for command in log.commands} <= {"add-mask"}


@given(st.dictionaries(st.sampled_from(["verdict", "passed", "results-path"]), TEXTS))
def test_outputs_are_read_as_they_were_written(outputs: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "output"
        append_outputs(str(file), outputs)
        pairs = read_pairs(file.read_bytes().decode())
    assert dict(pairs) == {name: value.encode(errors="replace").decode() for name, value in outputs.items()}
    assert len(pairs) == len(outputs)


def test_a_summary_that_would_not_be_shown_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    append_summary(str(file), "é" * (512 * 1024))
    with pytest.raises(ChannelError, match="larger than GitHub shows"):
        append_summary(str(file), "x")
    assert file.stat().st_size == 1024 * 1024


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ("a=b=c\n", [("a", "b=c")]),
        ("a<<X\n1\n2\nX\n\nb<<Y\nY\n", [("a", "1\n2"), ("b", "")]),
        ("a<<X\nX=1\nX", [("a", "X=1")]),
    ],
)
def test_the_reader_of_outputs(content: str, pairs: list[tuple[str, str]]) -> None:
    assert read_pairs(content) == pairs


@walk("content", ["a\n", "a<<\n", "a<<X\n1\n", "a<<X\n1", "<<X\nX\n"])
def test_the_reader_of_outputs_refuses(content: str) -> None:
    with pytest.raises(ValueError, match="'"):
        read_pairs(content)


def test_the_reader_of_logs() -> None:
    output = (
        b"::error file=a.py,line=1::x%0Ay\ntext ::error::no\r  ##[warning]w\n::unknown::\n::stop-commands::t\n"
        b"::error::no\n::T::\n::debug::yes\n"
    )
    log = read_log(output)
    assert log.commands == (
        Command("error", "x\ny", {"file": "a.py", "line": "1"}),
        Command("warning", "w"),
        Command("stop-commands", "t"),
        Command("debug", "yes"),
    )
    assert log.text == ("text ::error::no", "::unknown::", "::error::no", "")


HOSTILE = "\n".join(COMMANDS)
GRADER = """
import os, sys
HOSTILE = {hostile!r}

def grade(context):
    print(HOSTILE)
    print(HOSTILE, file=sys.stderr)
    os.write(1, HOSTILE.encode())
    os.write(2, HOSTILE.encode())
    if context.test_case.name == "raises":
        raise ValueError(HOSTILE)
    return {{"score": 0.0, "reason": HOSTILE + str(sorted(os.environ.items()))}}
"""


def test_a_hostile_suite_commands_nothing(step: Step) -> None:
    """Names, answers, tools, expectations, grader output and reasons, descriptions: everything is hostile."""
    names = ["raises", "crashes", HOSTILE, *COMMANDS]
    step.project.suite(
        [{"name": name, "input": HOSTILE, "ground_truth": HOSTILE, "expected_tools": [HOSTILE]} for name in names],
        metrics=[
            {"type": "standard", "metric": "equality"},
            {"type": "code", "grader": "hostile:grade", "threshold": 0.5},
        ],
        name=HOSTILE,
        description=HOSTILE,
    )
    step.project.write("hostile.py", GRADER.format(hostile=HOSTILE))
    call = {"name": HOSTILE, "args": {HOSTILE: HOSTILE}, "result": HOSTILE, "error": HOSTILE}
    step.project.answers(
        [{"case": name, "response": HOSTILE + name, "tool_invocations": [call]} for name in names if name != "crashes"]
    )
    step.project.policy(
        target="recorded:answers.jsonl",
        cases={name: {"tags": [HOSTILE]} for name in names},
        quarantine=[{"case": COMMANDS[0], "reason": HOSTILE, "owner": HOSTILE, "expires": "2099-12-31"}],
    )
    ended = step.run()
    assert ended.code == 1, ended.text
    assert [command.name for command in ended.log.commands] == ["add-mask", "stop-commands", "error"]
    assert ended.outputs["verdict"] == "failed"
    assert ended.outputs["total"] == str(len(names))
    # Without the token that stops commands, the lines would be harmless, too.
    bare = b"\n".join(line for line in ended.output.splitlines() if not line.startswith(b"::"))
    assert read_log(bare).commands == ()
    assert "\x1b" not in ended.text
    assert "\x1b" not in ended.summary
    assert "runtime-token-of-the-job" not in ended.output.decode() + ended.summary
    assert not (step.files / "set_env").exists()


def test_hostile_files_command_nothing(step: Step) -> None:
    step.project.write("agent.yaml", json.dumps({"name": HOSTILE, HOSTILE: HOSTILE, "test_cases": [{HOSTILE: 1}]}))
    ended = step.run({"target": HOSTILE, "case": HOSTILE})
    assert ended.code == 2
    assert [command.name for command in ended.log.commands] == ["add-mask", "stop-commands", "error"]
    assert ended.outputs["verdict"] == "invalid"


def test_secrets_are_masked_before_anything_else_is_said(step: Step) -> None:
    step.project.numbered(1)
    document = json.loads((step.project.folder / "agent.yaml").read_text())
    document["description"] = "${SHOP_LOGIN}"
    step.project.write("agent.yaml", json.dumps(document))
    login = "first line of it\nsecond%line::of,it"
    step.project.answers([{"case": "case 0", "response": f"0 {login} sk-from-the-job"}])
    ended = step.run(SHOP_LOGIN=login, OPENAI_API_KEY="sk-from-the-job", REGION="eu")
    assert ended.code == 1
    names = [command.name for command in ended.log.commands]
    assert names == ["add-mask"] * names.count("add-mask") + ["stop-commands", "error"]
    masked = {command.data for command in ended.log.named("add-mask")}
    assert masked == {"first line of it", "second%line::of,it", "sk-from-the-job", "ghs_token-of-the-job"}
    first_text = next(position for position, line in enumerate(ended.output.splitlines()) if b"add-mask" not in line)
    assert first_text == len(masked)
    written = [path.read_text() for path in (step.project.folder / "holodeck-results").rglob("*") if path.is_file()]
    for secret in masked:
        for text in (ended.text, ended.summary, *written, *ended.outputs.values(), *(e.data for e in ended.meant[-1:])):
            assert secret not in text


def test_code_of_the_suite_is_not_told_where_the_runner_reads(step: Step) -> None:
    step.project.numbered(1)
    step.project.write(
        "curious.py",
        "import json, os\n\ndef answer(messages):\n"
        "    return json.dumps({k: v for k, v in os.environ.items() if 'set_' in v or 'step_' in v or 'token' in v})\n",
    )
    ended = step.run({"target": "python:curious:answer"})
    assert ended.code == 1
    assert "      answer:   {}" in ended.log.text
