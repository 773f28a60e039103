"""Agents that are a command: one process per conversation, speaking JSON lines on its standard streams."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Agent, Conversation, Reply
from holodeck_action.targets.streams import Pieces
from holodeck_action.targets.traced_session import TracedSession
from holodeck_action.targets.warm_up import warm_up_request, warmed_up
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import JSON_EXPANSION
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.lines import LineProcess
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from holodeck_action.extensions.frameworks.spans.listening import Listener, Listening


class CommandAgent(Agent):
    """Asks a command that reads one JSON line per turn and answers each with one JSON line, after any pieces of it.

    For the request see `Conversation.request`; the answer is the reply mapping or a JSON text. The process starts in
    the suite's folder without a shell; its end of input is the end of the conversation.
    """

    def __init__(
        self,
        command: str,
        folder: Path,
        environ: Mapping[str, str],
        max_bytes: int,
        redact: Redact,
        warm_up: str | None = None,
        listener: Listener | None = None,
        *,
        code: CodeAllowed,
    ) -> None:
        """Check that the command can be started.

        Args:
            command: program and arguments, quoted as for a POSIX shell.
            folder: the suite's folder, where the process starts and a relative program path is looked up.
            environ: the job's environment; the process sees it without the job's tokens.
            max_bytes: most bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            redact: removes secrets from what the processes say of their trouble.
            warm_up: what each process is asked before its first turn; None for nothing.
            listener: receives the spans of the processes; None where nobody reads them.
            code: the permission to start it.

        Raises:
            TargetError: the command is empty, wrongly quoted, or names no program.
        """
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise TargetError(f"the command is wrongly quoted: {str(error).lower()}") from None
        if not self._arguments:
            raise TargetError("the command is empty; write the program and its arguments")
        self._folder = folder
        self._code = code
        # Python holds back what it prints into a pipe; an agent waiting for its own output would look hung.
        self._environ = {"PYTHONUNBUFFERED": "1", **job_environment(environ)}
        self._max_bytes = max_bytes
        self._redact = redact
        self._warm_up = warm_up
        self._listener = listener
        self._check_program(self._arguments[0])

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know of the spans."""
        return () if self._listener is None else self._listener.notices

    async def open(self, case: Case, trial: int) -> CommandSession:
        """Start the process of one conversation."""
        conversation, listening, environ = Conversation(case, trial), None, self._environ
        if self._listener is not None:
            listening = await self._listener.open(conversation.session, addressed=True)
            environ = listening.variables(environ)
        try:
            process = await LineProcess.start(
                self._arguments,
                folder=self._folder,
                environ=environ,
                max_line=self._max_bytes * JSON_EXPANSION,
                code=self._code,
                redact=self._redact,
            )
        except OSError as error:
            if listening is not None:
                listening.end()
            reason = error.strerror or type(error).__name__
            raise AgentError(
                f"the command {excerpt(self._arguments[0])} cannot be started: {reason}", "cannot_start"
            ) from None
        return CommandSession(process, conversation, self._max_bytes, self._redact, self._warm_up, listening)

    async def close(self) -> None:
        """End the receiver of spans."""
        if self._listener is not None:
            await self._listener.close()

    def _check_program(self, program: str) -> None:
        if "/" in program:
            found = shutil.which(str(self._folder / program))
            place = "the path, relative to the suite's folder, is no executable file"
        else:
            found = shutil.which(program, path=self._environ.get("PATH"))
            place = "it is not on the PATH"
        if found is None:
            raise TargetError(f"command not found: {excerpt(program)} ({place})")


class CommandSession(TracedSession):
    """One conversation with one process; the first failure ends it for good."""

    def __init__(
        self,
        process: LineProcess,
        conversation: Conversation,
        max_bytes: int,
        redact: Redact,
        warm_up: str | None,
        listening: Listening | None,
    ) -> None:
        super().__init__(conversation, listening)
        self._process = process
        self._max_bytes = max_bytes
        self._redact = redact
        self._warm_up = warm_up
        self._answered = False
        self._failed = False

    async def prepare(self) -> None:
        """Have the process answer the warm-up, after which it has started."""
        if self._warm_up is not None:
            text, self._warm_up = self._warm_up, None
            await warmed_up(self._ask(warm_up_request(text)))

    async def close(self) -> None:
        """End the process and its descendants."""
        try:
            await self._process.close()
        finally:
            await super().close()

    async def _ask(self, request: Mapping[str, Any]) -> Reply:
        if self._failed:
            raise AgentError("the command was stopped after an earlier turn failed", "session_ended")
        self._failed = True
        try:
            reply = await self._exchange(request)
        except AgentError as error:
            try:
                await self._process.stop()
            finally:
                self._process.kill()
            stderr = self._process.stderr
            context = {**error.context, "stderr": stderr} if stderr else error.context
            raise AgentError(error.message, error.code, context) from None
        except BaseException:
            self._process.kill()
            raise
        self._failed = False
        return reply

    async def _exchange(self, request: Mapping[str, Any]) -> Reply:
        # Only after an answer: what comes before the first request is read as its answer.
        early = self._answered and self._process.has_output
        if not early:
            self._process.write_line(json.dumps(request).encode())
        clock = asyncio.get_running_loop().time
        asked, pieces = clock(), Pieces(self._max_bytes)
        reply: Reply | None = None
        while reply is None:
            value = await self._line()
            if early:
                raise AgentError("the command answered the turn before with more than one line", "bad_reply")
            reply = pieces.take(value, 1000 * (clock() - asked))
        self._answered = True
        return reply

    async def _line(self) -> Any:
        line = Foreign(await self._process.read_line())
        try:
            return line.lossy_json()
        except ForeignError as error:
            words = line.words(self._redact)
            raise AgentError(
                f"the command wrote a line that is not JSON ({error}): {words} (logs belong on stderr)", "bad_reply"
            ) from None
