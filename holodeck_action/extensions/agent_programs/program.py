"""One start of a program: its prompt is a file, and its stream another one, which is kept as it came."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.agent_programs.adapters.adapter import Adapter
from holodeck_action.extensions.agent_programs.adapters.unknown import UnknownProgram
from holodeck_action.extensions.agent_programs.trajectory import Ended, Event, Trajectory
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.disk import open_new, write_new
from holodeck_action.text.foreign import Foreign, ForeignError, Redact, open_file, read_file
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.processes import KillableProcess, exit_phrase

_END_S = 5.0
"""Most seconds until a killed program has ended."""
_LOOK_S = 0.25
"""Seconds between two looks at the size of a stream."""
_STREAM_EXPANSION = 20
"""How much larger than an answer a stream may be: it repeats each part of it."""
_WORTH_A_LOOK = 1.1
"""How many times as long as at the last look a stream must be to be read again."""
_MOST_SESSION = 64_000_000
_KEPT_ERRORS = 64_000


class Finished(Struct, frozen=True):
    """The output of a program that has ended, or was stopped.

    Attributes:
        output: standard output.
        errors: standard error.
        exit_code: the exit code, negative for a signal; None if the program was stopped.
        stopped: why it was stopped; empty if it ended by itself.
    """

    output: Foreign
    errors: Foreign
    exit_code: int | None
    stopped: str = ""

    def last_words(self, redact: Redact) -> str:
        """Return the last line of standard error as a clause to append to a sentence; empty if there is none."""
        words = self.errors.last_line(redact)
        return f"; its last line on stderr: {words}" if words else ""

    def trajectory(self, adapter: Adapter, home: Path, session: str | None) -> Trajectory:
        """Return the turn; its end is an error if the program was stopped, or ended with a signal or unreadable
        lines."""
        if isinstance(adapter, UnknownProgram):
            events: list[Event] = [{"output": self.output.lossy_text(), "exit_code": self.exit_code}]
            return self._checked(adapter.read(events))
        events, unreadable = self._events()
        found = adapter.read(events)
        file = adapter.session_file(home, found.session or session or "") if found.session or session else None
        if file is not None:
            found = adapter.read([*_lines_of(file, adapter), *events])
        if unreadable and not self.stopped:
            ended = Ended("infrastructure", f"wrote {len(unreadable)} lines that are not JSON")
            return self._checked(replace(found, ended=ended))
        return self._checked(found)

    def stored_lines(self, adapter: Adapter, home: Path, session: str | None) -> list[Any]:
        """Return the lines for a recording: those of the session's file, then those of the stream; JSON objects are
        parsed."""
        if isinstance(adapter, UnknownProgram):
            return [self.output.lossy_text()]
        file = adapter.session_file(home, session) if session else None
        events, unreadable = self._events()
        return [*([] if file is None else _lines_of(file, adapter)), *unreadable, *events]

    def _checked(self, found: Trajectory) -> Trajectory:
        if self.stopped:
            return replace(found, ended=Ended("agent", self.stopped))
        if found.ended.how == "completed" and self.exit_code != 0:
            return replace(found, ended=Ended("infrastructure", exit_phrase(self.exit_code or 0)))
        return found

    def _events(self) -> tuple[list[Event], list[str]]:
        """Return the lines that are JSON objects, and the texts of those that are not JSON."""
        events: list[Event] = []
        unreadable: list[str] = []
        for line in self.output.lines():
            try:
                value = line.lossy_json()
            except ForeignError:
                unreadable += [text] if (text := line.lossy_text()).strip() else []
                continue
            if isinstance(value, dict):
                events.append(value)
        return events, unreadable


def read_end(file: BinaryIO, most_bytes: int) -> Foreign:
    """Return the end of a file that a program wrote."""
    start = max(0, file.seek(0, os.SEEK_END) - most_bytes)
    file.seek(start)
    return Foreign(file.read(most_bytes), is_truncated=start > 0)


def _lines_of(file: Path, adapter: Adapter) -> list[Event]:
    try:
        content = read_file(file, _MOST_SESSION, follow_links=False)
    except OSError:
        return []
    return Finished(adapter.session_lines(content), Foreign(b""), None)._events()[0]


class ProgramRun:
    """A program that runs, with the prompt as its standard input."""

    def __init__(
        self,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        folder: Path,
        prompt: str,
        max_bytes: int,
        code: CodeAllowed,
    ) -> None:
        """Start the program.

        Args:
            arguments: absolute path of the program and its arguments.
            environ: the whole environment.
            folder: the trial's folder, in which the program works in `workspace`.
            prompt: the text of its standard input.
            max_bytes: maximum bytes of an answer.
            code: the permission to start it.

        Raises:
            AgentError: the program cannot be started.
        """
        self._most_bytes = max_bytes * _STREAM_EXPANSION
        number = next(at for at in range(1_000_000) if not (folder / f"turn-{at}.prompt").exists())
        places = [folder / f"turn-{number}.{kind}" for kind in ("jsonl", "stderr")]
        asked = folder / f"turn-{number}.prompt"
        try:
            write_new(asked, [prompt.encode("utf-8", "replace")])
            with (
                open_file(asked, None) as stdin,
                open_new(places[0]) as stdout,
                open_new(places[1]) as stderr,
                ExitStack() as held,
            ):
                # Held open, because the program can remove or replace them.
                self._output, self._errors = (held.enter_context(open_file(place, None)) for place in places)
                self._process = KillableProcess(
                    arguments,
                    environ,
                    code=code,
                    folder=folder / "workspace",
                    stdin=stdin.fileno(),
                    stdout=stdout.fileno(),
                    stderr=stderr.fileno(),
                )
                self._held = held.pop_all()
        except OSError as error:
            raise AgentError(f"the program cannot be started: {error.strerror}", "cannot_start") from None
        self._exit_code: int | None = None

    async def wait(self, max_calls: int, adapter: Adapter) -> Finished:
        """Wait until the program ends; stop it if its output is too long, or has too many calls of tools."""
        ended = asyncio.Event()

        def note(code: int) -> None:
            self._exit_code = code
            ended.set()

        self._process.call_on_exit(note)
        read = 0
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await ended.wait()
                size, is_last = _size(self._output), ended.is_set()
                # The whole stream is read each time, so that a look must be worth it.
                is_longer = size > read * _WORTH_A_LOOK or (is_last and size > read)
                stopped = self._excess(max_calls if is_longer else None, adapter)
                read = size if is_longer else read
                if stopped:
                    self.kill()
                    await ended.wait()
                if stopped or is_last:
                    return self.so_far(stopped)
        except BaseException:
            self.kill()
            # The event loop may end before it has noticed the end.
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await ended.wait()
            raise

    def _excess(self, max_calls: int | None, adapter: Adapter) -> str:
        """Return why the turn is an error; empty if it is not.

        Args:
            max_calls: maximum calls of tools; None if they are not counted.
            adapter: the adapter.
        """
        if max(map(_size, (self._output, self._errors))) > self._most_bytes:
            return f"wrote more than {self._most_bytes:,} bytes (see limits.max_response_bytes); it was stopped"
        if max_calls is None or isinstance(adapter, UnknownProgram):
            return ""
        calls = adapter.read(self.so_far()._events()[0]).calls or ()
        return (
            f"made more than {max_calls} calls of tools (max_calls); it was stopped" if len(calls) > max_calls else ""
        )

    def so_far(self, stopped: str = "") -> Finished:
        """Return the output of the program so far, within the limit, and the end of its error output."""
        self._output.seek(0)
        output = Foreign(self._output.read(self._most_bytes))
        return Finished(output, read_end(self._errors, _KEPT_ERRORS), self._exit_code, stopped)

    def kill(self) -> None:
        """Stop the program and all its descendants."""
        self._process.kill()

    def close(self) -> None:
        """Stop the program, and forget its output."""
        self.kill()
        self._held.close()


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size
