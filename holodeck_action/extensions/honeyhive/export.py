"""The format `honeyhive` of `export`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.decide.compare.comparison import Comparison
from holodeck_action.decide.decision import Terms, decide
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.calibration.cards import read_card
from holodeck_action.extensions.calibration.labelled_answers import read_labels
from holodeck_action.extensions.calibration.matching import match_record
from holodeck_action.extensions.history.earlier_runs import read_earlier
from holodeck_action.extensions.history.history_layout import HISTORY_FILE
from holodeck_action.extensions.history.history_store import HistoryFolder
from holodeck_action.extensions.history.results_history import HistoryLine, history_line, in_order, suite_of
from holodeck_action.extensions.honeyhive.honeyhive import honeyhive_pieces
from holodeck_action.extensions.honeyhive.honeyhive_patterns import of_card
from holodeck_action.extensions.honeyhive.human_ai import human_ai_evaluations
from holodeck_action.extensions.honeyhive.results_honeyhive import HumanAIEvaluation
from holodeck_action.record.base_results import read_base
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from holodeck_action.reports.conclusion import conclude
from holodeck_action.reports.written import write_pieces
from holodeck_action.run.caller import Caller
from holodeck_action.run.exporting import Exporting
from holodeck_action.run.options.flags import PATH
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

OPTIONS = (
    click.Option(["--card", "cards"], type=PATH, multiple=True, help="Add what this judge-card.json measured."),
    click.Option(
        ["--labels"], type=PATH, metavar="LABELS.csv", help="Add each label of people beside the judge's score."
    ),
    click.Option(
        ["--metric"], help="Name of the metric that the labels are about [default: the only one with a judge]."
    ),
    click.Option(["--history"], type=PATH, metavar="DIR", help="Add scores over time from the history in this folder."),
)
_PAST = ("file:", "artifact", "branch:")
"""Sources of a base that is itself a run of the past; any other has been run together with the run."""


class _Asked(Struct, frozen=True):
    """What is asked for.

    Attributes:
        results: a results.json.
        file: where the document goes; None for standard output.
        cards: judge cards to add, of metrics of the record.
        labels: labels of answers of the record, as `calibrate` reads them; None for none.
        metric: the metric that the labels are about; None for the only one with a judge.
        history: folder of a history; None for the earlier runs that the run has kept.
    """

    results: GivenPath
    file: GivenPath | None
    cards: tuple[GivenPath, ...]
    labels: GivenPath | None
    metric: str | None
    history: GivenPath | None


def write_honeyhive(exporting: Exporting, caller: Caller) -> int:
    """Write a record in the shapes of HoneyHive.

    Args:
        exporting: what is asked for.
        caller: whose standard output takes the document where no file is named, and standard error notes about lines of
            a history that cannot be read.

    Raises:
        ConfigurationError: a file cannot be used, a card is about a metric that the record does not have, labels do not
            fit the record, the history has no run of the suite, or the document cannot be written.
    """
    asked = _Asked(exporting.results, exporting.file, **exporting.options)
    if asked.metric is not None and asked.labels is None:
        raise ConfigurationError(["--metric says what labels are about: give --labels, or leave it out"])
    record = read_record(asked.results)
    base = read_base(asked.results, record)
    concluded = conclude(record, Terms.against(base))
    past = () if base is None else _base_run(record, base.record, concluded.report.comparison)
    earlier = (*_history(asked, record, caller), *past)
    before = in_order(line for line in earlier if line.moment < datetime.fromisoformat(record.run.started_at))
    write_pieces(honeyhive_pieces(concluded, before, tuple(_humans(asked, record))), asked.file, caller.stdout)
    return ExitCode.PASSED


def _history(asked: _Asked, record: Record, caller: Caller) -> Iterator[HistoryLine]:
    """Yield the whole runs of the suite from the given history, or from what the run kept of its own."""
    suite = suite_of(record)
    found = read_earlier(asked.results) if asked.history is None else HistoryFolder(asked.history, caller.pause).read()
    caller.note(*found.notices)
    if asked.history is not None and not found.of(suite):
        there = ", ".join(sorted({line.suite for line in found.lines})) or "none"
        problem = f"{asked.history / HISTORY_FILE}: holds no run of {suite} (it has runs of: {there})"
        raise ConfigurationError([one_line(problem, 1000)])
    yield from (line for line in found.of(suite) if line.counts)


def _base_run(record: Record, base: Record, compared: Comparison | None) -> Iterator[HistoryLine]:
    """Yield the base where it is a run of the past, with the metrics that can be compared."""
    run = None if record.baseline is None else record.baseline.base
    if compared is None or run is None or not run.source.startswith(_PAST):
        return
    comparable = {metric.name for metric in compared.metrics if metric.change is not None}
    line = history_line(base, decide(base))
    if line.counts:
        yield replace(line, metrics={name: point for name, point in line.metrics.items() if name in comparable})


def _humans(asked: _Asked, record: Record) -> Iterator[HumanAIEvaluation]:
    names = {each.evaluator_name for each in record.evaluations}
    for path in asked.cards:
        card = read_card(path)
        if card.metric not in names:
            there = ", ".join(sorted(names)) or "none"
            raise ConfigurationError(
                [f"{path}: is about {card.metric!r}, which {asked.results} does not have (it has: {there})"]
            )
        yield of_card(card)
    if asked.labels is not None:
        labels = read_labels(asked.labels.path, str(asked.labels))
        yield from human_ai_evaluations(labels, match_record(labels, record, asked.metric, str(asked.results)))
