"""Targets that are a Python callable, given to the Python API instead of named in a suite. They run in this process."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from threading import Thread
from typing import Any

from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.values import Case, Suite, Turn
from holodeck_action.targets.protocol import Agent, Conversation, Reply, Session
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.targets.warm_up import await_warm_up, warm_up_request
from holodeck_action.text.foreign import Redact
from holodeck_action.text.plain import one_line
from holodeck_action.workers.code_errors import MAX_EXCEPTION_CHARS, CallError, UserFolders
from holodeck_action.workers.json_values import PlainConverter
from holodeck_action.workers.serving import needs_second_argument
from holodeck_action.workers.streamed_reply import collect_reply, is_streamed
from holodeck_action.workers.threads import in_daemon_thread


class CallableAgent(Agent):
    """Calls a sync or async callable, with the arguments and results of a target `python:MODULE:CALLABLE`.

    A sync callable runs in a new thread for each turn. Async callables share one event loop, so that network clients
    stay usable between calls. An async call is cancelled at its deadline. A thread cannot be stopped; its late answer
    is discarded.
    """

    def __init__(self, function: Callable[..., Any], name: str, suite: Suite, max_bytes: int, redact: Redact) -> None:
        self._function = function
        self._takes_request = needs_second_argument(function)
        self._name = name
        self._user_folders = UserFolders(str(suite.folder), str(suite.checkout.cwd))
        self._warm_up = suite.policy.warm_up
        self._warm_up_lock = asyncio.Lock()
        self._spans = bool(suite.policy.spans)
        self._max_bytes = max_bytes
        self._redact = redact
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """A notice if the suite enables spans, which are not read from this kind of target."""
        return (f"{self._name}: spans are not read from a callable of the calling program",) if self._spans else ()

    async def open(self, case: Case, trial: int) -> CallableSession:
        """Return a new conversation."""
        return CallableSession(self, Conversation(case, trial))

    async def close(self) -> None:
        """Stop the event loop and cancel its tasks."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    async def warm_up(self) -> None:
        """Send the warm-up of the policy file once, before the first turn."""
        async with self._warm_up_lock:
            if self._warm_up is not None:
                await await_warm_up(self.send_request(warm_up_request(self._warm_up)))
                self._warm_up = None

    async def send_request(self, request: Mapping[str, Any]) -> Reply:
        """Return the reply to the request of one turn.

        Raises:
            AgentError: the callable raised, or returned no valid reply.
        """
        waited: list[Future[Any]] = []
        loop = self._loop = self._loop or _start_loop()

        def resolve(value: Any) -> Any:
            if not inspect.isawaitable(value):
                return value
            waited.append(asyncio.run_coroutine_threadsafe(_await_outcome(value), loop))
            result, error = waited[-1].result()
            if error is not None:
                raise error
            return result

        def call_agent() -> Any:
            begun = time.monotonic()
            reply = resolve(self._function(request["messages"], *([request] if self._takes_request else ())))
            if is_streamed(reply):
                reply = collect_reply(reply, resolve, begun, self._max_bytes)
            return PlainConverter(self._max_bytes).convert(reply, "the reply")

        try:
            return reply_from_mapping(
                await asyncio.wrap_future(in_daemon_thread(call_agent)), max_bytes=self._max_bytes
            )
        except asyncio.CancelledError:
            for future in waited:
                future.cancel()
            raise
        except AgentError as error:
            raise AgentError(f"{self._name}: {error.message}", error.code, error.context) from None
        except CallError as failure:
            raise self._agent_error(failure) from None
        except BaseException as error:  # noqa: BLE001 - the callable raises what it likes
            raise self._agent_error(self._user_folders.call_error_for(error)) from None

    def _agent_error(self, failure: CallError) -> AgentError:
        text = self._redact(f"{failure.message}{failure.exception_text}{failure.suffix}")
        words = one_line(text, MAX_EXCEPTION_CHARS)
        facts = {"type": failure.type, "traceback": list(failure.frames)}
        return AgentError(f"{self._name}: {words}", failure.code, {key: fact for key, fact in facts.items() if fact})


class CallableSession(Session):
    """A conversation with the callable."""

    def __init__(self, agent: CallableAgent, conversation: Conversation) -> None:
        self._agent = agent
        self._conversation = conversation
        self.session_id = conversation.session

    async def prepare(self) -> None:
        """Warm up the callable."""
        await self._agent.warm_up()

    async def send(self, turn: Turn) -> Reply:
        """Call the callable."""
        reply = await self._agent.send_request(self._conversation.request(turn))
        self._conversation.add(turn, reply)
        return reply


async def _await_outcome(value: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    try:
        return await value, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - an exit of the callable must not end the loop
        return None, error


def _start_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that runs in its own thread until it is stopped."""
    started: Future[asyncio.AbstractEventLoop] = Future()

    def run_loop() -> None:
        with asyncio.Runner() as runner:
            loop = runner.get_loop()
            started.set_result(loop)
            loop.run_forever()

    Thread(target=run_loop, name="holodeck-action-target", daemon=True).start()
    return started.result()
