"""Builds the suite's own agent from its model, instructions and tools."""

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
from holodeck_action.llm.limits.pauses import detach_limits, pause_all_clocks
from holodeck_action.llm.providers import (
    KeylessEnvironment,
    MissingKeyError,
    ModelConfigError,
    ModelPlan,
    resolve_model,
    with_api,
)
from holodeck_action.llm.usage import list_price
from holodeck_action.llm.wire import Wire, WireSettings
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.seam import registry
from holodeck_action.seam.extras import way_to_get
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
from holodeck_action.targets.own_model.model_agent import ModelAgent, ModelSession, read_answer_format
from holodeck_action.targets.own_model.runner_settings import RunnerSettings, runner_settings
from holodeck_action.targets.own_model.toolbox import PlannedCalls, SuiteTools, Tool, ToolContext, Toolkit
from holodeck_action.targets.protocol import Agent, ReplyFact
from holodeck_action.text.foreign import Foreign, ForeignError, Redact
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.permission import CodeAllowed
from holodeck_action.workers.worker_process import OnImport

_EXTENSION_TOOLS = (MCPTool, VectorstoreTool, HierarchicalDocumentTool)
"""Kinds of tools that extensions provide, in the order in which the model sees them."""


class OwnAgent(Agent):
    """The suite's own agent: a `ModelAgent` and its tools.

    When the first conversation opens, the tools start their servers and index their documents, once for the run. If
    this fails, every conversation fails.
    """

    unreported: Mapping[ReplyFact, str] = MappingProxyType(
        {"first token": "answers of the suite's own model are not streamed"}
    )

    def __init__(
        self, build: Callable[..., ModelAgent], toolkits: Sequence[Toolkit], settings: RunnerSettings, redact: Redact
    ) -> None:
        """Create the instance; nothing is started yet.

        Args:
            build: creates the model agent from the keyword arguments `tools` and `on_session_end` (see `ModelAgent`).
            toolkits: the tools of the suite.
            settings: settings of agent.yaml, which select the tools that the model may use.
            redact: removes secrets from errors of tools.
        """
        self._redact = redact
        self._build = build
        self._settings = settings
        self._toolkits = toolkits
        self._preparation: asyncio.Task[ModelAgent] | None = None
        self._model_notices: tuple[str, ...] = ()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the tools and the model, one sentence each; more may be added during the run."""
        of_tools = (notice for toolkit in self._toolkits for notice in toolkit.notices)
        return (*of_tools, *self._model_notices)

    async def open(self, case: Case, trial: int) -> ModelSession:
        """Return a new conversation.

        Raises:
            AgentError: `tool_unavailable`: the tools could not be started.
        """
        if self._preparation is None:
            self._preparation = asyncio.create_task(self._prepare())
        # Shielded, because all conversations wait for the same preparation; it does not count against deadlines.
        with pause_all_clocks():
            agent = await asyncio.shield(self._preparation)
        return await agent.open(case, trial)

    @property
    def calls_models(self) -> bool:
        """Whether a tool calls models."""
        return any(toolkit.calls_models for toolkit in self._toolkits)

    async def plan_calls(self) -> tuple[PlannedCalls, ...]:
        """Return the model calls that the tools are expected to make.

        Raises:
            AgentError: `tool_unavailable`: a document cannot be read.
        """
        return tuple([calls for toolkit in self._toolkits for calls in await toolkit.plan_calls()])

    async def end(self, session: str) -> None:
        """Release the resources of the tools for a finished conversation."""
        for toolkit in self._toolkits:
            await toolkit.end(session)

    async def close(self) -> None:
        """Stop the tools."""
        if self._preparation is not None:
            self._preparation.cancel()
            await asyncio.gather(self._preparation, return_exceptions=True)
        await asyncio.gather(*(toolkit.close() for toolkit in self._toolkits))

    async def _prepare(self) -> ModelAgent:
        detach_limits()
        # Concurrently, because starting servers takes time.
        opening = [asyncio.create_task(_open_toolkit(toolkit, self._redact)) for toolkit in self._toolkits]
        try:
            tools = [tool for found in await asyncio.gather(*opening) for tool in found]
        finally:
            for task in opening:
                task.cancel()
        permitted = self._settings.permitted_tools(tools)
        try:
            agent = self._build(tools=SuiteTools(permitted) if permitted else None, on_session_end=self.end)
        except (TargetError, ValueError) as error:
            raise AgentError(str(error), "tool_unavailable") from error
        self._model_notices = (*self._settings.notices(tools), *agent.notices)
        return agent


def model_environment(environ: Mapping[str, str], *, replayed: bool) -> Mapping[str, str]:
    """Return the environment from which keys and URLs of models are read; in a replay, missing keys are no error."""
    return KeylessEnvironment(environ) if replayed else environ


def own_target(suite: Suite) -> ModelTarget:
    """Return the suite's own model as a target, for a suite that names no target.

    Raises:
        TargetError: a file of the suite cannot be read.
    """
    model, answer_format = suite.agent.model, read_answer_format(suite.agent, suite.checkout)
    identity = f"{model.model_dump_json(exclude={'api_key'})} {instructions_of(suite)}"
    if answer_format is not None:
        identity += f" {json.dumps(answer_format.schema, sort_keys=True)}"
    if prompts := [*_prompt_tools(suite)]:
        from holodeck_action.targets.own_model.prompt_tools import template_text

        identity += "".join(f" {template_text(tool, suite.checkout)}" for tool in prompts)
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return ModelTarget(model=f"{model.provider}/{model.name}", digest=digest)


def instructions_of(suite: Suite) -> str:
    """Return the text of the suite's instructions.

    Raises:
        TargetError: the file cannot be read.
    """
    instructions = suite.agent.instructions
    if instructions.inline is not None:
        return instructions.inline
    try:
        return suite.checkout.read(str(instructions.file)).text()
    except (OSError, ForeignError) as error:
        raise TargetError(f"instructions.file {instructions.file}: cannot be read as UTF-8 text: {error}") from error


def build_own_agent(
    suite: Suite,
    environ: Mapping[str, str],
    wire: Wire,
    redactor: Redactor,
    *,
    turn_s: float,
    max_bytes: int,
    code: CodeAllowed,
    case_files: CaseFiles | None = None,
    on_import: OnImport = lambda case_files: None,
    interpreter: Path | None = None,
) -> OwnAgent:
    """Return the suite's own agent. Its functions are imported, but no model is called and no server is started.

    Args:
        suite: the suite.
        environ: the job's environment with keys and URLs of models (see `model_environment`); tools do not receive the
            job's tokens.
        wire: makes the model calls; the caller closes it.
        redactor: removes secrets from errors of tools.
        turn_s: time limit of a turn in seconds.
        max_bytes: maximum bytes of UTF-8 in one reply (`limits.max_response_bytes`).
        code: the permission to start functions and servers.
        case_files: reads the files of cases; the caller closes it. None if no case has files.
        on_import: called with the files of the checkout that the functions imported.
        interpreter: the Python interpreter of the functions; None to use the current one.

    Raises:
        TargetError: a key or package is missing, a URL or tool is invalid, or the model's price is unknown although the
            run has a budget in US dollars.
    """
    if (missing := _missing_package(suite)) is not None:
        raise TargetError(missing)
    instructions, answer_format = instructions_of(suite), read_answer_format(suite.agent, suite.checkout)
    settings = runner_settings(suite.agent)
    try:
        plan, fallback = _resolve_models(suite, settings, environ)
        if wire.limits_cost:
            check_price(plan)
        toolkits = list(_build_toolkits(suite, plan, wire, environ, redactor, code, on_import, interpreter))
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
        answer_format=answer_format,
        fallback=fallback,
        case_files=case_files,
    )
    return OwnAgent(build, toolkits, settings, redactor.text)


def check_own_agent(
    suite: Suite,
    environ: Mapping[str, str],
    code: CodeAllowed,
    redactor: Redactor,
    interpreter: Path | None = None,
) -> tuple[str, ...]:
    """Check the suite's own agent by building it as a run would; no model is called, and no server is started.

    Args:
        suite: the suite.
        environ: the job's environment.
        code: the permission to start functions.
        redactor: removes secrets from messages.
        interpreter: the Python interpreter of the functions; None to use the current one.

    Returns:
        A sentence for each key or package that is missing on this machine, without which a run would fail.

    Raises:
        TargetError: see `build_own_agent`; missing keys and packages are returned instead.
    """
    if (package := _missing_package(suite)) is not None:
        return (package,)
    missing: tuple[str, ...] = ()
    try:
        _resolve_models(suite, runner_settings(suite.agent), environ)
    except MissingKeyError as error:
        missing = (str(error),)
    except ModelConfigError as error:
        raise TargetError(str(error)) from error
    wire = Wire(WireSettings(), redactor=redactor)

    async def close(agent: OwnAgent) -> None:
        await agent.close()
        await wire.close()

    keyless = KeylessEnvironment(environ)
    built = build_own_agent(suite, keyless, wire, redactor, turn_s=1.0, max_bytes=1, code=code, interpreter=interpreter)
    asyncio.run(close(built))
    return missing


def _missing_package(suite: Suite) -> str | None:
    """Return a sentence about a missing package that the suite's tools need; None if no package is missing."""
    known = registry.tools()
    for entry in suite.agent.tools or ():
        kind = known.get(entry.type)
        if kind is not None and kind.package and importlib.util.find_spec(kind.package) is None:
            return (
                f"{kind.type}: tools of this type need a package that is not installed ({kind.package}); "
                f"{way_to_get(kind.extra)}"
            )
    return None


