"""Builds the objects for a suite's model calls: budget, wire (transport), own agent, judges, and stored verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.run.run import Run
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.llm.cassette.recorded_calls import Recording
    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.wire import Wire
    from holodeck_action.run.conversations import Users
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.targets.own_model.case_files import CaseFiles
    from holodeck_action.targets.own_model.own_agent import OwnAgent


def make_budget(max_cost_usd: float | None, max_tokens: int | None, shard_count: int = 1) -> Budget | None:
    """Return an unspent budget with each limit divided by the number of shards; None if there is no limit."""
    if max_cost_usd is None and max_tokens is None:
        return None
    max_cost_usd = None if max_cost_usd is None else max_cost_usd / shard_count
    max_tokens = None if max_tokens is None else max_tokens // shard_count
    from holodeck_action.llm.limits.budget import Budget

    return Budget(max_cost_usd=max_cost_usd, max_tokens=max_tokens)


def make_wire(suite: Run, redactor: Redactor, budgets: Sequence[Budget]) -> Wire:
    """Return the wire that makes a suite's model calls."""
    from holodeck_action.llm.usage import list_price
    from holodeck_action.llm.wire import Wire, WireSettings

    calls = suite.settings.calls
    settings = WireSettings(
        calls.mode,
        calls.folder,
        calls.cache,
        calls.ttl_s,
        max_in_flight=suite.settings.concurrency,
        start_in_flight=suite.settings.start_concurrency,
        rate_limit_wait_s=suite.settings.rate_limit_wait_s,
        longest_outage_s=suite.settings.turn_timeout_s,
    )
    return Wire(settings, redactor=redactor, price=list_price, budgets=budgets)


def make_recording(suite: Run, redactor: Redactor) -> Recording | None:
    """Return the store of the answers of a suite's target; None if they are neither stored nor repeated."""
    calls = suite.settings.calls
    if calls.folder is None or not suite.records_answers:
        return None
    from holodeck_action.llm.cassette.documents import JsonLinesFile
    from holodeck_action.llm.cassette.recorded_calls import RecordedCalls, Recording

    documents = JsonLinesFile(calls.folder / "trials.jsonl", calls.folder / "trials")
    return Recording(RecordedCalls(documents, redactor.declared), redactor.declared, calls.mode == "replay")


def model_environment(suite: Run) -> Mapping[str, str]:
    """Return the variables that supply the keys and URLs that model references omit; a replay needs no keys."""
    from holodeck_action.targets.own_model.own_agent import model_environment

    return model_environment(suite.environ, replayed=suite.settings.calls.mode == "replay")


def judging_environment(suite: Run) -> Mapping[str, str]:
    """Return the variables that supply the keys and URLs that references to judges omit."""
    return model_environment(replace(suite, environ=suite.grading.environ))


def make_own_agent(
    suite: Run,
    redactor: Redactor,
    wire: Wire,
    case_files: CaseFiles | None,
    on_import: Callable[[Sequence[str]], None],
) -> OwnAgent:
    """Return the suite's own model as an agent.

    Raises:
        TargetError: the model cannot be called.
    """
    from holodeck_action.targets.own_model.own_agent import build_own_agent

    return build_own_agent(
        suite.suite,
        model_environment(suite),
        wire,
        redactor,
        turn_s=suite.settings.turn_timeout_s,
        max_bytes=suite.settings.max_response_bytes,
        code=suite.code,
        case_files=case_files,
        on_import=on_import,
        interpreter=suite.interpreter,
    )


def make_users(suite: Run, cases: Sequence[Case], wire: Wire) -> Users:
    """Return the simulated users of a suite's cases; a base has the same users as its head.

    Raises:
        TargetError: the budget is in US dollars, but the price of a model is not known.
    """
    found = registry.users()
    assert found is not None
    agent, seconds = suite.suite.name, suite.settings.turn_timeout_s
    users: Users = registry.resolve(found.open)(cases, judging_environment(suite), wire, agent, seconds)
    return users


def make_judges(suite: Run, wire: Wire) -> Judges:
    """Return the judges of a suite.

    Raises:
        TargetError: the budget is in US dollars, but the price of a judge is not known.
    """
    from holodeck_action.scoring.judges import Judges, plans_of
    from holodeck_action.targets.own_model.own_agent import check_price

    environ = judging_environment(suite)
    if wire.limits_cost:
        for config in judged_metrics(suite.own_cases).values():
            for plan in plans_of(suite.grading.suite, config, environ):
                check_price(plan)
    return Judges(suite.grading.suite, environ, wire)


def make_reuse(suite: Run, redactor: Redactor, wire: Wire) -> Reuse | None:
    """Return the store of judges' verdicts, in the folder of stored model calls; None if no calls are stored.

    A recording calls every judge and stores the verdicts, so that a replay needs no judging library.
    """
    calls = suite.settings.calls
    folder = calls.cache if calls.mode == "live" else calls.folder
    if folder is None:
        return None
    from holodeck_action.llm.cassette.documents import JsonFiles, JsonLinesFile
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.scoring.verdict_cache import VerdictCache

    files = folder / "verdicts"
    cache = VerdictCache(
        JsonFiles(files) if calls.mode == "live" else JsonLinesFile(folder / "verdicts.jsonl", files),
        redactor,
        calls.ttl_s if calls.mode == "live" else None,
        lambda: datetime.now(UTC),
        wire.entry_digest,
        reads=calls.mode != "record",
        writes=calls.mode != "replay",
        needs_calls=calls.mode == "replay",
    )
    return Reuse(suite.grading.suite, judging_environment(suite), cache, redactor)
