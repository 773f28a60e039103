"""Starts the process of the judging libraries while suites are still being checked."""

from __future__ import annotations

from holodeck_action.run.case_choice import choose_cases
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import ModelCalls, SettingsError, merge_calls
from holodeck_action.run.stages import stages_of
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.values import Suite


def start_judging_libraries(suite: Suite, flags: Flags) -> None:
    """Start to import the libraries that grade a run's cases, without waiting for them.

    Nothing starts if other processes grade the cases, or if stored verdicts may make a library unnecessary.
    """
    # Most suites have no such metrics; the cases are only chosen for those that do.
    configs = {id(spec.config): spec.config for case in suite.cases for turn in case.turns for spec in turn.metrics}
    if not any(config.needs_judge or config.library_parts() for config in configs.values()):
        return
    if may_have_verdicts(merge_calls(suite, flags)) or any(each.GRADES_ELSEWHERE for each in stages_of([suite], flags)):
        return
    try:
        cases = choose_cases(suite, flags)
    except SettingsError:
        # `prepare_suites` reports it.
        return
    from holodeck_action.metrics.judging.libraries import begin_import
    from holodeck_action.scoring.judges import missing_packages

    for config in [*judged_metrics(cases).values(), *library_metrics(cases).values()]:
        if config.library is not None and missing_packages(config) is None:
            begin_import(config.library)


def may_have_verdicts(calls: ModelCalls) -> bool:
    """Return whether verdicts of an earlier run may be stored, so that a run may need no judge."""
    folder = calls.cache if calls.mode == "live" else calls.folder
    return calls.mode != "record" and folder is not None and next(folder.glob("verdicts*"), None) is not None
