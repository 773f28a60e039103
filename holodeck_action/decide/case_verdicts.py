"""Verdicts of metrics, turns, trials and cases, as pure functions of the record.

Failures take precedence over missing evaluations: a case with a failing metric has failed even if another metric could
not be evaluated.
"""

from __future__ import annotations

from holodeck_action.decide.number_texts import decisive_numbers, format_number
from holodeck_action.decide.verdict import CaseVerdict, MetricVerdict, Outcome, TrialVerdict, TurnVerdict
from holodeck_action.record.evaluation import Criteria, ErrorInfo, Evaluation
from holodeck_action.record.record import CaseRecord, TrialRecord, TurnRecord


def judge_evaluation(evaluation: Evaluation) -> MetricVerdict:
    """Judge one evaluation by its criteria.

    The evaluator's own verdict (`metadata["passed"]`) decides, if there is one. Otherwise `true` passes, a category in
    `pass_values` passes, and a number that meets the threshold passes; without a threshold, any number except 0 passes.
    The verdict is informational if the metric does not assert, has no score, or has a category but no `pass_values`.
    """
    outcome, reason = _outcome_of(evaluation)
    criteria, score = evaluation.criteria, evaluation.score
    category = score if isinstance(score, str) else None
    # Positional arguments: keywords would double the time of this hot call.
    return MetricVerdict(
        evaluation.evaluator_name,
        outcome,
        reason,
        None if score is None or category is not None else float(score),
        criteria.threshold,
        criteria.source,
        criteria.polarity,
        category,
        criteria.title,
    )


def _outcome_of(evaluation: Evaluation) -> tuple[Outcome, str]:
    """Return the outcome and its reason: a complete message for failures and errors, else the metric's explanation."""
    explanation = evaluation.explanation or ""
    criteria, score = evaluation.criteria, evaluation.score
    if evaluation.status == "skipped":
        return "skipped", explanation
    name = evaluation.evaluator_name
    if evaluation.status != "completed":
        why = evaluation.error.message if evaluation.error else explanation
        return "error", f"{name} not evaluated{f': {why}' if why not in ('', 'not evaluated') else ''}"
    if not criteria.asserts or score is None:
        return "informational", explanation
    own = evaluation.metadata.get("passed")
    number = None if isinstance(score, bool | str) else float(score)
    if isinstance(own, bool):
        passed = own
    elif isinstance(score, str):
        if criteria.pass_values is None:
            return "informational", explanation
        passed = score in criteria.pass_values
        name = f'{name} "{score}", needs {" or ".join(criteria.pass_values)}'
    elif number is None or criteria.threshold is None:
        passed = bool(score)
    else:
        passed = _meets_threshold(number, criteria.threshold, minimize=criteria.polarity == "minimize")
    if passed:
        return "passed", explanation
    # For a metric's own verdict, such as on a length, the explanation says more than a score of 1.
    numbers = "" if number is None or (own is False and criteria.threshold == 1.0) else _score_clause(number, criteria)
    # With several expected answers, the explanation names the one that counts.
    if numbers and criteria.title is not None and "reference" not in evaluation.metadata:
        return "failed", f"{name}{numbers}"
    return "failed", f"{name}{numbers}: {explanation}" if explanation else f"{name}{numbers}"


def _score_clause(score: float, criteria: Criteria) -> str:
    """Return a failed metric's score and its threshold as a clause; an empty string for a yes-or-no metric."""
    minimize = criteria.polarity == "minimize"
    if criteria.threshold is None or _meets_threshold(score, criteria.threshold, minimize=minimize):
        # The metric gave its own verdict.
        return "" if score in (0.0, 1.0) else f" {format_number(score)}"
    if score == 0.0 and criteria.threshold == 1.0:
        return ""
    shown, needed = decisive_numbers(score, criteria.threshold, minimize=minimize, is_met=False)
    return f" {shown}, {'at most' if minimize else 'needs'} {needed}"


def _meets_threshold(score: float, threshold: float, *, minimize: bool) -> bool:
    return score <= threshold if minimize else score >= threshold


