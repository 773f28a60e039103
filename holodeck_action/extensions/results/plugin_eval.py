"""Reads `aggregate-result.json` of `claude plugin eval`."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.results.stored import (
    Definition,
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
    unit_score,
)
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import Usage
from holodeck_action.suite.errors import SourceMark

VERSIONS = (1,)
"""The known versions of the document."""


class _Grader(Struct, frozen=True):
    name: str
    type: str = ""
    weight: float | None = None
    config: Mapping[str, Any] | None = None


class _Graded(Struct, frozen=True):
    name: str
    passed: bool
    weight: float | None = None
    explanation: str | None = None
    with_only: bool = field(default=False, name="withOnly")
    scored: bool = True


class _Run(Struct, frozen=True):
    score: float
    passed: bool
    cost: Amount | None = field(default=None, name="costUsd")
    seconds: Amount | None = field(default=None, name="durationSeconds")
    started: str = field(default="", name="startedAt")
    error: str | None = None
    aborted: Any = None
    graders: Sequence[_Graded] = ()


class _Arms(Struct, frozen=True):
    runs: Sequence[_Run] = field(name="with")
    without: Sequence[_Run] = ()


class _Case(Struct, frozen=True):
    name: str
    dir: str
    arms: _Arms
    prompt: str = field(default="", name="promptMarkdown")
    source: str = "prose"
    repeat: Count | None = field(default=None, name="runsPerCase")
    graders: Sequence[_Grader] = ()


class _Plugin(Struct, frozen=True):
    name: str


class _Suite(Struct, frozen=True):
    root: str = ""
    plugins: Sequence[_Plugin] = ()
    threshold: float | None = None
    model: str | None = field(default=None, name="modelOverride")


class Document(Struct, frozen=True):
    """The document of one call of `claude plugin eval`."""

    version: int = field(name="schemaVersion")
    suite: _Suite
    cases: Sequence[_Case]
    claude: str = field(default="", name="claudeVersion")
    started: str = field(default="", name="startedAt")
    partial: bool = False


def read_document(document: Document, *, without_plugin: bool) -> StoredResults:
    """Return the results of a document; it does not have the cases that could not be loaded.

    Args:
        document: the document.
        without_plugin: whether to return the runs without the plugin instead of those with it.

    Raises:
        FormatError: the document has an unknown version, or no runs without the plugin if these are to be returned.
    """
    if document.version not in VERSIONS:
        raise FormatError(f"is of version {document.version} of plugin eval's format (known: 1); use another Claude")
    plugins = ", ".join(plugin.name for plugin in document.suite.plugins)
    beside = [run for case in document.cases for run in case.arms.without if not run.error]
    if without_plugin and not any(case.arms.without for case in document.cases):
        raise FormatError("has no runs without the plugin: run plugin eval with --ablation with-without")
    notices = (f"without the plugin, {sum(run.passed for run in beside)} of {len(beside)} runs passed",)
    return StoredResults(
        program=f"plugin-eval {document.claude}".strip(),
        suite=plugins,
        target=" ".join(filter(None, ("no plugin" if without_plugin else plugins, document.suite.model))),
        cases=[_case(case, document.suite, without_plugin=without_plugin) for case in document.cases],
        written=document.started,
        terms_known=True,
        stopped="plugin eval ended early: its document is partial" if document.partial else "",
        notices=notices if beside and not without_plugin else (),
    )


def _case(case: _Case, suite: _Suite, *, without_plugin: bool) -> StoredCase:
    runs = case.arms.without if without_plugin else case.arms.runs
    folder = glob.escape(f"{suite.root or '.'}/{case.dir}")
    return StoredCase(
        name=case.dir or case.name,
        question=case.prompt or "(the prompt is not in the results)",
        asked=[case.dir, case.prompt],
        source=SourceMark(f"{case.dir}/prompt.md", 1, 1),
        trials=tuple(_trial(case, run, suite.threshold) for run in runs),
        repeat=max(case.repeat or 1, len(runs), 1),
        definition=Definition((f"{folder}/{'case.yaml' if case.source == 'case_yaml' else 'prompt.md'}",)),
    )


def _trial(case: _Case, run: _Run, threshold: float | None) -> StoredTrial:
    # An error of the provider and a timeout have a score of 0, and graders of an answer that does not exist.
    error = run.error or ("the run was aborted" if run.aborted else "")
    return StoredTrial(
        checks=() if error else tuple(_checks(case, run, threshold)),
        error=error,
        usage=Usage(cost_usd=run.cost),
        started=run.started,
        duration_ms=None if run.seconds is None else 1000 * run.seconds,
        metadata={"plugin-eval": {"passed": run.passed, "score": run.score}},
    )


def _checks(case: _Case, run: _Run, threshold: float | None) -> Iterator[StoredCheck]:
    found = {grade.name: grade for grade in run.graders}
    # Graders that look at the plugin itself are not part of a run without it.
    absent = {grade.name for each in case.arms.runs for grade in each.graders if grade.with_only} - {*found}
    declared = {grader.name: grader for grader in case.graders if grader.name not in absent}
    for name in dict.fromkeys((*declared, *found)):
        grade, grader = found.get(name), declared.get(name) or _Grader(name)
        settings = {"weight": grader.weight, **(grader.config or {})}
        if grade is None:
            yield StoredCheck(name, grader.type, error="plugin eval has no result of this grader", settings=settings)
            continue
        yield StoredCheck(
            name,
            grader.type,
            grade.passed,
            float(grade.passed),
            grade.explanation or "",
            asserts=grade.scored and not grade.with_only,
            settings=settings,
        )
    if not (found or declared):
        return
    lacking = len(found) < len(declared)
    failed = any(not grade.passed for grade in run.graders if grade.scored and not grade.with_only)
    yield StoredCheck(
        "plugin-eval's verdict",
        "verdict",
        None if lacking and not failed else run.passed,
        unit_score(run.score),
        "" if run.passed else "plugin eval failed the run",
        "its graders are not complete" if lacking and not failed else "",
        settings={"threshold": threshold},
    )
