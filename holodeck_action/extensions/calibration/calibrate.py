"""`calibrate`: a judge compared with the labels of humans, and a judge card of what its verdicts are worth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.calibration.card import console_lines, make_card, markdown_lines
from holodeck_action.extensions.calibration.cards import card_json
from holodeck_action.extensions.calibration.labelled import Answered, judge_labelled, prepare_labelled
from holodeck_action.extensions.calibration.labelled_answers import Labels, read_labels
from holodeck_action.extensions.calibration.matching import match_record
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.disk import write_atomically
from holodeck_action.record.judge_card import CARD_FILE, Estimate, JudgeCard
from holodeck_action.record.result_files import read_results
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import load_one, writable_folder
from holodeck_action.run.model_calls import budget_of
from holodeck_action.run.request import Allowed, request_from
from holodeck_action.run.trial import Clock
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

LIVE = "live"
"""Source of a card whose verdicts were asked for."""


_OF_CALLS = ("suite", "concurrency", "max_cost_usd", "max_tokens", "record", "replay", "cache", "dry_run")
"""Options that are of use where a judge is asked."""
_OF_SUITES = ("env_file", "requirements", "allow_paths", "allow_plain_http")


class Calibration(Struct, frozen=True):
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


def calibrate_judge(given: Mapping[str, Any], caller: Caller) -> int:
    """Compare labels with the verdicts of a record, or with those of a judge that is asked now.

    Args:
        given: value by setting of the command line.
        caller: whose standard output takes the card, and standard error the plan, notes and violated gates.

    Returns:
        The exit code: 0; 1 for a violated gate; 3 where the judge gave no verdict on a labelled answer; 4 where the
        budget was used up.

    Raises:
        ConfigurationError: options contradict each other, a file cannot be used, labels do not fit the record, or
            no model can grade.
    """
    asked = Calibration(**{field.name: given[field.name] for field in fields(Calibration)})
    allowed = Allowed(given["allow_paths"], given["allow_plain_http"])
    results = given["results"]
    if results is None:
        return _calibrate_live(asked, given, caller)
    of_calls = (name for name in _OF_CALLS if given[name] is not None and given[name] is not False)
    useless = ["SUITE" if name == "suite" else f"--{name.replace('_', '-')}" for name in of_calls]
    useless += [
        flag
        for flag, value in (
            ("--env-file", given["env_file"]),
            ("--requirements", given["requirements"]),
            ("--allow-path", allowed.paths),
            ("--allow-plain-http", allowed.plain_http),
        )
        if value
    ]
    if useless:
        names = ", ".join(useless)
        raise ConfigurationError([f"--results asks nobody: leave out {names}, or leave out --results to ask the judge"])
    labels = _labels(asked)
    stored = read_results(results)
    record = stored.record
    matched = match_record(labels, record, asked.metric, str(results))
    configuration = record.configurations.get(matched.metric)
    digest = stored.record_digest or record_digest(record)
    return _conclude(asked, labels, Answered(matched, None, configuration), digest, caller)


def _calibrate_live(asked: Calibration, given: Mapping[str, Any], caller: Caller) -> int:
    from holodeck_action.run.plan import plan_lines

    request = request_from({name: value for name, value in given.items() if name in (*_OF_CALLS, *_OF_SUITES)})
    around = caller.surroundings(request.env_file, request.allowed, request.requirements)
    labels = _labels(asked)
    loaded = load_one(given["suite"] or "agent.yaml", around, "a metric of one is calibrated")
    prepared, labels, metric = prepare_labelled(labels, asked.metric, asked.threshold, loaded, request.flags, around)
    if request.dry_run or prepared.settings.calls.mode != "replay":
        stream = caller.stdout if request.dry_run else caller.stderr
        stream.writelines(f"{line}\n" for line in plan_lines([prepared], request.flags))
        stream.flush()
    if request.dry_run:
        return ExitCode.PASSED
    budget = budget_of(request.flags.max_cost_usd, request.flags.max_tokens)
    answered = judge_labelled(labels, metric, prepared, budget, Clock(_now, time.monotonic), caller.stderr)
    return _conclude(asked, labels, answered, LIVE, caller)


def _labels(asked: Calibration) -> Labels:
    if asked.output_dir is not None:
        writable_folder(asked.output_dir)
    return read_labels(asked.labels.path, str(asked.labels))


def _now() -> datetime:
    return datetime.now(UTC)


def _conclude(asked: Calibration, labels: Labels, answered: Answered, source: str, caller: Caller) -> int:
    """Make, show and write the card; return the exit code."""
    card = make_card(
        labels,
        answered.matched,
        asked.threshold,
        configuration=answered.configuration,
        source=source,
        created_at=_now().isoformat(),
    )
    stdout, stderr = caller.stdout, caller.stderr
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
    if answered.stopped is not None:
        stderr.write(f"stopped: {answered.stopped}\n")
        return ExitCode.STOPPED
    if card.missing:
        # Gates are not judged: missing verdicts are trouble, and say nothing of how the judge agrees.
        count = len(card.missing)
        stderr.write(f"incomplete: {count} of {card.n + count} labelled answers were not judged\n")
        return ExitCode.INCOMPLETE
    violated = list(_violations(asked, card))
    stderr.writelines(f"violated: {sentence}\n" for sentence in violated)
    return ExitCode.VIOLATED if violated else ExitCode.PASSED


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