def _resolve_models(
    suite: Suite, settings: RunnerSettings, environ: Mapping[str, str]
) -> tuple[ModelPlan, ModelPlan | None]:
    """Return the suite's model and its fallback model (None if there is no fallback), on the same account.

    Raises:
        ModelConfigError: see `resolve_model`.
    """
    config = suite.agent.model
    names = [config.name, *filter(None, [settings.fallback])]
    plans = [resolve_model(config.model_copy(update={"name": name}), environ) for name in names]
    plan, *others = (replace(with_api(each, settings.api), reasoning=settings.reasoning) for each in plans)
    return plan, others[0] if others else None


def _prompt_tools(suite: Suite) -> Iterator[PromptTool]:
    return (tool for tool in suite.agent.tools or () if isinstance(tool, PromptTool))


def _build_toolkits(
    suite: Suite,
    plan: ModelPlan,
    wire: Wire,
    environ: Mapping[str, str],
    redactor: Redactor,
    code: CodeAllowed,
    on_import: OnImport,
    interpreter: Path | None,
) -> Iterator[Toolkit]:
    """Yield a toolkit for each kind of tool in the suite.

    Raises:
        SuiteError, TargetError, ModelConfigError: a tool is invalid.
    """
    tools = suite.agent.tools or ()
    if any(isinstance(tool, FunctionTool) for tool in tools):
        from holodeck_action.targets.own_model.functions import load_functions
        from holodeck_action.workers.pool import WorkerPool

        new_pool = partial(
            WorkerPool,
            suite.folder,
            environ=environ,
            cwd=suite.checkout.cwd,
            size=1,
            code=code,
            redact=redactor.text,
            on_import=on_import,
            interpreter=interpreter,
            import_s=suite.policy.limits.import_timeout_s,
        )
        yield asyncio.run(load_functions(tools, new_pool=new_pool, clock=time.monotonic, marks=suite.tool_marks))
    context = ToolContext(suite, plan, wire, environ, redactor, code)
    for kind in _EXTENSION_TOOLS:
        name = next((tool.name for tool in tools if isinstance(tool, kind)), None)
        if name is not None:
            yield _build_extension_tools(get_args(kind.model_fields["type"].annotation)[0], name, context)
    if any(_prompt_tools(suite)):
        from holodeck_action.targets.own_model.prompt_tools import PromptTools

        yield PromptTools(
            tools,
            checkout=suite.checkout,
            plan=plan,
            environ=environ,
            sender=wire,
            marks=suite.tool_marks,
        )


