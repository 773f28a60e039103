"""Recorded turns: what a program wrote and which files it changed, so that a replay needs no program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.agent_programs.program import Finished
from holodeck_action.extensions.agent_programs.settings import AgentTarget
from holodeck_action.extensions.agent_programs.workspace import WorkspaceError, restore
from holodeck_action.llm.calls import Answer, WireError
from holodeck_action.llm.cassette.cassette import MissExplainer, make_key
from holodeck_action.llm.cassette.recorded_calls import Recording
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.json_values import parse_json

_TRIAL = "/holodeck-trial"
"""What recorded lines have in place of the trial's folder, whose name is another one in each run."""


class PlayedTurn(Struct, frozen=True):
    """The end of a program, and the seconds that it took."""

    finished: Finished
    seconds: float


class RecordedTurns:
    """The turns of a target in a folder of recorded calls."""

    def __init__(self, recording: Recording, target: AgentTarget, digest: str) -> None:
        """Create the instance.

        Args:
            recording: the folder.
            target: the target; its settings are part of each request, except the path of the workspace and `keep`.
            digest: digest of the workspace before the first turn.
        """
        self.replays = recording.replays
        # Trials read and write in threads, and the index of the file is for one at a time.
        self._lock = Lock()
        self._entries, self._redactor = recording.entries, recording.redactor
        self._misses = MissExplainer(recording.entries)
        settings = target.model_dump(
            mode="json", exclude={"workspace", "self_check", "confine", "keep"}, exclude_defaults=True
        )
        self._asked = {**settings, "workspace": digest}

    def redact(self, text: str) -> str:
        """Return a text without the declared secrets."""
        return self._redactor.text(text)

    def request(self, trial: int, prompts: Sequence[str]) -> dict[str, Any]:
        """Return all that decides about a turn: the target's settings, the workspace, and the prompts so far."""
        asked: dict[str, Any] = self._redactor.value({**self._asked, "repeat": trial, "prompts": [*prompts]})
        return asked

    def play(self, request: dict[str, Any], folder: Path) -> PlayedTurn:
        """Return the recorded turn of a trial, whose files are written to the trial's workspace.

        Raises:
            AgentError: the turn is not recorded (code `cassette_miss`), or cannot be read.
        """
        key = make_key(request)
        try:
            with self._lock:
                entry = self._entries.read(key)
        except WireError as error:
            raise AgentError(error.message, error.code) from None
        if entry is None:
            raise AgentError(self._misses.explain(request), "cassette_miss")
        try:
            told = entry.answer.payload
            lines = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in told["lines"]]
            text = "\n".join(lines).replace(_TRIAL, str(folder))
            restore(folder / "workspace", told["files"], everything=True)
            output, errors = (Foreign(each.encode("utf-8", "replace")) for each in (text, told["stderr"]))
            finished = Finished(output, errors, told["exit_code"], told["stopped"])
        except (KeyError, TypeError, ValueError, AttributeError, OSError, WorkspaceError) as error:
            place = self._entries.documents.describe_location(key)
            raise AgentError(f"the recorded turn {place} cannot be used: {error}", "cassette_unreadable") from None
        return PlayedTurn(finished, entry.answer.latency_s)

    def keep(self, request: dict[str, Any], turn: PlayedTurn, lines: Sequence[Any], folder: Path, files: Any) -> None:
        """Store a turn.

        Args:
            request: see `request`.
            turn: the end of the program.
            lines: the lines of its stream.
            folder: the trial's folder.
            files: the changed files (see `workspace.stored_changes`).

        Raises:
            AgentError: the folder cannot be written.
        """
        finished = turn.finished
        payload = {
            "lines": parse_json(json.dumps([*lines]).replace(str(folder), _TRIAL)),
            "stderr": finished.errors.last_line(str),
            "exit_code": finished.exit_code,
            "stopped": finished.stopped,
            "files": files,
        }
        try:
            with self._lock:
                self._entries.write(
                    make_key(request), request, Answer(200, (), b"", payload, turn.seconds), datetime.now(UTC)
                )
        except WireError as error:
            raise AgentError(error.message, error.code) from None

    def close(self) -> None:
        """Finish writing."""
        self._entries.close()
