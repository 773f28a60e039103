"""Targets that are a command. Each conversation has a process, which reads and writes JSON lines."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.seam.extras import way_to_get_program
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Agent, Conversation, Reply
from holodeck_action.targets.streams import StreamedReply
from holodeck_action.targets.traced_session import TracedSession
from holodeck_action.targets.warm_up import await_warm_up, warm_up_request
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.json_values import JSON_EXPANSION
from holodeck_action.text.plain import excerpt
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.line_process import LineProcess
from holodeck_action.workers.permission import CodeAllowed

if TYPE_CHECKING:
    from holodeck_action.targets.spans import ConversationSpans, Listener


class CommandAgent(Agent):
    """Starts a command for each conversation.

    The command reads one JSON line per turn, the request (see `Conversation.request`), and writes one JSON line with
    the answer, a reply object or a string. Lines `{delta: text}` with parts of the answer may precede it. The process
    starts in the suite's folder, without a shell. The end of its input is the end of the conversation.
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
            folder: the suite's folder, the working folder of the process and the base of a relative program path.
            environ: the job's environment; the process does not receive the job's tokens.
            max_bytes: maximum bytes of UTF-8 in one reply (`limits.max_response_bytes`).
            redact: removes secrets from the processes' error output.
            warm_up: input of the warm-up request that each process gets first; None if there is no warm-up.
            listener: receives the spans of the processes; None if spans are off.
            code: the permission to start the command.

        Raises:
            TargetError: the command is empty or wrongly quoted, or its program does not exist.
        """
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise TargetError(f"the command is wrongly quoted: {str(error).lower()}") from None
        if not self._arguments:
            raise TargetError("the command is empty; write the program and its arguments")
        self._folder = folder
        self._code = code
        # Python buffers output to a pipe; without this variable, the agent would seem to hang.
        self._environ = {"PYTHONUNBUFFERED": "1", **job_environment(environ)}
        self._max_bytes = max_bytes
        self._redact = redact
        self._warm_up = warm_up
        self._listener = listener
        self._check_program(self._arguments[0])

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the received spans, one sentence each."""
        return () if self._listener is None else self._listener.notices

    async def open(self, case: Case, trial: int) -> CommandSession:
        """Start a process for a conversation."""
        conversation, spans, environ = Conversation(case, trial), None, self._environ
        if self._listener is not None:
            spans = await self._listener.open(conversation.session, has_receiver_url=True)
            environ = spans.variables(environ)
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
            if spans is not None:
                spans.end()
            reason = error.strerror or type(error).__name__
            raise AgentError(
                f"the command {excerpt(self._arguments[0])} cannot be started: {reason}", "cannot_start"
            ) from None
        return CommandSession(process, conversation, self._max_bytes, self._redact, self._warm_up, spans)

    async def close(self) -> None:
        """Stop the receiver of spans."""
        if self._listener is not None:
            await self._listener.close()

    def _check_program(self, program: str) -> None:
        if "/" in program:
            found = shutil.which(str(self._folder / program))
            place = "the path, relative to the suite's folder, is not an executable file"
        else:
            found = shutil.which(program, path=self._environ.get("PATH"))
            way = way_to_get_program(program)
            place = "it is not on the PATH" + (f"; {way}" if way else "")
        if found is None:
            raise TargetError(f"command not found: {excerpt(program)} ({place})")


class CommandSession(TracedSession):
    """A conversation with one process. The process is stopped after the first failed turn."""

    def __init__(
        self,
        process: LineProcess,
        conversation: Conversation,
        max_bytes: int,
        redact: Redact,
        warm_up: str | None,
        spans: ConversationSpans | None,
    ) -> None:
        super().__init__(conversation, spans)
        self._process = process
        self._max_bytes = max_bytes
        self._redact = redact
        self._warm_up = warm_up
        self._answered = False
        self._failed = False

    async def prepare(self) -> None:
        """Send the warm-up request, if the policy file has one, and wait for its answer."""
        if self._warm_up is not None:
            text, self._warm_up = self._warm_up, None
            await await_warm_up(self._send_request(warm_up_request(text)))

    async def close(self) -> None:
        """Stop the process and its descendants."""
        try:
            await self._process.close()
        finally:
            await super().close()

    async def _send_request(self, request: Mapping[str, Any]) -> Reply:
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
        # Before the first answer, any output is read as the answer to the first request.
        early = self._answered and self._process.has_output
        if not early:
            self._process.write_line(json.dumps(request).encode())
        clock = asyncio.get_running_loop().time
        sent_at, parts = clock(), StreamedReply(self._max_bytes)
        reply: Reply | None = None
        while reply is None:
            value = await self._read_value()
            if early:
                raise AgentError("the command answered the previous turn with more than one line", "bad_reply")
            reply = parts.feed(value, 1000 * (clock() - sent_at))
        self._answered = True
        return reply

    async def _read_value(self) -> Any:
        line = Foreign(await self._process.read_line())
        try:
            return line.lossy_json()
        except ForeignError as error:
            words = line.short_line(self._redact)
            raise AgentError(
                f"the command wrote a line that is not JSON ({error}): {words} (write logs to stderr)", "bad_reply"
            ) from None
