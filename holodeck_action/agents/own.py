"""The suite's own agent put together: model, instructions, function tools, and the wire they are asked over."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holodeck_action.agents.base import TargetError
from holodeck_action.agents.model import ModelAgent, ModelSession
from holodeck_action.agents.tools.box import ToolSet
from holodeck_action.agents.tools.function import FunctionTools, load_functions
from holodeck_action.llm.errors import ModelConfigError
from holodeck_action.llm.prices import list_price
from holodeck_action.llm.providers import resolve_model
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.results.redaction import Redactor
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.targets import ModelTarget
from holodeck_action.suite.tools import FunctionTool
from holodeck_action.suite.values import Case, Suite

_KEYS_OF_NOBODY = dict.fromkeys(("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "replayed")
_OTHER = "answer with a target of your own (`target:` in holodeck-action.yaml, or --target)"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one answer may take: seconds of a turn, and bytes of a reply."""

    turn_s: float
    max_bytes: int


class OwnAgent:
    """The model agent with what it holds: the processes of its tools and the connections of the wire."""

    def __init__(self, agent: ModelAgent, functions: FunctionTools, wire: Wire) -> None:
        self.notices = agent.notices
        self._agent = agent
        self._functions = functions
        self._wire = wire

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Start a conversation."""
        return await self._agent.open(case, trial)

    async def close(self) -> None:
        """End the tools' processes and close the connections."""
        await self._functions.close()
        await self._wire.close()


def own_target(suite: Suite) -> ModelTarget:
    """Return the target that a suite is when it names none.

    Raises:
        TargetError: the suite has parts that its model is not given yet.
    """
    wanting = list(_wanting(suite))
    if wanting:
        raise TargetError(f"this version cannot give the suite's own model {', '.join(wanting)} yet; {_OTHER}")
    model = suite.agent.model
    told = f"{model.model_dump_json(exclude={'api_key'})} {instructions_of(suite)}"
    digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()
    return ModelTarget(model=f"{model.provider}/{model.name}", digest=digest)


def instructions_of(suite: Suite) -> str:
    """Return the text of the suite's instructions.

    Raises:
        TargetError: their file cannot be read.
    """
    instructions = suite.agent.instructions
    if instructions.inline is not None:
        return instructions.inline
    try:
        return (suite.folder / str(instructions.file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TargetError(f"instructions.file {instructions.file}: cannot be read as UTF-8 text: {error}") from error


def build_own(
    suite: Suite, environ: Mapping[str, str], limits: Limits, wire: WireSettings, redactor: Redactor
) -> OwnAgent:
    """Build the suite's own agent; its functions are imported, nothing is asked.

    Args:
        suite: the suite.
        environ: the job's environment: keys and addresses; tools see it without the job's tokens.
        limits: what one answer may take.
        wire: how model calls are made.
        redactor: masks secrets in what is recorded.

    Raises:
        TargetError: a key is missing, an address is none, or a function cannot be imported.
    """
    # What is only replayed needs no key.
    keys = {**_KEYS_OF_NOBODY, **environ} if wire.mode == "replay" else environ
    try:
        plan = resolve_model(suite.agent.model, keys)
        functions = asyncio.run(
            load_functions(
                suite.agent.tools or (),
                folder=suite.folder,
                environ=environ,
                clock=time.monotonic,
                marks=suite.tool_marks,
            )
        )
    except ModelConfigError as error:
        raise TargetError(str(error)) from error
    except SuiteError as error:
        raise TargetError("; ".join(str(problem) for problem in error.problems)) from error
    connections = Wire(
        wire,
        monotonic=time.monotonic,
        pause=asyncio.sleep,
        uniform=random.uniform,
        redactor=redactor,
        price=list_price,
    )
    agent = ModelAgent(
        plan,
        connections,
        instructions_of(suite),
        max_bytes=limits.max_bytes,
        turn_s=limits.turn_s,
        monotonic=time.monotonic,
        tools=ToolSet(functions.tools) if functions.tools else None,
        ended=functions.end,
    )
    return OwnAgent(agent, functions, connections)


def _wanting(suite: Suite) -> Iterator[str]:
    """Yield what the suite has and its model is not given."""
    kinds = sorted({tool.type for tool in suite.agent.tools or () if not isinstance(tool, FunctionTool)})
    if kinds:
        yield f"tools of type {', '.join(kinds)}"
    if suite.agent.response_format is not None:
        yield "response_format"
    if any(turn.files for case in suite.cases for turn in case.turns):
        yield "files of cases"