def _build_extension_tools(type_name: str, tool_name: str, context: ToolContext) -> Toolkit:
    """Return the toolkit for a `type` of tools from the extension that provides it.

    Args:
        type_name: the type of the tools.
        tool_name: name of a tool of this type in the suite, for the message.
        context: the suite and what its tools need.

    Raises:
        TargetError: no installed extension provides this type of tools.
    """
    declared = registry.tools().get(type_name)
    if declared is None:
        raise TargetError(f"tools.{tool_name}.type: {type_name} {registry.unknown_phrase()}")
    build = cast(Callable[[ToolContext], Toolkit], registry.resolve(declared.build))
    return build(context)


async def _open_toolkit(toolkit: Toolkit, redact: Redact) -> Sequence[Tool]:
    try:
        return await toolkit.open()
    except AgentError:
        raise
    except Exception as error:
        words = Foreign.of_text(str(error)).short_line(redact, 1000)
        raise AgentError(f"the tools cannot be used: {type(error).__name__}: {words}", "tool_unavailable") from error


def check_price(plan: ModelPlan) -> None:
    """Check that the price of a model is known, as a budget in US dollars requires.

    Raises:
        TargetError: the price is unknown.
    """
    if list_price(plan.account, plan.name, Tokens(1000, 1000)) is None:
        raise TargetError(
            f"the price of {plan.title} is unknown, so a budget in US dollars cannot be enforced: set a budget "
            "in tokens (--max-tokens, or budget.max_tokens), or remove max-cost-usd"
        )
