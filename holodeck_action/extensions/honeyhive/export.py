"""Implements `export --format honeyhive`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.calibration.card_files import read_card
from holodeck_action.extensions.calibration.labels import read_labels
from holodeck_action.extensions.calibration.matching import match_record
from holodeck_action.extensions.history.earlier_runs import read_earlier
from holodeck_action.extensions.history.history_layout import HISTORY_FILE
from holodeck_action.extensions.history.history_lines import HistoryLine, history_line, sort_lines, suite_of
from holodeck_action.extensions.history.history_store import HistoryFolder
from holodeck_action.extensions.honeyhive.honeyhive import honeyhive_json
from holodeck_action.extensions.honeyhive.honeyhive_models import HumanAIEvaluation
from holodeck_action.extensions.honeyhive.honeyhive_patterns import card_comparison
from holodeck_action.extensions.honeyhive.human_ai import human_ai_evaluations
from holodeck_action.record.base_results import read_base
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.written import write_text
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.export_options import ExportOptions
from holodeck_action.run.options.flags import PATH
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

OPTIONS = (
    click.Option(
        ["--card", "cards"],
        type=PATH,
        multiple=True,
        help="Add the agreement of judge and people (judge-card.json).",
    ),
    click.Option(["--labels"], type=PATH, metavar="LABELS.csv", help="Add each human label next to the judge's score."),
    click.Option(
        ["--metric"], help="Name of the metric that the labels are about [default: the only one with a judge]."
    ),
    click.Option(["--history"], type=PATH, metavar="DIR", help="Add scores over time from the history in this folder."),
)
_EARLIER_SOURCES = ("file:", "artifact", "branch:")
"""Source prefixes of a base that was run earlier. Bases from other sources run together with the suite."""


class _Options(Struct, frozen=True):
    """The options of `export --format honeyhive`.

    Attributes:
        results: path of the results.json to export.
        file: file to write; None to write to standard output.
        cards: judge cards to add; their metrics must be in the record.
        labels: file with labels of the record's answers, in the format of `calibrate`; None to add no labels.
        metric: name of the metric that the labels are about; None if the record has only one metric with a judge.
        history: folder of a history; None to use the earlier runs stored next to the results.
    """

    results: GivenPath
    file: GivenPath | None
    cards: tuple[GivenPath, ...]
    labels: GivenPath | None
    metric: str | None
    history: GivenPath | None


def write_honeyhive(exporting: ExportOptions, caller: Caller) -> int:
    """Write a record in HoneyHive's data model.

    Args:
        exporting: the options of the command.
        caller: receives the document on standard output unless a file is given, and notes about unreadable lines of a
            history on standard error.

    Raises:
        ConfigurationError: an input file is invalid, the record does not have the metric of a card, labels do not match
            the record, the history has no run of the suite, or the document cannot be written.
    """
    options = _Options(exporting.results, exporting.file, **exporting.options)
    if options.metric is not None and options.labels is None:
        raise ConfigurationError(["--metric names the metric of the labels: give --labels, or leave out --metric"])
    record = read_record(options.results)
    base = read_base(options.results, record)
    concluded = conclude(record, Terms.against(base))
    past = () if base is None else _base_run(record, base.record, concluded.report.comparison)
    earlier = (*_earlier_lines(options, record, caller), *past)
    before = sort_lines(line for line in earlier if line.moment < datetime.fromisoformat(record.run.started_at))
    write_text(
        honeyhive_json(concluded, before, tuple(_human_comparisons(options, record))), options.file, caller.stdout
    )
    return ExitCode.PASSED


def _earlier_lines(options: _Options, record: Record, caller: Caller) -> Iterator[HistoryLine]:
    """Yield the suite's runs that count in trends, from the given history or the file next to the results."""
    suite = suite_of(record)
    found = (
        read_earlier(options.results)
        if options.history is None
        else HistoryFolder(options.history, caller.pause).read()
    )
    caller.note(*found.notices)
    if options.history is not None and not found.of_suite(suite):
        there = ", ".join(sorted({line.suite for line in found.lines})) or "none"
        problem = f"{options.history / HISTORY_FILE}: holds no run of {suite} (it has runs of: {there})"
        raise ConfigurationError([one_line(problem, 1000)])
    yield from (line for line in found.of_suite(suite) if line.is_counted)


def _base_run(record: Record, base: Record, compared: Comparison | None) -> Iterator[HistoryLine]:
    """Yield the history line of the base, with the comparable metrics only, if the base is an earlier run."""
    run = None if record.baseline is None else record.baseline.base
    if compared is None or run is None or not run.source.startswith(_EARLIER_SOURCES):
        return
    comparable = {metric.name for metric in compared.metrics if metric.change is not None}
    line = history_line(base, decide(base))
    if line.is_counted:
        yield replace(line, metrics={name: point for name, point in line.metrics.items() if name in comparable})


def _human_comparisons(options: _Options, record: Record) -> Iterator[HumanAIEvaluation]:
    names = {each.evaluator_name for each in record.evaluations}
    for path in options.cards:
        card = read_card(path)
        if card.metric not in names:
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(
                [f"{path}: is about {card.metric!r}, which {options.results} does not have (it has: {there})"]
            )
        yield card_comparison(card)
    if options.labels is not None:
        labels = read_labels(options.labels.path, str(options.labels))
        yield from human_ai_evaluations(labels, match_record(labels, record, options.metric, str(options.results)))
