"""Chooses the cases of a suite to run, and checks that its gates can be met with these cases."""

from __future__ import annotations

from collections.abc import Sequence, Set
from fnmatch import fnmatchcase

from msgspec.structs import replace

from holodeck_action.decide.statistics import MIN_SAMPLE, effective_sample_size, wilson_lower_bound
from holodeck_action.run.conditions import filter_options
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import Settings, SettingsError, baseline_problem
from holodeck_action.suite.applicability import case_asserts, skip_reason
from holodeck_action.suite.model.policy import has_score_gate
from holodeck_action.suite.values import Case, Suite


def choose_cases(suite: Suite, flags: Flags) -> tuple[Case, ...]:
    """Return the cases to run, each with the number of trials that the command line requests.

    Raises:
        SettingsError: no case is left, or more passes are required than there are trials.
    """

    def is_chosen(case: Case) -> bool:
        names = {case.id} if case.name is None else {case.id, case.name}
        by_name = any(matches_glob(names, glob) for glob in flags.case_globs)
        return (
            (by_name or not flags.case_globs)
            and (not flags.tags or not set(flags.tags).isdisjoint(case.tags))
            and (flags.failed_from is None or case.id in flags.failed_from)
        )

    chosen = [case for case in suite.cases if is_chosen(case)][: flags.limit]
    if suite.cases and not chosen:
        if flags.failed_from is not None and not flags.failed_from:
            raise SettingsError("--failed-from names results in which no case failed: there is nothing to run again")
        raise SettingsError(
            f"no case matches {' '.join(filter_options(filters_of(flags)))}; the suite has {len(suite.cases)} cases, "
            f"such as {suite.cases[0].id!r}"
        )
    if chosen and not has_score_gate(suite.policy.gates) and not any(case_asserts(case) for case in chosen):
        raise SettingsError("nothing can fail in the chosen cases: every metric in them is informational or disabled")
    return tuple(with_trials(case, flags) for case in chosen)


def unmatched_filters(suites: Sequence[Suite], flags: Flags) -> list[str]:
    """Return an error sentence for each filter that matches no case of any suite: it may be misspelt."""
    cases = [case for suite in suites for case in suite.cases]
    names = {name for case in cases for name in (case.id, case.name) if name is not None}
    tags = {tag for case in cases for tag in case.tags}
    problems = [f"--case {glob!r} matches no case" for glob in flags.case_globs if not matches_glob(names, glob)]
    return problems + [f"--tag {tag!r} is not a tag of any case" for tag in flags.tags if tag not in tags]


def check_bounds_attainable(settings: Settings, suite: Suite, cases: Sequence[Case]) -> None:
    """Check that these cases can reach the gates' bounds, and that settings of the comparison have an effect.

    Raises:
        SettingsError: the bound of the pass rate cannot be reached even if all cases pass, too few cases have a metric
            for a bound of its mean, or a setting of the comparison has no effect.
    """
    _check_enough_cases(settings, suite, cases)
    problem = baseline_problem(settings.baseline, settings.gates, compared=settings.compared)
    if problem is not None:
        raise SettingsError(" ".join(problem), problem[0])
    bound = settings.gates.min_pass_rate_lower_bound
    if bound is None:
        return
    quarantined = {entry.case for entry in suite.policy.quarantine}
    weights = [case.weight for case in cases if case.id not in quarantined and case_asserts(case)]
    if not weights:
        return
    best = wilson_lower_bound(1.0, effective_sample_size(weights))
    if best < bound:
        raise SettingsError(
            f"min_pass_rate_lower_bound {bound:g} cannot be reached with {len(weights)} case(s), "
            "not counting those that are quarantined or cannot fail: the "
            f"bound is {best:.4g} if all of them pass; run more cases, or lower the limit with "
            "--min-pass-rate-lower-bound",
            "gates.min_pass_rate_lower_bound" if bound == suite.policy.gates.min_pass_rate_lower_bound else None,
        )


def _check_enough_cases(settings: Settings, suite: Suite, cases: Sequence[Case]) -> None:
    """Raise SettingsError for a bound on the interval of a metric's mean if too few cases have the metric."""
    quarantined = {entry.case for entry in suite.policy.quarantine}
    for name, bounds in sorted(settings.gates.metrics.items()):
        for bound, key, instead in (
            (bounds.min_lower_bound, "min_lower_bound", "min_mean"),
            (bounds.max_upper_bound, "max_upper_bound", "max_mean"),
        ):
            if bound is None:
                continue
            scored = sum(case.id not in quarantined and _has_metric(case, name) for case in cases)
            if scored < MIN_SAMPLE:
                raise SettingsError(
                    f"gates.metrics.{name}.{key} needs {MIN_SAMPLE} cases with a score, but only {scored} "
                    f"case(s) outside the quarantine can have one; run more cases, or use {instead}",
                    f"gates.metrics.{name}.{key}",
                )


def _has_metric(case: Case, name: str) -> bool:
    return any(spec.label == name and skip_reason(spec, turn) is None for turn in case.turns for spec in turn.metrics)


def filters_of(flags: Flags) -> dict[str, object]:
    """Return the command line's case filters that are set, as JSON values by name."""
    filters: dict[str, object] = {
        "case": list(flags.case_globs),
        "tag": list(flags.tags),
        "failed_from": None if flags.failed_from is None else sorted(flags.failed_from),
        "limit": flags.limit,
    }
    return {name: value for name, value in filters.items() if value not in (None, [])}


def matches_glob(names: Set[str], glob: str) -> bool:
    """Return whether a glob matches or equals one of the names (names may contain brackets)."""
    return glob in names or any(fnmatchcase(name, glob) for name in names)


def with_trials(case: Case, flags: Flags) -> Case:
    """Return a case with the number of trials that the command line requests.

    Raises:
        SettingsError: more passes are required than there are trials.
    """
    if flags.repeat is None and flags.min_pass is None:
        return case
    repeat = case.repeat if flags.repeat is None else flags.repeat
    min_pass = case.min_pass if flags.min_pass is None else flags.min_pass
    if (min_pass or 1) > repeat:
        raise SettingsError(
            f"case {case.id!r} would need {min_pass} passing trials of {repeat}; give --repeat at least {min_pass} or "
            f"--min-pass at most {repeat}"
        )
    return replace(case, repeat=repeat, min_pass=min_pass)
