"""The head of the viewer's page: verdict, gates, metrics, changes, and the trend of earlier runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.consumption import KnownTotal
from holodeck_action.decide.exit_codes import OUTCOMES
from holodeck_action.decide.gates import gate_sentence
from holodeck_action.decide.trials import SuiteTrials
from holodeck_action.record.serialization import to_plain
from holodeck_action.reports.comparison import (
    base_name,
    changed_text,
    consumed_lines,
    outlook_text,
    rate_text,
    state_text,
    unpaired_lines,
)
from holodeck_action.reports.conclusion import Conclusion
from holodeck_action.reports.first_lines import first_sentences
from holodeck_action.reports.headline import PLAIN, headline
from holodeck_action.reports.history import CASES_SHOWN, flaky_text, history_remarks
from holodeck_action.reports.page.run_columns import RunColumn
from holodeck_action.reports.page.viewer_index import PageLinks
from holodeck_action.reports.phrases import (
    bounds_text,
    calls_text,
    card_text,
    contradiction_text,
    noise_text,
    panel_text,
    price_text,
    probe_text,
    suite_trials_text,
)
from holodeck_action.reports.preferences import preference_lines
from holodeck_action.reports.report_views import Report
from holodeck_action.reports.simulated_users import user_summary_text
from holodeck_action.reports.terms import terms_lines

_VERSION = 1


def metric_columns(suites: Sequence[Conclusion]) -> list[tuple[int, str]]:
    """Return (index of the suite, name) of each metric, in the order of the page."""
    return [(at, metric.name) for at, suite in enumerate(suites) for metric in suite.report.metrics]


def page_head(
    suites: Sequence[Conclusion], exit_code: int, links: PageLinks, runs: Sequence[RunColumn] = ()
) -> dict[str, Any]:
    """Return the head of a page, in the form of `Head` in `data.ts`; its fields `omitted` and `live` are None.

    Args:
        suites: the suites, at least one.
        exit_code: exit code of all suites together.
        links: URLs for links.
        runs: the runs of a page with several runs, the page's own run first; else empty.
    """
    reports = [suite.report for suite in suites]
    heads = [_suite_head(report) for report in reports]
    columns = metric_columns(suites)
    compared = [(report, report.comparison) for report in reports if report.comparison is not None]
    return {
        "version": _VERSION,
        "title": ", ".join(report.suite for report in reports),
        "outcome": OUTCOMES.get(exit_code, "incomplete"),
        "sentence": _verdict_sentence(heads),
        "exit_code": exit_code,
        "suites": heads,
        "metrics": [
            {"suite": at, **to_plain(metric)} for at, report in enumerate(reports) for metric in report.metrics
        ],
        "base": _base_head(compared) if compared else None,
        "history": [past for at, report in enumerate(reports) for past in _history_rows(at, report, columns)],
        "run": _run_head(reports, links),
        "runs": [_run_column(run) for run in runs],
        "omitted": None,
        "live": None,
    }


def _run_column(run: RunColumn) -> dict[str, Any]:
    report = run.concluded.report
    sentence = headline(report, PLAIN).text
    return {"name": run.name, "outcome": report.outcome, "sentence": sentence, "pass_rate": report.pass_rate}


def _verdict_sentence(suite_heads: Sequence[Mapping[str, Any]]) -> str:
    if len(suite_heads) == 1:
        return str(suite_heads[0]["sentence"])
    passed = sum(head["outcome"] == "passed" for head in suite_heads)
    return f"{passed} of {len(suite_heads)} suites passed"


def _suite_head(report: Report) -> dict[str, Any]:
    folder = report.provenance.folder or report.folder
    return {
        "name": report.suite,
        "folder": folder,
        "outcome": report.outcome,
        "sentence": headline(report, PLAIN).text,
        "target": report.target,
        "counts": to_plain(report.counts),
        "pass_rate": report.pass_rate,
        "gates": [{"name": gate.name, "state": gate.state, "sentence": gate_sentence(gate)} for gate in report.gates],
        "notices": [*first_sentences(report.comparison), *report.notices],
        "remarks": list(_remarks(report)),
        "file": f"{folder}/{report.file}" if folder else report.file,
    }


def _remarks(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the remarks on a suite, as groups of lines with a title."""
    found = report.comparison
    history = report.history
    told: dict[str, list[str]] = {
        "Not compared with a base": [report.base_missing] if found is None and report.base_missing else [],
        "Terms that differ from the base": terms_lines(found),
        "Comparison": [] if found is None else list(_comparison_lines(found)),
        "Close to the threshold": [
            f"{metric.name}: {noise_text(metric)}" for metric in report.metrics if metric.within_noise
        ],
        "Panels of judges": [f"{panel.metric}: {panel_text(panel)}" for panel in report.panels],
        "Judges that contradicted themselves": [
            f"{found.metric}: {contradiction_text(found)}" for found in report.contradictions
        ],
        "Judge cards": [f"{card.metric}: {card_text(card)}" for card in report.cards],
        "Probes of judges": [f"{probe.metric}: {probe_text(probe)}" for probe in report.probes],
        "Trials": [] if report.trial_rates is None else list(_trial_lines(report.trial_rates)),
        "Metrics that do not apply": [
            f"{skipped.metric}, {skipped.count} times: {skipped.reason}" for skipped in report.skipped_metrics
        ],
        "Simulated users": [user_summary_text(user) for user in report.users],
        "Model calls": (
            [calls_text(report.run.model_calls, report.spend)] if report.run and report.run.model_calls else []
        ),
        "History": [] if history is None else [
            *(f"{case.id}: {flaky_text(case)}" for case in history.flaky[:CASES_SHOWN]),
            *(f"{kind}: {sentence}" for kind, sentence in history_remarks(history)),
        ],
    }  # fmt: skip
    for title, lines in told.items():
        if lines:
            yield {"title": title, "lines": lines}


