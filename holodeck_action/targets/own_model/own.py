"""The suite's own agent put together: model, instructions, tools, and the wire they are asked over."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import cast, get_args

from msgspec.structs import replace

from holodeck_action.llm.calls import Tokens
from holodeck_action.llm.limits.pauses import apart, uncharged
from holodeck_action.llm.providers import Keyless, MissingKeyError, ModelConfigError, ModelPlan, resolve_model
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.seam import registry
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.model.tools import (
    FunctionTool,
    HierarchicalDocumentTool,
    MCPTool,
    PromptTool,
    VectorstoreTool,
)
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.own_model.case_files import CaseFiles
from holodeck_action.targets.own_model.model_agent import ModelAgent, ModelSession, answer_format
from holodeck_action.targets.own_model.runner_block import RunnerSettings, runner_settings
from holodeck_action.targets.own_model.toolbox import PlannedCalls, Tool, Toolkit, ToolSet, ToolSurroundings
from holodeck_action.targets.protocol import Told
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.worker_process import Imported

_OF_EXTENSIONS = (MCPTool, VectorstoreTool, HierarchicalDocumentTool)
"""Tools that extensions build, in the order in which a model is given them."""


class OwnAgent:
    """The model agent with the tools that it holds.

    Servers are started and documents indexed when the first conversation opens, once for all of them; trouble with
    that is the trouble of every conversation.
    """

    untold: Mapping[Told, str] = MappingProxyType({"first token": "answers of the suite's own model are not streamed"})

    def __init__(
        self, build: Callable[..., ModelAgent], toolkits: Sequence[Toolkit], settings: RunnerSettings, redact: Redact
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            build: builds the model agent for `tools`, and for who is told that a conversation has `ended`.
            settings: say which tools the model is given.
            redact: removes secrets from what goes wrong with tools.
        """
        self._redact = redact
        self._build = build
        self._settings = settings
        self._toolkits = toolkits
        self._preparation: asyncio.Task[ModelAgent] | None = None
        self._model_notices: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """What the reader should know; more may come while the agent works."""
        of_tools = (notice for toolkit in self._toolkits for notice in toolkit.notices)
        return (*of_tools, *self._model_notices)

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Start a conversation.

        Raises:
            AgentError: `tool_unavailable`, what the tools need could not be started.
        """
        if self._preparation is None:
            self._preparation = asyncio.create_task(self._prepare())
        # One conversation's deadline does not end what all of them wait for, and none is charged for it.
        with uncharged():
            agent = await asyncio.shield(self._preparation)
        return await agent.open(case, trial)

    @property
    def plans_calls(self) -> bool:
        """Whether a tool calls models."""
        return any(toolkit.plans_calls for toolkit in self._toolkits)

    async def planned(self) -> tuple[PlannedCalls, ...]:
        """Return the calls of models that the tools take; what they need for it is read now, and not again.

        Raises:
            AgentError: `tool_unavailable`, a document cannot be read.
        """
        return tuple([calls for toolkit in self._toolkits for calls in await toolkit.planned()])

    async def end(self, session: str) -> None:
        """Release what the tools held for a conversation."""
        for toolkit in self._toolkits:
            await toolkit.end(session)

    async def close(self) -> None:
        """End the tools."""
        if self._preparation is not None:
            self._preparation.cancel()
            await asyncio.gather(self._preparation, return_exceptions=True)
        await asyncio.gather(*(toolkit.close() for toolkit in self._toolkits))

    async def _prepare(self) -> ModelAgent:
        apart()
        # Importing the provider's client takes about a second, in which servers can start.
        opening = [asyncio.create_task(_opened(toolkit, self._redact)) for toolkit in self._toolkits]
        try:
            tools = [tool for found in await asyncio.gather(*opening) for tool in found]
        finally:
            for task in opening:
                task.cancel()
        permitted = self._settings.permitted(tools)
        try:
            agent = self._build(tools=ToolSet(permitted) if permitted else None, ended=self.end)
        except (TargetError, ValueError) as error:
            raise AgentError(str(error), "tool_unavailable") from error
        self._model_notices = (*self._settings.notices(tools), *agent.notices)
        return agent


def environment_of(environ: Mapping[str, str], *, replayed: bool) -> Mapping[str, str]:
    """Return the environment in which models are looked up: what is only replayed needs no key."""
    return Keyless(environ) if replayed else environ


def own_target(suite: Suite) -> ModelTarget:
    """Return the target that a suite is when it names none.

    Raises:
        TargetError: a file of the suite cannot be read.
    """
    model, answers = suite.agent.model, answer_format(suite.agent, suite.checkout)
    identity = f"{model.model_dump_json(exclude={'api_key'})} {instructions_of(suite)}"
    if answers is not None:
        identity += f" {json.dumps(answers.schema, sort_keys=True)}"
    if prompts := [*_prompts(suite)]:
        from holodeck_action.targets.own_model.prompt_tools import template_text

        identity += "".join(f" {template_text(tool, suite.checkout)}" for tool in prompts)
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
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
        return suite.checkout.read(str(instructions.file)).text()
    except (OSError, ForeignError) as error:
        raise TargetError(f"instructions.file {instructions.file}: cannot be read as UTF-8 text: {error}") from error


def build_own(
    suite: Suite,
    environ: Mapping[str, str],
    wire: Wire,
    redactor: Redactor,
    *,
    turn_s: float,
    max_bytes: int,
    code: CodeAllowed,
    files: CaseFiles | None = None,
    imported: Imported = lambda files: None,
    interpreter: Path | None = None,
) -> OwnAgent:
    """Build the suite's own agent; its functions are imported, nothing is asked or started.

    Args:
        environ: the job's environment: keys and addresses (see `environment_of`); tools see it without the job's
            tokens.
        wire: carries the model calls; closed by who made it.
        code: the permission to start its functions and servers.
        files: reads the files of cases; closed by who made it. None where no case has any.
        imported: told which files of the checkout its functions have imported.
        interpreter: the Python of its functions; None for ours.

    Raises:
        TargetError: a key or a package is missing, an address is none, a tool cannot be used, or a budget in US dollars
            is to hold for a model whose price is not known.
    """
    if (missing := _package_missing(suite)) is not None:
        raise TargetError(missing)
    instructions, answers = instructions_of(suite), answer_format(suite.agent, suite.checkout)
    settings = runner_settings(suite.agent)
    try:
        plan, fallback = _plans(suite, settings, environ)
        if wire.limits_cost:
            check_price(plan)
        toolkits = list(_toolkits(suite, plan, wire, environ, redactor, code, imported, interpreter))
    except ModelConfigError as error:
        raise TargetError(str(error)) from error
    except SuiteError as error:
        raise TargetError("; ".join(str(problem) for problem in error.problems), error.problems) from error

    build = partial(
        ModelAgent,
        plan,
        wire,
        instructions,
        max_bytes=max_bytes,
        turn_s=turn_s,
        monotonic=time.monotonic,
        settings=settings,
        answers=answers,
        fallback=fallback,
        files=files,
    )
    return OwnAgent(build, toolkits, settings, redactor.text)


def check_own(
    suite: Suite,
    environ: Mapping[str, str],
    code: CodeAllowed,
    redactor: Redactor,
    interpreter: Path | None = None,
) -> tuple[str, ...]:
    """Build the suite's own agent as a run would, and drop it; no model is asked, and no server is started.

    `code` is the permission to start its functions, `interpreter` their Python, None for ours.

    Returns:
        Why a run would be refused on this machine, each one sentence: keys and packages, which need not be here.

    Raises:
        TargetError: see `build_own`, apart from what is returned.
    """
    if (package := _package_missing(suite)) is not None:
        return (package,)
    missing: tuple[str, ...] = ()
    try:
        _plans(suite, runner_settings(suite.agent), environ)
    except MissingKeyError as error:
        missing = (str(error),)
    except ModelConfigError as error:
        raise TargetError(str(error)) from error
    wire = Wire(WireSettings(), redactor=redactor)

    async def close(agent: OwnAgent) -> None:
        await agent.close()
        await wire.close()

    keyless = Keyless(environ)
    built = build_own(suite, keyless, wire, redactor, turn_s=1.0, max_bytes=1, code=code, interpreter=interpreter)
    asyncio.run(close(built))
    return missing


def _package_missing(suite: Suite) -> str | None:
    """Return which package the tools need that is not installed, None when all are."""
    servers = any(isinstance(tool, MCPTool) for tool in suite.agent.tools or ())
    if not servers or importlib.util.find_spec("mcp") is not None:
        return None
    return (
        "MCP servers need a package that is not installed (mcp); install it with: pip install 'holodeck-action[agents]'"
    )


def _plans(suite: Suite, settings: RunnerSettings, environ: Mapping[str, str]) -> tuple[ModelPlan, ModelPlan | None]:
    """Return the suite's model, and the one that stands in for it on the same account.

    Raises:
        ModelConfigError: see `resolve_model`.
    """
    config = suite.agent.model
    plan = replace(resolve_model(config, environ), reasoning=settings.reasoning)
    if settings.fallback is None:
        return plan, None
    other = resolve_model(config.model_copy(update={"name": settings.fallback}), environ)
    return plan, replace(other, reasoning=settings.reasoning)


def _prompts(suite: Suite) -> Iterator[PromptTool]:
    return (tool for tool in suite.agent.tools or () if isinstance(tool, PromptTool))


def _toolkits(
    suite: Suite,
    plan: ModelPlan,
    wire: Wire,
    environ: Mapping[str, str],
    redactor: Redactor,
    code: CodeAllowed,
    imported: Imported,
    interpreter: Path | None,
) -> Iterator[Toolkit]:
    """Yield the suite's tools by kind; each kind's module is imported only where it is used.

    Raises:
        SuiteError, TargetError, ModelConfigError: tools that cannot be used.
    """
    tools = suite.agent.tools or ()
    if any(isinstance(tool, FunctionTool) for tool in tools):
        from holodeck_action.targets.own_model.functions import load_functions

        yield asyncio.run(
            load_functions(
                tools,
                folder=suite.folder,
                environ=environ,
                cwd=suite.checkout.cwd,
                code=code,
                redact=redactor.text,
                clock=time.monotonic,
                marks=suite.tool_marks,
                imported=imported,
                interpreter=interpreter,
            )
        )
    given = ToolSurroundings(suite, plan, wire, environ, redactor, code)
    for kind in _OF_EXTENSIONS:
        named = next((tool.name for tool in tools if isinstance(tool, kind)), None)
        if named is not None:
            yield _of_extension(get_args(kind.model_fields["type"].annotation)[0], named, given)
    if any(_prompts(suite)):
        from holodeck_action.targets.own_model.prompt_tools import PromptTools

        yield PromptTools(
            tools,
            checkout=suite.checkout,
            plan=plan,
            environ=environ,
            clients=wire,
            marks=suite.tool_marks,
        )


def _of_extension(kind: str, named: str, given: ToolSurroundings) -> Toolkit:
    """Return the tools of a type that an extension knows.

    Raises:
        TargetError: no extension of this installation knows it.
    """
    declared = registry.tools().get(kind)
    if declared is None:
        raise TargetError(f"tools.{named}.type: {kind} {registry.unknown()}")
    build = cast(Callable[[ToolSurroundings], Toolkit], registry.resolve(declared.build))
    return build(given)


async def _opened(toolkit: Toolkit, redact: Redact) -> Sequence[Tool]:
    try:
        return await toolkit.open()
    except AgentError:
        raise
    except Exception as error:
        words = Foreign.of_text(str(error)).words(redact, 1000)
        raise AgentError(f"the tools cannot be used: {type(error).__name__}: {words}", "tool_unavailable") from error


def check_price(plan: ModelPlan) -> None:
    """Make sure that a budget in US dollars can hold for a model.

    Raises:
        TargetError: its price is not known, which is not zero.
    """
    if list_price(plan.account, plan.name, Tokens(1000, 1000)) is None:
        raise TargetError(
            f"the price of {plan.title} is not known, so that a budget in US dollars cannot hold: give one in tokens "
            "(--max-tokens, or budget.max_tokens), or leave max-cost-usd out"
        )
