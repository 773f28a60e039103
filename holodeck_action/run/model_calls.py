"""What the model calls of a suite go through: budget, wire, the suite's own agent, judges and their kept verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holodeck_action.run.identity import ImportedFiles
from holodeck_action.run.preflight import Prepared
from holodeck_action.suite.applicability import judged_metrics
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.llm.limits.budget import Budget
    from holodeck_action.llm.limits.leases import Leases
    from holodeck_action.llm.wire import Wire
    from holodeck_action.scoring.judges import Judges
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.targets.own_model.case_files import CaseFiles
    from holodeck_action.targets.own_model.own import OwnAgent


def budget_of(max_cost_usd: float | None, max_tokens: int | None, shards: int = 1) -> Budget | None:
    """Return a budget with nothing spent, the part of each of so many shards; None where there is no limit."""
    if max_cost_usd is None and max_tokens is None:
        return None
    max_cost_usd = None if max_cost_usd is None else max_cost_usd / shards
    max_tokens = None if max_tokens is None else max_tokens // shards
    from holodeck_action.llm.limits.budget import Budget

    return Budget(max_cost_usd=max_cost_usd, max_tokens=max_tokens)


def wire_of(item: Prepared, redactor: Redactor, budgets: Sequence[Budget], leases: Leases | None = None) -> Wire:
    """Return the wire of a suite; with leases its accounts have their limits across processes."""
    from holodeck_action.llm.usage import list_price
    from holodeck_action.llm.wire import Wire, WireSettings

    calls = item.settings.calls
    settings = WireSettings(
        calls.mode,
        calls.folder,
        calls.cache,
        calls.ttl_s,
        max_in_flight=item.settings.concurrency,
        rate_limit_wait_s=item.settings.rate_limit_wait_s,
    )
    return Wire(settings, redactor=redactor, price=list_price, budgets=budgets, leases=leases)


def model_environment(item: Prepared) -> Mapping[str, str]:
    """Return where keys and addresses are that model references leave out; what is only replayed needs no key."""
    from holodeck_action.targets.own_model.own import environment_of

    return environment_of(item.environ, replayed=item.settings.calls.mode == "replay")


def judging_environment(item: Prepared) -> Mapping[str, str]:
    """Return the same for judges."""
    return model_environment(replace(item, environ=item.grading.environ))


def own_agent_of(
    item: Prepared, redactor: Redactor, wire: Wire, files: CaseFiles | None, imported: ImportedFiles
) -> OwnAgent:
    """Return the suite's own model as an agent.

    Raises:
        TargetError: it cannot be asked.
    """
    from holodeck_action.targets.own_model.own import build_own

    return build_own(
        item.suite,
        model_environment(item),
        wire,
        redactor,
        turn_s=item.settings.turn_timeout_s,
        max_bytes=item.settings.max_response_bytes,
        code=item.code,
        files=files,
        imported=imported,
        interpreter=item.interpreter,
    )


def judges_of(item: Prepared, wire: Wire) -> Judges:
    """Find the judges.

    Raises:
        TargetError: a budget in US dollars is to hold for a judge whose price is not known.
    """
    # What `completed` needs, too: when a run is stopped, DeepEval's import may be under way, and would be waited for.
    import holodeck_action.scoring.configurations  # noqa: F401
    from holodeck_action.scoring.judges import Judges, plans_of
    from holodeck_action.targets.own_model.own import check_price

    environ = judging_environment(item)
    if wire.limits_cost:
        for config in judged_metrics(item.own_cases).values():
            for plan in plans_of(item.grading.suite, config, environ):
                check_price(plan)
    return Judges(item.grading.suite, environ, wire)


def reuse_of(item: Prepared, redactor: Redactor, judges: Judges, wire: Wire) -> Reuse | None:
    """Prepare what keeps verdicts, beside the calls that the wire keeps; None where it keeps none.

    A recording asks every judge, and keeps the verdicts for its replay, which then needs no library of judges.
    """
    calls = item.settings.calls
    folder = calls.cache if calls.mode == "live" else calls.folder
    if folder is None:
        return None
    from holodeck_action.llm.cassette.tapes import Files, Tape
    from holodeck_action.scoring.reuse import Reuse
    from holodeck_action.scoring.verdict_cache import VerdictCache

    files = folder / "verdicts"
    cache = VerdictCache(
        Files(files) if calls.mode == "live" else Tape(folder / "verdicts.jsonl", files),
        redactor,
        calls.ttl_s if calls.mode == "live" else None,
        lambda: datetime.now(UTC),
        wire.kept_digest,
        reads=calls.mode != "record",
        writes=calls.mode != "replay",
        needs_calls=calls.mode == "replay",
    )
    return Reuse(item.grading.suite, judging_environment(item), cache, redactor, judges.prepare)