def _trial_lines(trials: SuiteTrials) -> Iterator[str]:
    yield suite_trials_text(trials)
    for rate in trials.rates:
        yield f"k = {rate.k}: pass@k {bounds_text(rate.pass_at_k)}, pass^k {bounds_text(rate.pass_hat_k)}"


def _comparison_lines(comparison: Comparison) -> Iterator[str]:
    yield from preference_lines(comparison)
    for what, before, now in consumed_lines(comparison.base_consumed, comparison.head_consumed):
        yield f"{what}: {before} → {now}"
    yield from unpaired_lines(comparison)
    yield from comparison.notices
    if seen := outlook_text(comparison):
        yield seen


def _base_head(compared: Sequence[tuple[Report, Comparison]]) -> dict[str, Any]:
    """Return the page's data about the bases of the suites; name and commit are from the first comparison."""
    first = compared[0][1].base
    several = len(compared) > 1
    return {
        "name": base_name(first),
        "sha": first.commit,
        "when": first.started_at or None,
        "sentence": "; ".join(
            f"{report.suite}: {_changed_text(found)}" if several else _changed_text(found) for report, found in compared
        ),
        "measures": [
            measure for report, found in compared for measure in _measure_rows(found, report.suite if several else "")
        ],
    }


def _changed_text(comparison: Comparison) -> str:
    rate = "" if comparison.pass_rate is None else f"; {rate_text(comparison)}"
    return f"{changed_text(comparison)}{rate}"


def _measure_rows(comparison: Comparison, suite: str) -> Iterator[dict[str, Any]]:
    for name, change in comparison.measures():
        yield {
            "name": f"{suite}: {name}" if suite else name,
            "base": change.base,
            "head": change.head,
            "low": change.low,
            "high": change.high,
            "change": state_text(change, comparison),
        }


def _history_rows(suite: int, report: Report, suite_metrics: Sequence[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    history = report.history
    if history is None:
        return
    trends = {trend.name: trend.values for trend in history.metrics}
    for at, run in enumerate(history.runs):
        yield {
            "suite": suite,
            "when": run.time,
            "sha": run.commit,
            "pass_rate": history.pass_rate.values[at],
            "cost_usd": run.cost_usd,
            "latency_ms": run.p95_latency_ms,
            "metrics": [
                trends[name][at] if metric_suite == suite and name in trends else None
                for metric_suite, name in suite_metrics
            ],
        }


def _run_head(reports: Sequence[Report], links: PageLinks) -> dict[str, Any]:
    runs = [report.run for report in reports if report.run is not None]
    calls = [run.model_calls.calls for run in runs if run.model_calls is not None]
    spends = [report.spend for report in reports]
    cost = _sum_known(spend.cost_usd for spend in spends)
    commit = next((report.provenance.commit for report in reports), None)
    known = links.repository is not None and commit is not None
    return {
        "started": min((run.started_at for run in runs), default=None),
        "duration_ms": _sum_known(run.duration_ms for run in runs),
        "model_calls": sum(calls) if calls else None,
        "cost": None if cost is None else price_text(KnownTotal(cost, sum(spend.unpriced for spend in spends))),
        "prompt_tokens": _count_known(spend.prompt_tokens for spend in spends),
        "completion_tokens": _count_known(spend.completion_tokens for spend in spends),
        "tool_version": reports[0].provenance.tool_version,
        "commit": commit,
        "commit_url": f"{links.repository}/commit/{commit}" if known else None,
        "run_url": links.run,
    }


def _sum_known(amounts: Iterable[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if known else None


def _count_known(amounts: Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
