"""Words, signs, positions and short phrases for all reports."""

from __future__ import annotations

import posixpath
import shlex
from functools import lru_cache

from holodeck_action.decide.consumption import KnownTotal, Spend
from holodeck_action.decide.gates import MIN_PASS_RATE, gate_sentence
from holodeck_action.decide.number_texts import count_phrase, decisive_numbers
from holodeck_action.decide.survey import stop_text
from holodeck_action.decide.trials import Bounds, CaseTrials, PassRates, SuiteTrials
from holodeck_action.decide.verdict import ContradictionSummary, Counts, GateVerdict, PanelSummary, Verdict
from holodeck_action.record.judge_card import CardSummary, Estimate
from holodeck_action.record.judge_probe import JudgeProbe
from holodeck_action.record.record import CertainEnd, ModelCalls
from holodeck_action.reports.report_views import CaseView, MetricView, Report, ToolCallView
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.plain import one_line

VERDICTS = {"passed": "PASSED", "failed": "FAILED", "incomplete": "INCOMPLETE", "stopped": "STOPPED"}

WORDS = {
    "passed": "passed",
    "failed": "failed",
    "error": "in error",
    "skipped": "not run",
    "informational": "informational",
    "quarantined": "quarantined",
    "incomplete": "incomplete",
    "stopped": "stopped",
    "undetermined": "cannot be decided",
}
"""The word for each outcome and gate state."""

SIGNS = {
    "passed": "✅",
    "failed": "❌",
    "error": "⚠️",
    "skipped": "⏭️",
    "informational": "ℹ️",
    "quarantined": "🚧",
    "incomplete": "⚠️",
    "stopped": "⏹️",
    "undetermined": "❔",
}
"""The emoji for each outcome and gate state."""


def gate_line(gate: GateVerdict) -> str:
    """Return a gate on one line: a mark for its state, its sentence with both values, and its name in brackets."""
    return f"{_MARKS[gate.state]} {one_line(gate_sentence(gate), 500)} ({one_line(gate.name, 100)})"


_MARKS = {"passed": "✓", "failed": "✗", "undetermined": "?", "skipped": "-"}


_LEAST_USD = 0.0001
"""The smallest price that is shown as a number."""
_MAX_POSITION = 2**31 - 1
"""Largest line or column number in GitHub's API, which uses 32-bit integers."""
_MAX_PATH = 4096
"""Maximum bytes of a path (`PATH_MAX` of Linux)."""


def counts_text(counts: Counts) -> str:
    """Return the number of cases by outcome as text; rare outcomes are only included if they occur."""
    parts = [f"{counts.passed} passed", f"{counts.failed} failed", f"{counts.error} in error"]
    for number, what in (
        (counts.skipped, "not run"),
        (counts.informational, "informational"),
        (counts.quarantined, "quarantined"),
    ):
        if number:
            parts.append(f"{number} {what}")
    return ", ".join(parts)


def calls_text(calls: ModelCalls, spend: Spend) -> str:
    """Describe a run's model calls: number, number of stored answers, tokens and price.

    The first price is the price for gates: a replayed or cached answer counts with the price of its original call. If
    this run paid a different amount because of such answers, that amount follows.
    """
    parts = [f"{calls.calls:,} model {'call' if calls.calls == 1 else 'calls'}"]
    if calls.cached:
        parts.append(f"{'all' if calls.cached == calls.calls > 1 else f'{calls.cached:,}'} replayed")
    if calls.failed:
        parts.append(f"{calls.failed:,} failed")
    if calls.reused:
        parts.append(f"{calls.reused:,} {'verdict' if calls.reused == 1 else 'verdicts'} of an earlier run")
    tokens = "tokens unknown" if calls.tokens is None else f"{calls.tokens:,} tokens"
    price = "price unknown" if spend.cost_usd is None else price_text(KnownTotal(spend.cost_usd, spend.unpriced))
    paid = "price unknown" if calls.cost_usd is None else usd_text(calls.cost_usd)
    if calls.calls and calls.cached == calls.calls:
        parts.append(price if spend.cost_usd is None else f"list price {price}")
    elif paid == price or (calls.cost_usd is None and spend.unpriced):
        parts += (tokens, price)
    else:
        parts.append(f"{price}; this run paid {paid} for {tokens}")
    return ", ".join(parts)


def price_text(price: KnownTotal) -> str:
    """Return a price, such as `$0.0044`, marked as a lower bound if the cost of some answers is unknown."""
    if not price.unknown:
        return usd_text(price.known)
    return f"at least {usd_text(price.known)} ({count_phrase(price.unknown, 'answer')} without a cost)"


def contradiction_text(found: ContradictionSummary) -> str:
    """Describe how often a metric's judge contradicted itself, without the metric's name."""
    prompts = "prompt" if found.repeated == 1 else "prompts"
    return f"the judge contradicted itself on {found.contradicted:,} of {found.repeated:,} repeated {prompts}"


