"""How many conversations of a suite run at the same time if nothing is set."""

from __future__ import annotations

from msgspec.structs import replace

from holodeck_action.run.options.settings import Settings
from holodeck_action.run.run import Run
from holodeck_action.run.stages import stages_of
from holodeck_action.suite.hosts import is_public_url
from holodeck_action.suite.model.targets import ModelTarget

MOST = 100
"""Largest number of conversations at the same time if nothing is set."""
PROCESS_TOOLS = ("function", "mcp")
"""Types of tools that have a process for each conversation."""


def with_growth(run: Run) -> Settings:
    """Return the settings of a run with a number of conversations that may grow from the default, if nothing is set and
    nothing speaks against it.

    More at the same time would be of no use beside an early end, which leaves part of the calls unmade. They would be a
    load on this machine if models run on it or near it, or if tools have processes for each conversation. A budget
    needs no rule here: it lets no more calls be in progress than it can pay.
    """
    settings, trials = run.settings, sum(case.repeat for case in run.own_cases)
    if trials <= settings.concurrency or not _may_grow(run):
        return settings
    return replace(settings, concurrency=min(trials, MOST), start_concurrency=settings.concurrency)


def _may_grow(run: Run) -> bool:
    settings, agent = run.settings, run.suite.agent
    if any(stage.GRADES_ELSEWHERE for stage in stages_of([run.suite], run.flags)):
        # Other processes have fixed shares of the limits.
        return False
    if settings.concurrency_given or settings.stop_when_certain:
        return False
    if not isinstance(run.target, ModelTarget) or settings.calls.mode == "replay":
        return False
    if any(tool.type in PROCESS_TOOLS for tool in agent.tools or ()) or agent.model.provider == "ollama":
        return False
    from holodeck_action.llm.providers import KeylessEnvironment, ModelConfigError, resolve_model

    try:
        return is_public_url(resolve_model(agent.model, KeylessEnvironment(run.environ)).account.base_url)
    except ModelConfigError:
        # The problem is reported when the model is opened.
        return False


def concurrency_phrase(settings: Settings) -> str:
    """Return a phrase for the plan about the conversations at the same time."""
    if settings.start_concurrency is None:
        return f"{settings.concurrency:,} at the same time"
    grown = "while nothing is refused and answers do not become slower"
    return f"{settings.start_concurrency:,} at the same time at first, and up to {settings.concurrency:,} {grown}"
