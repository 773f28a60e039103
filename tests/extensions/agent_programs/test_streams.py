"""Stored streams of the real programs, read by their adapters: what a turn was, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from holodeck_action.extensions.agent_programs.adapters.catalogue import ADAPTERS
from holodeck_action.extensions.agent_programs.program import Finished
from holodeck_action.extensions.agent_programs.trajectory import Trajectory
from holodeck_action.text.foreign import Foreign
from tests.extensions.agent_programs.test_programs import ENDS, STREAMS

CODES = json.loads((STREAMS / "exit-codes.json").read_text(encoding="utf-8"))
HOW = {"": "completed", "infrastructure_error": "infrastructure", "cut_off": "cut_off"}
REFUSED = {"codex": "completed", "qwen": "completed"}
"""How a refusal by the provider ends where the stream has no word for one."""
_ENDED = [(3, False), (None, True)]
FAILED = {
    "codex": [(3, True), (1, True)],
    "copilot": _ENDED,
    "gemini": [(None, False), (None, True)],
    "opencode": _ENDED,
}
"""Exit code and error of each call of a command that fails and of a file that is missing."""
WORKED = {"codex": [(0, False), (0, False)], "gemini": [(None, False), (None, False)]}
"""The same of the calls that write a file, which is a command for one program, and show it."""


def read(
    program: str,
    name: str,
    lines: Sequence[str],
    home: Path,
    code: int | None = None,
    change: tuple[str, str] = ("", ""),
) -> Trajectory:
    """Return the turn that lines of a stored stream tell, with words changed in them and in its session's file."""
    used = STREAMS / f"{program}-{name}.session"
    adapter = ADAPTERS[program]()
    if used.exists() and lines:
        place = adapter.session_file(home, json.loads(lines[-1]).get("sessionId", ""))
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(used.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    output = Foreign("".join(lines).replace(*change).encode())
    finished = Finished(output, Foreign(b""), CODES[f"{program}-{name}"] if code is None else code)
    return finished.trajectory(adapter, home, None)


def stored(program: str) -> dict[str, list[str]]:
    """Return the lines of each stored stream of a program, by the scenario."""
    return {
        file.stem.partition("-")[2]: file.read_text(encoding="utf-8").splitlines(keepends=True)
        for file in sorted(STREAMS.glob(f"{program}-*.jsonl"))
    }


@pytest.mark.parametrize("program", ADAPTERS)
def test_each_stored_stream_is_read(tmp_path: Path, program: str) -> None:
    found = {name: read(program, name, lines, tmp_path) for name, lines in stored(program).items()}
    ends = {name: HOW[code] for name, code in ENDS.items()}
    ends |= {"half": "infrastructure", "refuse": REFUSED.get(program, "agent")}
    assert {name: turn.ended.how for name, turn in found.items()} == {name: ends[name] for name in found}
    assert ENDS.keys() <= found.keys()
    assert [name for name, turn in found.items() if (turn.ended.reason == "") != (turn.ended.how == "completed")] == []
    ids = {name: turn.session for name, turn in found.items() if turn.ended.how == "completed"}
    assert len(set(ids.values()) - {None}) == len(ids)
    calls = {
        name: [(call.exit_code, call.error is not None) for call in turn.calls or ()] for name, turn in found.items()
    }
    assert calls["work"] == WORKED.get(program, [(None, False), (0, False)])
    assert calls["fail"] == FAILED.get(program, [(3, True), (None, True)])
    assert [len(calls[name]) for name in ("say", "401", "w500", "wcut")] == [0, 0, 1, 1]
    work = found["work"].calls or ()
    assert ["hello" in json.dumps(call.args) or "cat notes" in json.dumps(call.args) for call in work][1:] == [True]
    assert "ok-42" in (work[1].result or "")
    say = found["say"]
    assert say.tokens is not None
    assert (say.tokens.prompt, say.tokens.cached, say.tokens.completion) == (1000, 400, 50)
    assert (say.text, found["401"].tokens) == ("Just an answer.", None)


@pytest.mark.parametrize("program", ADAPTERS)
def test_no_part_of_a_stream_is_a_completed_turn(tmp_path: Path, program: str) -> None:
    """A program that is killed leaves such a part; so does one whose last line is lost."""
    for name in (name for name, code in ENDS.items() if code == ""):
        lines = stored(program)[name]
        for end in range(len(lines)):
            assert read(program, name, lines[:end], tmp_path).ended.how != "completed", (name, end)
        assert read(program, name, lines, tmp_path).ended.how == "completed"
        assert read(program, name, lines, tmp_path, code=1).ended.how == "infrastructure"
        assert read(program, name, [*lines, '{"type": "more"}\n'], tmp_path).ended.how != "completed"
        assert read(program, name, [*lines[:1], "no JSON\n", *lines[1:]], tmp_path).ended.how == "infrastructure"


@pytest.mark.parametrize(
    ("program", "words", "others", "how"),
    [
        ("claude", '"is_error": false', '"is_error": true', "infrastructure"),
        ("claude", '"subtype": "success"', '"subtype": "error_max_turns"', "agent"),
        ("claude", '"subtype": "success"', '"subtype": "error_during_execution"', "infrastructure"),
        ("claude", '"terminal_reason": "completed"', '"terminal_reason": "api_error"', "infrastructure"),
        ("claude", '"permission_denials": []', '"permission_denials": [{"tool_name": "Bash"}]', "infrastructure"),
        ("claude", '"stop_reason": "end_turn"', '"stop_reason": "max_tokens"', "cut_off"),
        ("codex", '"turn.completed"', '"turn.failed"', "infrastructure"),
        ("copilot", '"exitCode": 0', '"exitCode": 2', "infrastructure"),
        ("copilot", "session.usage_record", "other", "infrastructure"),
        ("copilot", '"assistant.idle"', '"session.error"', "infrastructure"),
        ("gemini", '"status": "success"', '"status": "error"', "infrastructure"),
        ("gemini", "gemini_cli.api_response", "other", "infrastructure"),
        ("gemini", "_token_count", "_count", "infrastructure"),
        ("gemini", '"stop"', '"stop", "length"', "cut_off"),
        ("gemini", '"role": "main"', '"role": "utility"', "infrastructure"),
        ("gemini", '"event.timestamp": "2026', '"event.timestamp": "2025', "infrastructure"),
        ("opencode", '"reason": "stop"', '"reason": "unknown"', "infrastructure"),
        ("pi", '"stopReason": "stop"', '"stopReason": "aborted"', "infrastructure"),
        ("qwen", '"is_error": false', '"is_error": true', "infrastructure"),
        ("qwen", '"subtype": "success"', '"subtype": "error_max_turns"', "agent"),
    ],
)
def test_an_answer_counts_only_with_each_word_of_its_end(
    tmp_path: Path, program: str, words: str, others: str, how: str
) -> None:
    lines = stored(program)["say"]
    assert read(program, "say", lines, tmp_path, change=(words, others)).ended.how == how