def panel_text(panel: PanelSummary) -> str:
    """Describe the agreement of a metric's judges, without the metric's name."""
    judges = "a panel" if panel.judges is None else f"{panel.judges} {'judge' if panel.judges == 1 else 'judges'}"
    parts = [f"{judges}, {panel.verdicts:,} {'verdict' if panel.verdicts == 1 else 'verdicts'}"]
    if panel.judges != 1:
        parts.append("α not defined" if panel.alpha is None else f"α {panel.alpha:.2f}")
    if panel.agreement is not None and panel.judges != 1:
        parts.append(f"agreement {panel.agreement:.0%}")
    if panel.mean_spread is not None:
        parts.append(f"mean spread {panel.mean_spread:.2f}")
    if panel.fallbacks:
        parts.append(f"{panel.fallbacks:,} by fallback models")
    if panel.missing:
        parts.append(f"{panel.missing:,} missing")
    return ", ".join(parts)


def estimate_text(estimate: Estimate, digits: int = 3) -> str:
    """Return a number with its interval; a dash if the number is unknown."""
    if estimate.value is None:
        return "–"
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f" [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
    return f"{estimate.value:.{digits}f}{interval}"


def probe_text(probe: JudgeProbe) -> str:
    """Describe the probe of a judge, without the metric's name. The text is untrusted."""
    if not probe.passed:
        return f"probe: {probe.problem}"
    scores = f"{probe.right:g} for the right and {probe.absurd:g} for the absurd answer"
    return f"probe: {probe.judge} gave {scores}{', in an earlier run' if probe.kept else ''}"


def card_text(card: CardSummary) -> str:
    """Describe the agreement on a judge card, without the metric's name. The text about a stale card is untrusted."""
    head = f"judge card of {card.made_on}"
    if card.stale:
        return f"{head} is stale and is not used for corrections. Changed since it was made: {'; '.join(card.stale)}"
    missing = f" ({card.missing:,} more not judged)" if card.missing else ""
    parts = [
        f"{card.labels:,} {'label' if card.labels == 1 else 'labels'}{missing}",
        f"agreement {estimate_text(card.agreement)}",
        f"κ {estimate_text(card.kappa)}",
        f"α {estimate_text(card.alpha)}",
    ]
    if card.of_pairs:
        return f"{head}: {', '.join(parts)}"
    parts += [
        f"sensitivity {estimate_text(card.sensitivity)}",
        f"specificity {estimate_text(card.specificity)}",
        f"passes {estimate_text(card.pass_rate)} of {card.judged:,} answers",
        f"corrected {estimate_text(card.corrected)}",
    ]
    return f"{head}: {', '.join(parts)}"


def case_trials_text(case: CaseView) -> str:
    """Describe the trials of a repeated case: passes, pass@k and pass^k, and the scores that differ between trials."""
    parts = [case.repeats or ""]
    if case.trial_rates is not None:
        parts.append(rates_text(case.trial_rates))
    if case.flaky:
        parts.append("flaky")
    differing = [score for score in case.scores if score.lowest != score.highest]
    parts += (f"{score.metric} {score.lowest:.2f} to {score.highest:.2f}" for score in differing)
    return "; ".join(parts)


RUN_ALL = "trials.stop_when_decided: false"
"""The setting that runs all trials."""


def suite_trials_text(trials: SuiteTrials) -> str:
    """Describe the trials of all repeated cases together."""
    cases = "1 case" if trials.cases == 1 else f"{trials.cases:,} cases"
    parts = [f"{cases} with several trials, {trials.trials:,} trials: {rates_text(trials)}"]
    if trials.flaky:
        parts.append(f"{trials.flaky:,} flaky")
    if trials.truncated:
        parts.append(f"{trials.truncated:,} decided before all of their trials had run ({RUN_ALL} runs them all)")
    return "; ".join(parts)


def rates_text(trials: CaseTrials | SuiteTrials) -> str:
    """Return pass@1, and pass@k and pass^k for the largest k. If trials are missing, the pass rate of the others
    replaces pass@1."""
    return pass_rates_text(
        trials.rate, trials.rates[-1], missing_count=trials.missing, truncated_count=trials.truncated
    )


def pass_rates_text(rate: float, last_rates: PassRates, *, missing_count: int, truncated_count: int) -> str:
    """Return the text of `rates_text` for given rates.

    Args:
        rate: proportion of passing trials.
        last_rates: pass@k and pass^k for the largest k.
        missing_count: number of trials that neither passed nor failed; `rate` is pass@1 only if it is 0.
        truncated_count: above 0 if trials were not run because their case was already decided.
    """
    first = (
        f"pass@1 {rate:.3f}"
        if not missing_count
        else f"{rate:.3f} of the trials pass{' (truncated)' if truncated_count else ''}"
    )
    k, at_k, hat_k = last_rates.k, last_rates.pass_at_k, last_rates.pass_hat_k
    return f"{first}, pass@{k} {bounds_text(at_k)}, pass^{k} {bounds_text(hat_k)}"


