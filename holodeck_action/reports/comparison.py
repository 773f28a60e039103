"""Describes a comparison with the base: phrases for all reports, and lines for the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from holodeck_action.decide.compare.comparison import (
    CaseChange,
    ComparedRun,
    Comparison,
    Consumed,
    Difference,
    MetricStep,
    TrialCounts,
    count_gating,
)
from holodeck_action.reports.phrases import bound_text, duration_text, percent_text, place, usd_text
from holodeck_action.reports.preferences import preference_lines
from holodeck_action.text.plain import one_line

CASES_SHOWN = 10
"""Maximum number of changed cases to list in the console."""
_SHORT_HASH = 7
_AGES = ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def changed_text(comparison: Comparison) -> str:
    """Return the number of compared cases that got worse and better, as a sentence."""
    worse, better = count_gating(comparison.regressed), count_gating(comparison.fixed)
    others = ((count_gating(comparison.flaky), "flaky"), (count_gating(comparison.undecided), "undecided"))
    flaky = "".join(f", {count} {what}" for count, what in others if count)
    if worse:
        return f"{cases_text(worse)} got worse" + (f", {better} better" if better else "") + flaky
    unseen = comparison.failing_unseen
    fails = f"{cases_text(unseen)} not compared {'fails' if unseen == 1 else 'fail'}" if unseen else ""
    if not comparison.paired:
        return f"Nothing can be compared{fails and f', and {fails}'}"
    whole = comparison.complete and not comparison.unpaired
    compared = "no case" if whole else "no compared case"
    quarantine = " outside quarantine" if comparison.regressed or comparison.fixed else ""
    if better:
        rest = f"{cases_text(better)} got better, {'none' if whole else compared} worse{flaky}"
    else:
        rest = f"{compared} got worse{flaky}" if flaky else f"{compared}{quarantine} changed"
    text = f"{fails}, {rest}" if fails else rest
    return text[:1].upper() + text[1:]


def answer_on_base(comparison: Comparison, case_id: str) -> str | None:
    """Return the base's answer in a regressed or flaky case; None for another case or if there was no answer."""
    flaky = next((case for case in comparison.flaky if case.id == case_id), None)
    if flaky is not None:
        return flaky.before
    changed = comparison.regressed
    return next((case.before for case in changed if case.id == case_id), None)


_NOT_RANDOM = "These are chosen cases, not a random sample of what users ask."


def cases_text(count: int) -> str:
    """Return a number of cases with its noun, such as `1 case`."""
    return f"{count:,} {'case' if count == 1 else 'cases'}"


def base_name(run: ComparedRun) -> str:
    """Return the name of the base: its branch, else its source."""
    return run.name or run.source.removeprefix("file:") or "the base"