def judge_turn(turn: TurnRecord) -> TurnVerdict:
    """Judge one turn: it passes if at least one metric or tool assertion passes and none fails.

    An error of the agent or an unknown input prevents a pass. With `fail_on_error`, an error of a metric is a failure.
    """
    metrics = tuple(map(judge_evaluation, turn.evaluations))
    broken = [assertion for assertion in turn.tool_assertions if assertion.matched is False]
    unknown = [assertion.problem for assertion in turn.tool_assertions if assertion.matched is None]
    tools: Outcome | None = None
    if turn.tool_assertions:
        tools = "failed" if broken else "error" if unknown else "passed"
    outcomes = {verdict.outcome for verdict in metrics}
    hard_errors: list[str] = []
    if "error" in outcomes:
        hard_errors = [
            verdict.reason
            for evaluation, verdict in zip(turn.evaluations, metrics, strict=True)
            if verdict.outcome == "error" and evaluation.criteria.fail_on_error
        ]
    # A passing metric does not make up for an unreported input.
    unknown += [
        verdict.reason
        for evaluation, verdict in zip(turn.evaluations, metrics, strict=True)
        if evaluation.lacks_fact and not evaluation.criteria.fail_on_error
    ]
    failures = [assertion.problem for assertion in broken]
    if "failed" in outcomes:
        failures += [verdict.reason for verdict in metrics if verdict.outcome == "failed"]
    outcome: Outcome
    if turn.skipped is not None:
        outcome, reason = "skipped", turn.skipped
    elif failures:
        outcome, reason = "failed", "; ".join(failures + hard_errors)
    elif turn.error is not None:
        outcome, reason = "error", turn.error.message
    elif hard_errors:
        outcome, reason = "failed", "; ".join(hard_errors)
    elif unknown:
        outcome, reason = "error", "; ".join(unknown)
    elif tools == "passed" or "passed" in outcomes:
        outcome, reason = "passed", "every assertion holds"
    else:
        errors = [verdict.reason for verdict in metrics if verdict.outcome == "error"]
        outcome = "error" if errors else "informational"
        reason = "; ".join(errors) or "nothing asserts"
    return TurnVerdict(turn.index, outcome, reason, metrics, tools)


def judge_trial(trial: TrialRecord) -> TrialVerdict:
    """Judge one trial: it passes if at least one turn or the conversation passes. An error of the trial prevents a
    pass, as does a turn or conversation that failed, is in error or was skipped."""
    turns, conversation = tuple(map(judge_turn, trial.turns)), _judge_conversation(trial)
    outcome, reason = _combine(turns, conversation)
    if outcome != "failed" and trial.error is not None:
        outcome, reason = "error", trial.error.message
    return TrialVerdict(trial.index, outcome, reason, turns, conversation)


def _judge_conversation(trial: TrialRecord) -> TurnVerdict | None:
    """Judge a whole conversation by its metrics; None without metrics. A turn in error makes the verdict an error."""
    if not trial.evaluations:
        return None
    last = trial.turns[-1]
    broken = next((turn for turn in trial.turns if turn.error is not None or turn.skipped is not None), None)
    error = None
    if broken is not None:
        error = broken.error or ErrorInfo("AgentError", broken.skipped or "", "not_run")
    return judge_turn(TurnRecord(last.index, "", last.source, evaluations=trial.evaluations, error=error))


def _combine(turns: tuple[TurnVerdict, ...], conversation: TurnVerdict | None) -> tuple[Outcome, str]:
    worst: tuple[Outcome, ...] = ("failed", "error", "skipped")
    parts = turns if conversation is None else (*turns, conversation)
    for outcome in worst:
        bad = [part for part in parts if part.outcome == outcome]
        if outcome == "error" and len(bad) > 1:
            # A turn in error is also the reason of the conversation's error.
            bad = [part for part in bad if part is not conversation]
        if bad:
            reason = "; ".join(_located_reason(part, part is conversation, len(turns)) for part in bad)
            return ("error" if outcome == "skipped" else outcome), reason
    if any(part.outcome == "passed" for part in parts):
        return "passed", "every assertion holds"
    return "informational", "nothing asserts"


