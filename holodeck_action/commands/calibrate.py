"""A judge calibrated: labels in, judge card and exit code out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from holodeck_action.calibration.card import make_card
from holodeck_action.calibration.labels import LabelError, Labels, read_labels
from holodeck_action.calibration.matching import match_record
from holodeck_action.calibration.showing import console_lines, markdown_lines
from holodeck_action.prepare.preflight import Loaded, Surroundings, writable_folder
from holodeck_action.prepare.settings import Flags
from holodeck_action.results.canonical import record_digest
from holodeck_action.results.cards import card_json
from holodeck_action.results.disk import write_atomically
from holodeck_action.results.judge_card import CARD_FILE, Estimate, JudgeCard
from holodeck_action.results.result_files import RecordError, read_record
from holodeck_action.results.verdict import EXIT_INCOMPLETE, EXIT_PASSED, EXIT_STOPPED, EXIT_VIOLATED
from holodeck_action.runner.trial import Clock
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

LIVE = "live"
"""Source of a card whose verdicts were asked for."""


_OF_CALLS = ("suite", "concurrency", "max_cost_usd", "max_tokens", "record", "replay", "cache", "dry_run")
"""Options that are of use where a judge is asked."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is asked for.

    Attributes:
        labels: the CSV file.
        metric: the metric's name; None for the only judged one.
        threshold: lowest passing score in place of the metric's own; None for its own.
        form: how the card is shown.
        output_dir: where judge-card.json goes; None for nowhere.
        min_agreement_lower_bound: to be reached by the lower end of the agreement's interval; None for no gate.
        min_kappa_lower_bound: the same of Cohen's κ.
    """

    labels: GivenPath
    metric: str | None = None
    threshold: float | None = None
    form: Literal["console", "markdown", "json"] = "console"
    output_dir: GivenPath | None = None
    min_agreement_lower_bound: float | None = None
    min_kappa_lower_bound: float | None = None


def calibrate_files(options: Mapping[str, Any], around: Surroundings, stdout: TextIO, stderr: TextIO) -> int:
    """Calibrate as the command line says.

    Args:
        options: value by option; those of `Calibration`, `results`, `suite`, `dry_run` and those of a run's calls.
        around: the outside world.
        stdout: where the card goes.
        stderr: where everything else goes.

    Returns:
        The exit code; see `calibrate_record` and `calibrate_live`.

    Raises:
        ConfigurationError: options contradict each other, or a file cannot be used.
    """
    asked = Calibration(**{field.name: options[field.name] for field in fields(Calibration)})
    results = options["results"]
    if results is not None:
        of_calls = [name for name in _OF_CALLS if options[name] not in (None, False)]
        given = [
            name
            for name, one in (
                ("--env-file", around.env_file),
                ("--allow-path", around.allowed.paths),
                ("--allow-plain-http", around.allowed.plain_http),
            )
            if one
        ]
        if of_calls or given:
            calls = ("SUITE" if name == "suite" else f"--{name.replace('_', '-')}" for name in of_calls)
            names = ", ".join((*calls, *given))
            raise ConfigurationError(
                [f"--results asks nobody: leave out {names}, or leave out --results to ask the judge"]
            )
        return calibrate_record(asked, results, stdout, stderr)
    from holodeck_action.prepare.preflight import find_suites, load_all
    from holodeck_action.prepare.request import request_from

    suite = options["suite"] or "agent.yaml"
    request = request_from({name: options[name] for name in _OF_CALLS if name != "suite"})

    def load() -> Loaded:
        found = find_suites((suite,), around.cwd, around.allowed)
        if len(found) > 1:
            raise ConfigurationError([f"{suite}: {len(found)} suites match; a metric of one is calibrated"])
        (loaded,) = load_all(found, around)
        return loaded

    return calibrate_live(asked, load, request.flags, around, stdout, stderr, dry_run=request.dry_run)


def calibrate_record(asked: Calibration, results: GivenPath, stdout: TextIO, stderr: TextIO) -> int:
    """Compare labels with the verdicts of a record; nobody is asked.

    Args:
        asked: what is asked for.
        results: a results.json.
        stdout: where the card goes.
        stderr: where notes and violated gates go.

    Returns:
        The exit code: 0, 1 for a violated gate, 3 where the judge had no verdict on a labelled answer.

    Raises:
        ConfigurationError: a file cannot be used, or labels do not fit the record.
    """
    labels = _labels(asked)
    try:
        record = read_record(results)
        matched = match_record(labels, record, asked.metric, str(results))
        card = make_card(
            labels,
            matched,
            asked.threshold,
            configuration=record.configurations.get(matched.metric),
            source=record_digest(record),
            created_at=_now().isoformat(),
        )
    except RecordError as error:
        raise ConfigurationError([str(error)]) from error
    except LabelError as error:
        raise ConfigurationError(error.problems) from error
    return _conclude(asked, card, None, stdout, stderr)


def calibrate_live(
    asked: Calibration,
    load: Callable[[], Loaded],
    flags: Flags,
    around: Surroundings,
    stdout: TextIO,
    stderr: TextIO,
    *,
    dry_run: bool = False,
) -> int:
    """Ask the judge of a suite about labelled answers, and compare.

    Args:
        asked: what is asked for.
        load: gives the suite; labels are read before.
        flags: how models are asked: recording, budget, concurrency.
        around: the outside world.
        stdout: where the card goes.
        stderr: where the plan, notes and violated gates go.
        dry_run: only say what would be asked.

    Returns:
        The exit code: 0, 1 for a violated gate, 3 where the judge gave no verdict on a labelled answer, 4 where the
        budget was used up.

    Raises:
        ConfigurationError: a file cannot be used, or nobody can grade.
    """
    from holodeck_action.prepare.estimate import plan_lines
    from holodeck_action.prepare.labelled import judge_labelled, prepare_labelled
    from holodeck_action.prepare.opening import budget_of

    labels = _labels(asked)
    prepared, metric = prepare_labelled(labels, asked.metric, asked.threshold, load(), flags, around)
    if dry_run or prepared.settings.calls.mode != "replay":
        stream = stdout if dry_run else stderr
        stream.writelines(f"{line}\n" for line in plan_lines([prepared], flags))
        stream.flush()
    if dry_run:
        return EXIT_PASSED
    budget = budget_of(flags.max_cost_usd, flags.max_tokens)
    answered = judge_labelled(labels, metric, prepared, budget, Clock(_now, time.monotonic), stderr)
    try:
        card = make_card(
            labels,
            answered.matched,
            asked.threshold,
            configuration=answered.configuration,
            source=LIVE,
            created_at=_now().isoformat(),
        )
    except LabelError as error:
        raise ConfigurationError(error.problems) from error
    return _conclude(asked, card, answered.stopped, stdout, stderr)


def _labels(asked: Calibration) -> Labels:
    if asked.output_dir is not None:
        writable_folder(asked.output_dir)
    try:
        return read_labels(asked.labels.path, str(asked.labels))
    except LabelError as error:
        raise ConfigurationError(error.problems) from error


def _now() -> datetime:
    return datetime.now(UTC)


def _conclude(asked: Calibration, card: JudgeCard, stopped: str | None, stdout: TextIO, stderr: TextIO) -> int:
    """Show and write the card; return the exit code."""
    if asked.form == "json":
        stdout.write(card_json(card).decode())
    else:
        lines = console_lines(card) if asked.form == "console" else markdown_lines(card)
        stdout.writelines(f"{line}\n" for line in lines)
    stdout.flush()
    if asked.output_dir is not None:
        path = asked.output_dir / CARD_FILE
        try:
            write_atomically(path.path, [card_json(card)])
        except OSError as error:
            raise ConfigurationError([f"{path}: cannot be written: {error.strerror}"]) from error
    if stopped is not None:
        stderr.write(f"stopped: {stopped}\n")
        return EXIT_STOPPED
    if card.missing:
        # Gates are not judged: missing verdicts are trouble, and say nothing of how the judge agrees.
        count = len(card.missing)
        stderr.write(f"incomplete: {count} of {card.n + count} labelled answers were not judged\n")
        return EXIT_INCOMPLETE
    violated = list(_violations(asked, card))
    stderr.writelines(f"violated: {sentence}\n" for sentence in violated)
    return EXIT_VIOLATED if violated else EXIT_PASSED


def _violations(asked: Calibration, card: JudgeCard) -> Iterator[str]:
    gates: tuple[tuple[str, float | None, Estimate], ...] = (
        ("min-agreement-lower-bound", asked.min_agreement_lower_bound, card.judge.agreement),
        ("min-kappa-lower-bound", asked.min_kappa_lower_bound, card.judge.kappa),
    )
    for name, least, found in gates:
        if least is None:
            continue
        if found.low is None:
            yield f"{name} {least:g}: the labels cannot tell; label more answers, good and bad ones"
        elif found.low < least:
            yield f"{name} is {found.low:.4f}, {least:g} required"