def bounds_text(bounds: Bounds) -> str:
    """Return a number with three decimals, or a range such as `0.800 to 1.000` if `low` and `high` differ."""
    low, high = f"{bounds.low:.3f}", f"{bounds.high:.3f}"
    return low if low == high else f"{low} to {high}"


def percent_text(share: float) -> str:
    """Return a proportion (0 to 1) in percent, such as `75 %` or `77.8 %`; never rounded to 0 or 100."""
    near = share if share in (0.0, 1.0) else min(max(share, 0.001), 0.999)
    return f"{100 * near:.1f}".removesuffix(".0") + " %"


def threshold_text(metric: MetricView) -> str:
    """Return a metric's threshold, such as `0.50`, `0.125` or `≤ 0.50`; a dash if it has no threshold."""
    if metric.threshold is None:
        return "–"
    return f"{'≤ ' * (metric.polarity == 'minimize')}{bound_text(metric.threshold)}"


def bound_text(bound: float) -> str:
    """Return a bound with all of its decimals, at least two; whole numbers have no decimals."""
    return decisive_numbers(bound, bound, minimize=False, is_met=True)[1]


def noise_text(metric: MetricView) -> str:
    """Return a clause, without the metric's name, that the mean is within noise of the threshold."""
    return (
        f"the mean {metric.mean:.2f} is within noise of the threshold {threshold_text(metric)} (95 % interval "
        f"{metric.low:.2f} to {metric.high:.2f})"
    )


def duration_text(milliseconds: float) -> str:
    """Return a duration in milliseconds below a second, such as `27 ms`, else in seconds, such as `1.7 s`."""
    if milliseconds < 1:
        return f"{milliseconds:.2g} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else f"{milliseconds / 1000:.1f} s"


def usd_text(value: float) -> str:
    """Return US dollars with four decimals; `<$0.0001` for a smaller price above zero."""
    return "<$0.0001" if 0 < value < _LEAST_USD else f"${value:.4f}"


def call_text(call: ToolCallView, limit: int = 300) -> str:
    """Return a tool call as `name(arguments)`, with the arguments cut to `limit` characters."""
    arguments = call.arguments if len(call.arguments) <= limit else f"{call.arguments[:limit]}…"
    return f"{call.name}({arguments})"


def run_command(report: Report, case: str) -> str | None:
    """Return the command that runs only one case of a report; None if its path or id does not fit into a command."""
    command = _suite_command(report.provenance.folder or report.folder, report.file)
    return None if command is None or one_line(case, 200) != case else f"{command} --case={shlex.quote(case)}"


@lru_cache(8)
def _suite_command(folder: str, file: str) -> str | None:
    """Return the command that runs a suite; None if the path is too long, has hidden characters or begins with `-`."""
    path = posixpath.join(folder, file)
    return None if one_line(path, 200) != path or path.startswith("-") else f"holodeck-action run {shlex.quote(path)}"


def place(source: SourceMark, folder: str) -> str:
    """Return a source position as `folder/file:line:column`; with the row number if it is in a table."""
    return f"{folder}/{source}" if folder else str(source)


def is_valid_position(number: int) -> bool:
    """Return whether a number can be a line or column in GitHub's API."""
    return 1 <= number <= _MAX_POSITION


def repository_path(folder: str | None, source: SourceMark) -> str | None:
    """Return the path of a position's file in the suite's repository; None if it is outside or the position is invalid.

    Args:
        folder: folder of the suite in its repository, from the record; untrusted, since a fork writes the record.
        source: the position; its file may be outside the suite's folder, but not outside the repository.
    """
    file = source.file
    if folder is None or not file or not is_valid_position(source.line) or not (source.column or source.sheet):
        return None
    written = f"{folder}/{file}"
    if file.startswith("/") or folder.startswith("/") or "\\" in written or not written.isprintable():
        return None
    path = posixpath.normpath(posixpath.join(folder, file))
    if path in (".", "..") or path.startswith("../") or len(path.encode()) > _MAX_PATH:
        return None
    return path


def certain_end_text(verdict: Verdict, end: CertainEnd, case_count: int) -> str:
    """Describe the end of a run that stopped once its exit code was certain, such as `stopped after 12 of 200 cases: 1
    failure decides`, and name the setting that runs all cases."""
    why = "the other cases cannot change the verdict"
    failed = [gate.name for gate in verdict.gates if gate.state == "failed"]
    if failed:
        counts = {MIN_PASS_RATE: (verdict.counts.failed, "failure"), "max_errors": (verdict.counts.error, "error")}
        number, noun = counts.get(failed[0], (1, failed[0]))
        why = f"{count_phrase(number, noun) if failed[0] in counts else noun} decide{'s' * (number == 1)}"
    elif verdict.outcome != "passed":
        why = "these gates need more cases"
    return f"{stop_text(end, case_count)}: {why} (stop: never runs all)"