def age_text(comparison: Comparison) -> str:
    """Return how much earlier the base's run was, such as `3 hours earlier`; an empty string if unknown or less than a
    minute."""
    try:
        base, head = (datetime.fromisoformat(run.started_at) for run in (comparison.base, comparison.head))
        seconds = (head - base).total_seconds()
    except (ValueError, TypeError):
        return ""
    for length, unit in _AGES:
        count = int(seconds // length)
        if count:
            return f"{count:,} {unit}{'' if count == 1 else 's'} earlier" if seconds > 0 else ""
    return ""


def rate_text(comparison: Comparison) -> str:
    """Return the change of the pass rate in percentage points and whether it is beyond chance; empty if not compared.

    The interval is for the pass rate alone; the test for chance is adjusted for all compared measures.
    """
    change = comparison.pass_rate
    if change is None:
        return ""
    points = 100 * change.difference
    moved = "unchanged" if round(points, 1) == 0 else f"{_points_text(points)} points"
    if change.low is None or change.high is None:
        few = f"{cases_text(change.pairs)} {'is' if change.pairs == 1 else 'are'} too few"
        return f"pass rate {moved}; {few} to rule out chance"
    ends = f"{_points_text(100 * change.low)} to {_points_text(100 * change.high)}"
    if change.significant:
        return f"{significant_rate_text(change)} ({moved}; {ends})"
    if change.significant_alone:
        return f"pass rate {_single_metric_text(change, comparison, f' ({ends} points)')}"
    if round(points, 1) == 0:
        return f"pass rate unchanged at {cases_text(change.pairs)} ({ends} points)"
    return f"pass rate {moved}, within noise at {cases_text(change.pairs)} ({ends})"


def significant_rate_text(change: Difference) -> str:
    """Return both pass rates of a change beyond chance, such as `pass rate 99 → 80 %, beyond chance`."""
    return f"pass rate {values_text(change, is_rate=True)}, beyond chance"


def values_text(change: Difference, *, is_rate: bool) -> str:
    """Return the values of both runs, such as `99 → 80 %` or `0.98 → 0.82`."""
    if is_rate:
        return f"{percent_text(change.base).removesuffix(' %')} → {percent_text(change.head)}"
    return f"{change.base:.2f} → {change.head:.2f}"


def _points_text(value: float) -> str:
    return _signed_text(value, 1).removesuffix(".0")


def rate_change_text(change: Difference) -> str:
    """Return a difference of pass rates in percentage points with its 95 % interval, such as `−2 points (−5 to +1)`."""
    return _interval_text(change, lambda value: _points_text(100 * value), " points")


def change_text(change: Difference) -> str:
    """Return a difference of means with its 95 % interval, such as `−0.17 (−0.23 to −0.10)`."""
    return _interval_text(change, _signed_text, "")


def _interval_text(change: Difference, text: Callable[[float], str], unit: str) -> str:
    shown = f"{text(change.difference)}{unit}"
    if change.low is None or change.high is None:
        return f"{shown}, too few cases"
    return f"{shown} ({text(change.low)} to {text(change.high)})"


def _signed_text(value: float, decimals: int = 2) -> str:
    shown = f"{value:+.{decimals}f}".replace("-", "−")
    return shown if float(shown[1:]) else shown[1:]


def state_text(change: Difference, comparison: Comparison) -> str:
    """Return whether a difference is beyond chance, in words."""
    if change.state == "regressed":
        return "worse beyond chance"
    if change.significant and change.difference > 0:
        return "better beyond chance"
    if change.significant_alone:
        return _single_metric_text(change, comparison)
    return "no worse" if change.state == "non_inferior" else "inconclusive"


def _single_metric_text(change: Difference, comparison: Comparison, interval: str = "") -> str:
    which, among = "worse" if change.difference < 0 else "better", len(list(comparison.measures()))
    return f"{which} if this metric is considered alone{interval}, but not beyond chance among the {among} compared"


def step_text(step: MetricStep, turn_count: int, trial: int | None) -> str:
    """Return the change of a metric in a case, such as `trial 1, turn 3: rouge 0.98 → 0.31, needs 0.50`.

    Args:
        step: the change.
        turn_count: number of turns of the case.
        trial: index of the failing trial; None if the case has one trial.
    """
    places = [] if trial is None else [f"trial {trial}"]
    if step.conversation:
        places += ["conversation", *([] if step.named_turn is None else [f"turn {step.named_turn}"])]
    elif turn_count > 1:
        places.append(f"turn {step.turn}")
    where = f"{', '.join(places)}: " if places else ""
    if step.base is None or step.head is None:
        return f"{where}{one_line(step.reason, 200)}"
    needs = "" if step.threshold is None else f", needs {bound_text(step.threshold)}"
    return f"{where}{one_line(step.name, 60)} {step.base:.2f} → {step.head:.2f}{needs}"


_MIN_NOTABLE = 0.1
"""Smallest relative change of a quantity that the comment mentions."""
_MIN_NOTABLE_MS = 10.0
"""Smallest change of a latency, in milliseconds, that the comment mentions."""


def notable_usage(base: Consumed, head: Consumed) -> Iterator[str]:
    """Yield a phrase for each of cost, latency and tool calls that changed by at least a tenth. A latency must also
    have changed by at least 10 ms."""
    for name, before, now, least, text in (
        ("cost", base.cost_usd, head.cost_usd, 0.0, usd_text),
        ("median latency", base.p50_latency_ms, head.p50_latency_ms, _MIN_NOTABLE_MS, duration_text),
        ("tool calls", base.tool_calls, head.tool_calls, 0.0, "{:,}".format),
    ):
        if before is None or now is None or now == before:
            continue
        if abs(now - before) >= max(least, _MIN_NOTABLE * before):
            yield f"{name} {text(before)} → {text(now)}"


def consumed_lines(base: Consumed, head: Consumed) -> Iterator[tuple[str, str, str]]:
    """Yield (quantity, base value, new value) for each kind of usage that is known for at least one run."""

    for name, before, now, text in (
        ("cost", base.cost_usd, head.cost_usd, usd_text),
        ("tokens", base.tokens, head.tokens, "{:,}".format),
        ("tool calls", base.tool_calls, head.tool_calls, "{:,}".format),
        ("median latency", base.p50_latency_ms, head.p50_latency_ms, duration_text),
        ("95 % latency", base.p95_latency_ms, head.p95_latency_ms, duration_text),
        ("95 % first token", base.p95_first_token_ms, head.p95_first_token_ms, duration_text),
    ):
        if before is not None or now is not None:
            yield name, "–" if before is None else text(before), "–" if now is None else text(now)


def base_text(comparison: Comparison) -> str:
    """Return the base's name, commit and age on one line."""
    run = comparison.base
    details = [part for part in ((run.commit or "")[:_SHORT_HASH], age_text(comparison)) if part]
    return one_line(base_name(run), 80) + (f" ({', '.join(details)})" if details else "")


def comparison_lines(comparison: Comparison, folder: str, *, regressed: bool = True) -> Iterator[str]:
    """Yield the lines for the console: summary, changed cases, measures, and the cases and metrics that are not
    compared. If `regressed` is false, cases that got worse are omitted."""
    rate = "" if comparison.pass_rate is None else f"; {rate_text(comparison)}"
    yield f"Compared with {base_text(comparison)}: {changed_text(comparison)}{rate}"
    for kind, cases in (("✗", comparison.regressed if regressed else ()), ("✓", comparison.fixed)):
        for case in cases[:CASES_SHOWN]:
            yield from _case_lines(kind, case, folder)
        if len(cases) > CASES_SHOWN:
            yield f"  … and {len(cases) - CASES_SHOWN} more"
    for line in flaky_lines(comparison):
        yield f"  {line}"
    yield from _measure_lines(comparison)
    for line in preference_lines(comparison):
        yield f"  {line}"
    for what, before, now in consumed_lines(comparison.base_consumed, comparison.head_consumed):
        yield f"  {what}: {before} → {now}"
    for line in unpaired_lines(comparison):
        yield f"  {line}"
    for notice in comparison.notices:
        yield f"  note: {one_line(notice, 500)}"


def flaky_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each flaky case, with its trials on both sides, and one with the remedy."""
    for case in comparison.flaky[:CASES_SHOWN]:
        counts = case.counts
        assert counts is not None
        yield (
            f"flaky: {one_line(case.title, 150)} failed in {counts.failed} of {counts.trials} trials now, and passed "
            f"in {counts.base_passed} of {counts.base_trials} on the base"
        )
    if len(comparison.flaky) > CASES_SHOWN:
        yield f"… and {len(comparison.flaky) - CASES_SHOWN} more flaky cases"
    if comparison.flaky:
        yield "A flaky case does not count as a regression; repair it, or list it under quarantine in the policy file."


def confirmed_text(comparison: Comparison, case_id: str) -> str:
    """Return the end of a sentence, such as `, failed in 3 of 5 trials`, for a regressed case; an empty string if the
    case was not run again."""
    counts = next((case.counts for case in comparison.regressed if case.id == case_id), None)
    return f", {trials_text(counts)}" if counts is not None else ""


def trials_text(counts: TrialCounts | None) -> str:
    """Return the failed trials of a case, such as `failed in 3 of 5 trials`; empty if the case was not run again."""
    return "" if counts is None else f"failed in {counts.failed} of {counts.trials} trials"


def _case_lines(marker: str, case: CaseChange, folder: str) -> Iterator[str]:
    was = "failed on the base, passes now"
    if case.kind == "regressed":
        was = "passed on the base, " + (trials_text(case.counts) or "fails now")
    aside = ", quarantined" if case.quarantined else ""
    yield f"  {marker} {one_line(case.title)}  {one_line(place(case.source, folder))}  {was}{aside}"
    for step in case.steps[:3]:
        yield f"      {step_text(step, case.turns, case.trial)}"
    if case.kind == "regressed":
        yield f"      asked:  {one_line(case.question)}"
        yield f"      before: {_answer_text(case.before)}"
        yield f"      now:    {_answer_text(case.after)}"


def _answer_text(text: str | None) -> str:
    return "–" if text is None else one_line(text) or "(empty)"


def _measure_lines(comparison: Comparison) -> Iterator[str]:
    rows = list(comparison.measures())
    if not rows:
        return
    width = max(len("measure"), *(len(one_line(name, 60)) for name, _ in rows))
    yield f"  {'measure':<{width}}     base      now  difference"
    for name, change in rows:
        if change is comparison.pass_rate:
            values, difference = (percent_text(change.base), percent_text(change.head)), rate_change_text(change)
        else:
            values, difference = (f"{change.base:.2f}", f"{change.head:.2f}"), change_text(change)
        shown = "  ".join([f"{one_line(name, 60):<{width}}", *(f"{value:>7}" for value in values)])
        yield f"  {shown}  {difference}  {state_text(change, comparison)}"
    yield from (f"  {text}" for text in filter(None, [outlook_text(comparison)]))


def outlook_text(comparison: Comparison) -> str:
    """Return the limits of the comparison: the smallest detectable change, and the cases needed for a decision.

    An empty string if no decision rests on them, since every measure is equal or certainly no worse.
    """
    changes = [change for _, change in comparison.measures() if change.difference and change.state != "non_inferior"]
    rate = comparison.pass_rate
    parts = []
    if rate is not None and rate.detectable is not None:
        parts.append(
            f"A change of the pass rate by {100 * rate.detectable:.2g} points would be detected in 4 of 5 runs."
        )
    parts += [f"{change.settles}." for change in changes if change.settles][:1]
    return " ".join([*parts, _NOT_RANDOM]) if changes else ""


def unpaired_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line for each metric that cannot be compared, with the reason, and for each kind of case that is not
    compared."""
    for metric in comparison.metrics:
        if metric.incomparable:
            yield f"{one_line(metric.name, 60)} is not compared: {one_line(metric.incomparable, 300)}"
    for why in ("added", "removed", "changed", "not evaluated"):
        cases = [case for case in comparison.unpaired if case.why == why]
        if cases:
            titles = ", ".join(one_line(case.title, 60) for case in cases[:5])
            more = f" and {len(cases) - 5} more" if len(cases) > 5 else ""
            yield f"{cases_text(len(cases))} {why}: {titles}{more}"
