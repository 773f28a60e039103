"""The report on standard output: verdict, gates, metrics, and every case that needs attention with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from holodeck_action.reports.plain import one_line
from holodeck_action.results.record import ToolInvocation
from holodeck_action.results.report import CaseView, Report, TurnView
from holodeck_action.results.verdict import GateVerdict, MetricSummary
from holodeck_action.suite.marks import SourceMark

_GATE_SIGNS = {"passed": "✓", "failed": "✗", "undetermined": "?"}
_CASE_SIGNS = {"failed": "✗", "error": "!", "skipped": "-", "quarantined": "~"}
_VERDICTS = {"passed": "PASSED", "failed": "FAILED", "incomplete": "INCOMPLETE", "stopped": "STOPPED"}


def console_report(report: Report, folder: str = "") -> str:
    """Render a report as plain text.

    Args:
        report: what to show.
        folder: folder of the suite as the reader would type it, put before source positions; empty for none.
    """
    return "\n".join(_lines(report, folder)) + "\n"


def _lines(report: Report, folder: str) -> Iterator[str]:
    verdict = report.verdict
    yield f"Suite {one_line(report.suite)} ({_place(folder, report.file)}), target {one_line(report.target)}"
    for notice in report.notices:
        yield f"note: {one_line(notice, 500)}"
    for case in report.attention:
        yield ""
        yield from _case(case, folder)
    if report.informational:
        yield ""
        titles = ", ".join(one_line(title, 60) for title in report.informational[:20])
        yield f"informational (nothing asserts): {titles}{' …' if len(report.informational) > 20 else ''}"
    if verdict.metrics:
        yield ""
        yield from _metrics(verdict.metrics)
    yield ""
    for gate in verdict.gates:
        yield f"{_GATE_SIGNS[gate.state]} {_gate(gate)}"
    counts = verdict.counts
    parts = [f"{counts.passed} passed", f"{counts.failed} failed", f"{counts.error} in error"]
    for number, what in (
        (counts.skipped, "not run"),
        (counts.informational, "informational"),
        (counts.quarantined, "quarantined"),
    ):
        if number:
            parts.append(f"{number} {what}")
    yield ""
    yield f"{_VERDICTS[verdict.outcome]}: {', '.join(parts)}; {one_line(verdict.reason, 1000)}"


def _case(case: CaseView, folder: str) -> Iterator[str]:
    outcome = case.outcome if case.outcome != "quarantined" else f"quarantined ({case.judged})"
    yield f"{_CASE_SIGNS[case.outcome]} {one_line(case.title)}  [{outcome}]  {_mark(folder, case.source)}"
    if case.trials:
        yield f"    trials: {case.trials}"
    shown = [turn for turn in case.turns if turn.problems]
    if not shown:
        yield f"    {one_line(case.reason, 1000)}"
    for turn in shown:
        yield from _turn(turn, folder, numbered=len(case.turns) > 1)


def _turn(turn: TurnView, folder: str, *, numbered: bool) -> Iterator[str]:
    if numbered:
        yield f"    turn {turn.index}  {_mark(folder, turn.source)}"
    for problem in turn.problems:
        yield f"    {one_line(problem, 1000)}"
    yield f"      input:    {one_line(turn.input)}"
    if turn.response is not None:
        yield f"      answer:   {one_line(turn.response) or '(empty)'}"
    if turn.ground_truth is not None:
        yield f"      expected: {one_line(turn.ground_truth)}"
    if turn.tool_invocations:
        yield f"      tools:    {one_line('; '.join(_call(call) for call in turn.tool_invocations[:20]), 600)}"


def _call(call: ToolInvocation) -> str:
    args = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)[:80]}" for name, value in call.args.items())
    return f"{call.name}({args})"


def _metrics(metrics: Mapping[str, MetricSummary]) -> Iterator[str]:
    names = {name: one_line(name, 60) for name in metrics}
    width = max(len("metric"), *(len(name) for name in names.values()))
    yield f"{'metric':<{width}}    mean  threshold  passed  failed  error  skipped"
    for name, summary in metrics.items():
        mean = "–" if summary.mean is None else f"{summary.mean:.4f}"
        threshold = "–" if summary.threshold is None else f"{summary.threshold:g}"
        passed = "–" if summary.informational and not summary.passed + summary.failed else str(summary.passed)
        yield (
            f"{names[name]:<{width}}  {mean:>6}  {threshold:>9}  {passed:>6}  {summary.failed:>6}  "
            f"{summary.errors:>5}  {summary.skipped:>7}"
        )


def _gate(gate: GateVerdict) -> str:
    actual = "unknown" if gate.actual is None else f"{gate.actual:.4g}"
    state = "" if gate.state != "undetermined" else ": cannot be decided"
    return f"{one_line(gate.name)} {actual} (required {gate.required:.4g}): {one_line(gate.reason)}{state}"


def _mark(folder: str, mark: SourceMark) -> str:
    return f"{_place(folder, mark.file)}:{mark.line}:{mark.column}"


def _place(folder: str, file: str) -> str:
    return one_line(f"{folder}/{file}" if folder else file)
