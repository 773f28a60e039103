"""The command `calibrate`: compares a judge with human labels and writes a judge card with their agreement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.calibration.card import make_card
from holodeck_action.extensions.calibration.card_files import card_json
from holodeck_action.extensions.calibration.card_texts import console_lines, markdown_lines
from holodeck_action.extensions.calibration.label_judging import JudgedLabels, judge_labels, prepare_labels
from holodeck_action.extensions.calibration.labels import Labels, read_labels
from holodeck_action.extensions.calibration.matching import match_record
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.disk import write_atomically
from holodeck_action.record.judge_card import CARD_FILE, Estimate, JudgeCard
from holodeck_action.record.result_files import read_results
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import ensure_writable, load_one_suite
from holodeck_action.run.options.request import flags_from
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

LIVE_SOURCE = "live"
"""Value of a card's `source` if its verdicts come from judge calls made for the card, not from a record."""


_CALL_OPTIONS = ("suite", "concurrency", "max_cost_usd", "max_tokens", "record", "replay", "cache", "dry_run")
"""Options that apply only if a judge is called."""
_SUITE_OPTIONS = ("env_file", "requirements", "allow_paths", "allow_plain_http", "allow_unsafe_forks")


class Calibration(Struct, frozen=True):
    """The options of the command `calibrate`.

    Attributes:
        labels: path of the CSV file with the labels.
        metric: name of the metric; None if the suite has only one metric with a judge, which is used.
        threshold: lowest passing score that replaces the metric's threshold; None to keep it.
        form: output format of the card.
        output_dir: folder for judge-card.json; None to write no file.
        min_agreement_lower_bound: minimum lower bound of the agreement's confidence interval; None if there is no such
            gate.
        min_kappa_lower_bound: minimum lower bound of the confidence interval of Cohen's κ; None if there is no such
            gate.
    """

    labels: GivenPath
    metric: str | None = None
    threshold: float | None = None
    form: Literal["console", "markdown", "json"] = "console"
    output_dir: GivenPath | None = None
    min_agreement_lower_bound: float | None = None
    min_kappa_lower_bound: float | None = None


def calibrate_judge(values: Mapping[str, Any], caller: Caller) -> int:
    """Compare labels with verdicts from a record, or with verdicts from new judge calls.

    Args:
        values: the command line's values by option.
        caller: receives the card on standard output, and the plan, notes and failed gates on standard error.

    Returns:
        The exit code: 1 if a gate failed; 3 if the judge gave no verdict on a labelled answer; 4 if the budget was used
        up; otherwise 0.

    Raises:
        ConfigurationError: options contradict each other, a file cannot be used, labels do not fit the record, or
            no model can grade.
    """
    options = Calibration(**{field.name: values[field.name] for field in fields(Calibration)})
    suite = flags_from({name: values[name] for name in _SUITE_OPTIONS})
    results = values["results"]
    if results is None:
        return _calibrate_live(options, values, caller)
    of_calls = (name for name in _CALL_OPTIONS if values[name] is not None and values[name] is not False)
    useless = ["SUITE" if name == "suite" else f"--{name.replace('_', '-')}" for name in of_calls]
    useless += [
        flag
        for flag, value in (
            ("--env-file", suite.env_file),
            ("--requirements", suite.requirements),
            ("--allow-path", suite.allow_paths),
            ("--allow-plain-http", suite.allow_plain_http),
            ("--allow-unsafe-forks", suite.allow_unsafe_forks),
        )
        if value
    ]
    if useless:
        names = ", ".join(useless)
        raise ConfigurationError(
            [(f"--results calls no model: leave out {names}, or leave out --results to call the judge")]
        )
    labels = _load_labels(options)
    stored = read_results(results)
    record = stored.record
    matched = match_record(labels, record, options.metric, str(results))
    configuration = record.configurations.get(matched.metric)
    digest = stored.record_digest or record_digest(record)
    return _deliver_card(options, labels, JudgedLabels(matched, None, configuration), digest, caller)


def _calibrate_live(options: Calibration, values: Mapping[str, Any], caller: Caller) -> int:
    from holodeck_action.run.plan import plan_lines

    flags = flags_from({name: value for name, value in values.items() if name in (*_CALL_OPTIONS, *_SUITE_OPTIONS)})
    labels, context = _load_labels(options), caller.suite_context(flags)
    loaded = load_one_suite(values["suite"] or "agent.yaml", context, "calibrate needs a single suite; give one path")
    prepared, labels, metric = prepare_labels(labels, options.metric, options.threshold, loaded)
    if flags.dry_run or prepared.settings.calls.mode != "replay":
        stream = caller.stdout if flags.dry_run else caller.stderr
        stream.writelines(f"{line}\n" for line in plan_lines([[prepared]]))
        stream.flush()
    if flags.dry_run:
        return ExitCode.PASSED
    answered = judge_labels(labels, metric, prepared, caller.stderr)
    return _deliver_card(options, labels, answered, LIVE_SOURCE, caller)


def _load_labels(options: Calibration) -> Labels:
    if options.output_dir is not None:
        ensure_writable(options.output_dir)
    return read_labels(options.labels.path, str(options.labels))


def _now() -> datetime:
    return datetime.now(UTC)


def _deliver_card(options: Calibration, labels: Labels, answered: JudgedLabels, source: str, caller: Caller) -> int:
    """Create the judge card, print it and write its file; return the exit code."""
    card = make_card(
        labels,
        answered.matched,
        options.threshold,
        configuration=answered.configuration,
        source=source,
        created_at=_now().isoformat(),
    )
    stdout, stderr = caller.stdout, caller.stderr
    if labels.unlabelled:
        rows = "1 row has" if labels.unlabelled == 1 else f"{labels.unlabelled} rows have"
        caller.note(f"{labels.file}: {rows} a comment and no label, so nothing to compare")
    if options.form == "json":
        stdout.write(card_json(card).decode())
    else:
        lines = console_lines(card) if options.form == "console" else markdown_lines(card)
        stdout.writelines(f"{line}\n" for line in lines)
    stdout.flush()
    if options.output_dir is not None:
        path = options.output_dir / CARD_FILE
        try:
            write_atomically(path.path, [card_json(card)])
        except OSError as error:
            raise ConfigurationError([f"{path}: cannot be written: {error.strerror}"]) from error
    if answered.stopped is not None:
        stderr.write(f"stopped: {answered.stopped}\n")
        return ExitCode.STOPPED
    if card.missing:
        # Gates are not checked: the agreement is unknown as long as verdicts are missing.
        count = len(card.missing)
        stderr.write(f"incomplete: {count} of {card.n + count} labelled answers were not judged\n")
        return ExitCode.INCOMPLETE
    violated = list(_violations(options, card))
    stderr.writelines(f"violated: {sentence}\n" for sentence in violated)
    return ExitCode.VIOLATED if violated else ExitCode.PASSED


def _violations(options: Calibration, card: JudgeCard) -> Iterator[str]:
    gates: tuple[tuple[str, float | None, Estimate], ...] = (
        ("min-agreement-lower-bound", options.min_agreement_lower_bound, card.judge.agreement),
        ("min-kappa-lower-bound", options.min_kappa_lower_bound, card.judge.kappa),
    )
    for name, least, found in gates:
        if least is None:
            continue
        if found.low is None:
            yield f"{name} {least:g}: there are too few labels for an interval; label more answers, good and bad ones"
        elif found.low < least:
            yield f"{name} is {found.low:.4f}, {least:g} required"
