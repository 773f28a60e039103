"""`export`: a record in the data model of an observability service, without running anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holodeck_action.calibration.human_ai import human_ai_evaluations
from holodeck_action.calibration.labelled_answers import read_labels
from holodeck_action.calibration.matching import match_record
from holodeck_action.commands.caller import Caller
from holodeck_action.commands.report import write_text
from holodeck_action.reports.honeyhive import honeyhive_export, honeyhive_json
from holodeck_action.reports.honeyhive_patterns import of_card
from holodeck_action.results.cards import read_card
from holodeck_action.results.comparison import Comparison
from holodeck_action.results.conclusion import conclude
from holodeck_action.results.decision import Terms, decide
from holodeck_action.results.exit_codes import ExitCode
from holodeck_action.results.honeyhive import EarlierRun, HumanAIEvaluation
from holodeck_action.results.record import Record
from holodeck_action.results.result_files import read_base, read_record
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


@dataclass(frozen=True, slots=True)
class Exporting:
    """What is asked for.

    Attributes:
        results: a results.json.
        file: where the document goes; None for standard output.
        cards: judge cards to add, of metrics of the record.
        labels: labels of answers of the record, as `calibrate` reads them; None for none.
        metric: the metric that the labels are about; None for the only one with a judge.
    """

    results: GivenPath
    file: GivenPath | None
    cards: tuple[GivenPath, ...]
    labels: GivenPath | None
    metric: str | None


def export_record(asked: Exporting, caller: Caller) -> int:
    """Write a record in the shapes of HoneyHive.

    Args:
        asked: what is asked for.
        caller: whose standard output takes the document where no file is named.

    Raises:
        ConfigurationError: a file cannot be used, a card is about a metric that the record does not have, labels do not
            fit the record, or the document cannot be written.
    """
    if asked.metric is not None and asked.labels is None:
        raise ConfigurationError(["--metric says what labels are about: give --labels, or leave it out"])
    record = read_record(asked.results)
    base = read_base(asked.results, record)
    concluded = conclude(record, Terms(base=base))
    compared = concluded.report.comparison
    earlier = () if base is None or compared is None else (_base_run(base, compared),)
    export = honeyhive_export(concluded, earlier, tuple(_humans(asked, record)))
    write_text(honeyhive_json(export), asked.file, caller.stdout)
    return ExitCode.PASSED


def _base_run(base: Record, compared: Comparison) -> EarlierRun:
    verdict = decide(base)
    comparable = {metric.name for metric in compared.metrics if metric.change is not None}
    means = {
        name: metric.mean for name, metric in verdict.metrics.items() if metric.mean is not None and name in comparable
    }
    return EarlierRun(base.run.started_at, verdict.pass_rate, means)


def _humans(asked: Exporting, record: Record) -> Iterator[HumanAIEvaluation]:
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