def _located_reason(turn: TurnVerdict, is_conversation: bool, turn_count: int) -> str:
    if turn_count == 1:
        return turn.reason
    return f"conversation: {turn.reason}" if is_conversation else f"turn {turn.index}: {turn.reason}"


def judge_case(case: CaseRecord, *, stop_when_decided: bool, quarantine_reason: str | None = None) -> CaseVerdict:
    """Judge one case: it passes if at least `min_pass` of `repeat` trials pass, and fails once that is impossible.

    With `stop_when_decided`, trials after the deciding trial are ignored (docs/verdict.md).
    """
    trials = tuple(map(judge_trial, sorted(case.trials, key=lambda trial: trial.index)))
    if stop_when_decided:
        trials = trials[: deciding_prefix([trial.outcome for trial in trials], case.repeat, case.min_pass)]
    outcomes = [trial.outcome for trial in trials]
    passes, failures, errors = (outcomes.count(outcome) for outcome in ("passed", "failed", "error"))
    judged, reason = _judge_trials(case, trials, passes, failures, errors)
    return CaseVerdict(
        id=case.id,
        outcome="quarantined" if quarantine_reason is not None else judged,
        judged=judged,
        reason=reason if quarantine_reason is None else f"{quarantine_reason}; {reason}",
        flaky=passes > 0 and failures > 0,
        passes=passes,
        failures=failures,
        errors=errors,
        trials=trials,
    )


def _judge_trials(
    case: CaseRecord, trials: tuple[TrialVerdict, ...], pass_count: int, failure_count: int, error_count: int
) -> tuple[Outcome, str]:
    if not case.asserting:
        broken = [trial for trial in trials if trial.outcome == "error"]
        return ("error", broken[0].reason) if broken else ("informational", "this case has no assertion")
    single = case.repeat == 1
    if pass_count >= case.min_pass:
        return "passed", "every assertion holds" if single else f"{pass_count} of {len(trials)} trials passed"
    first_failure = next((trial.reason for trial in trials if trial.outcome == "failed"), "")
    if failure_count > case.repeat - case.min_pass:
        return "failed", (
            first_failure
            if single
            else f"{pass_count} of {len(trials)} trials passed, {case.min_pass} needed: {first_failure}"
        )
    if not trials:
        return "skipped", "not run: the run stopped before this case"
    first_error = next((trial.reason for trial in trials if trial.outcome == "error"), "")
    if error_count:
        return (
            "error",
            first_error if single else f"{error_count} of {len(trials)} trials could not be judged: {first_error}",
        )
    if len(trials) < case.repeat:
        return "skipped", f"only {len(trials)} of {case.repeat} trials ran before the run stopped"
    if pass_count or failure_count:
        silent = len(trials) - pass_count - failure_count
        return (
            "error",
            f"{pass_count} of {len(trials)} trials passed, {case.min_pass} needed: nothing asserted in {silent}",
        )
    return "informational", "nothing asserted in any trial"


def deciding_prefix(outcomes: list[Outcome], repeat: int, min_pass: int) -> int:
    """Return the length of the shortest prefix of trials that decides the case; the number of all trials if the case
    is undecided."""
    passes = failures = 0
    for position, outcome in enumerate(outcomes, start=1):
        passes += outcome == "passed"
        failures += outcome == "failed"
        if passes >= min_pass or failures > repeat - min_pass:
            return position
    return len(outcomes)


def trials_surely_needed(outcomes: list[Outcome], repeat: int, min_pass: int) -> int:
    """Return the smallest number of further trials that can decide the case; 0 if it is decided or no trial is left.

    This many trials can run concurrently, since each of them is needed.
    """
    passes = sum(outcome == "passed" for outcome in outcomes)
    failures = sum(outcome == "failed" for outcome in outcomes)
    to_pass, to_fail = min_pass - passes, repeat - min_pass + 1 - failures
    if to_pass <= 0 or to_fail <= 0:
        return 0
    return min(to_pass, to_fail, repeat - len(outcomes))
