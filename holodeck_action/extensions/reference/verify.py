"""Implements `verify`, which recomputes the text scores of records with the reference libraries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from msgspec import Struct, field

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.metrics.response_path import ResponsePathError, extract
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.folder import PREVIOUS_FOLDER
from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.record.result_files import read_record
from holodeck_action.record.results_search import find_results
from holodeck_action.run.caller import Caller
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import MASK

TOLERANCE = 1e-12
"""Largest difference between equal scores: the built-in sum of floats differs between versions of Python."""
METRICS = ("bleu", "rouge", "meteor")
_LINE_LIMIT = 1000
"""Maximum characters of a line, since names and numbers come from a file."""


class _Tally(Struct):
    """Counts of a record's recomputed scores.

    Attributes:
        equal: number of scores that equal the recorded ones.
        redacted: number of scores that cannot be recomputed because their texts were redacted.
        different: descriptions of the scores that differ.
    """

    equal: int = 0
    redacted: int = 0
    different: list[str] = field(default_factory=list)


class _Score(Struct, frozen=True):
    """The recorded numbers of one text metric on one turn, by name, with the metric's settings."""

    name: str
    settings: Mapping[str, Any]
    numbers: Mapping[str, Any]


def verify_scores(paths: Sequence[GivenPath], caller: Caller) -> int:
    """Recompute every BLEU, ROUGE and METEOR score of records, and print each one that differs.

    Args:
        paths: results files, or folders that are searched for them recursively.
        caller: receives the differences, and a sentence for each record, on standard output.

    Returns:
        0 if all recomputed scores are equal, and in each record with text scores at least one could be recomputed, else
        1.

    Raises:
        ConfigurationError: there is no record, a record is invalid, no record has text scores, or the libraries are not
            installed.
    """
    files = [file for path in paths for file in find_results(path, (PREVIOUS_FOLDER,))]
    records = [(file, read_record(file)) for file in files]
    if not any(_scores_of(turn) for _, record in records for _, turn in _named_turns(record)):
        shown = ", ".join(str(file) for file in files[:3]) + (", …" if len(files) > 3 else "")
        raise ConfigurationError([f"{shown}: no score of {', '.join(METRICS[:-1])} or {METRICS[-1]} to verify"])
    libraries = _libraries()
    tallies = [_write_result(file, _compare_record(record), libraries, caller.stdout) for file, record in records]
    return ExitCode.PASSED if all(tallies) else ExitCode.VIOLATED


def _libraries() -> Sequence[str]:
    try:
        from holodeck_action.extensions.reference.reference import LIBRARIES
    except ImportError as error:
        raise ConfigurationError(
            [f"verify: the reference libraries are not installed ({error.name or error}); {way_to_get('reference')}"]
        ) from error
    return LIBRARIES


def _write_result(file: GivenPath, tally: _Tally, libraries: Sequence[str], stdout: TextIO) -> bool:
    """Print the differences and counts of a record; return False if a score differs, or if all texts were redacted."""
    shown = one_line(str(file), _LINE_LIMIT)
    for sentence in tally.different:
        stdout.write(f"✗ {shown}: {sentence}\n")
    computed = tally.equal + len(tally.different)
    all_equal = not tally.different and (computed > 0 or not tally.redacted)
    counts = f"{tally.equal} of {computed} text scores equal those of {', '.join(libraries)}"
    if not computed:
        counts = "no text score could be verified" if tally.redacted else "no text scores"
    if tally.redacted:
        counts += f"; {tally.redacted} skipped: secrets were taken out of their texts ({MASK})"
    stdout.write(f"{'✓' if all_equal else '✗'} {shown}: {counts}\n")
    return all_equal


def _named_turns(record: Record) -> Iterator[tuple[str, TurnRecord]]:
    for case in record.cases:
        for trial in case.trials:
            for turn in trial.turns:
                yield f"case {case.id}, trial {trial.index + 1}, turn {turn.index + 1}", turn


def _compare_record(record: Record) -> _Tally:
    tally = _Tally()
    for place, turn in _named_turns(record):
        for score in _scores_of(turn):
            if MASK in (turn.response or "") or MASK in (turn.ground_truth or ""):
                tally.redacted += 1
            elif sentence := _differences(score, turn):
                tally.different.append(one_line(f"{place}, metric {score.name}: {sentence}", _LINE_LIMIT))
            else:
                tally.equal += 1
    return tally


def _scores_of(turn: TurnRecord) -> list[_Score]:
    """Return the scores of a turn's text metrics, including those within composite metrics."""
    found: list[_Score] = []
    for evaluation in turn.evaluations:
        criteria = evaluation.criteria
        if evaluation.status != "completed":
            continue
        if criteria.kind == "standard" and criteria.metric in METRICS:
            numbers = {**evaluation.metadata, "score": evaluation.score}
            found.append(_Score(evaluation.evaluator_name, {**criteria.settings, "metric": criteria.metric}, numbers))
        elif criteria.kind == "composite":
            found += _composite_scores(evaluation)
    return found


def _composite_scores(composite: Evaluation) -> Iterator[_Score]:
    """Yield the scores of the text metrics in a composite metric.

    Its metadata has the results of the metrics in the order of the composite's settings.
    """
    settings_of_all, numbers_of_all = composite.criteria.settings.get("metrics"), composite.metadata.get("metrics")
    if not isinstance(settings_of_all, list) or not isinstance(numbers_of_all, Mapping):
        return
    enabled = (each for each in settings_of_all if isinstance(each, Mapping) and each.get("enabled", True))
    for settings, (name, numbers) in zip(enabled, numbers_of_all.items(), strict=False):
        if settings.get("metric") in METRICS and isinstance(numbers, Mapping) and numbers.get("score") is not None:
            yield _Score(f"{composite.evaluator_name}, {name}", settings, numbers)


def _differences(score: _Score, turn: TurnRecord) -> str:
    """Return the recorded and recomputed numbers that differ, as text; empty if all are equal."""
    if turn.response is None or turn.ground_truth is None:
        missing = "response" if turn.response is None else "ground_truth"
        return f"recorded {score.numbers['score']!r}, but the turn has no {missing}"
    try:
        expected = _recompute(score.settings, turn.response, score.numbers.get("reference", turn.ground_truth))
    except (KeyError, TypeError, ValueError):
        return f"recorded {score.numbers['score']!r}, with settings that do not fit the metric"
    wrong = [
        f"{'' if name == 'score' else f'{name} '}recorded {score.numbers.get(name)!r}, computed {number!r}"
        for name, number in expected.items()
        if not _is_equal(score.numbers.get(name), number)
    ]
    return "; ".join(wrong)


def _recompute(settings: Mapping[str, Any], response: str, reference: str) -> Mapping[str, float]:
    from holodeck_action.extensions.reference.reference import reference_scores

    path = settings.get("response_path")
    if path is not None:
        try:
            response = extract(response, path)
        except ResponsePathError:
            return {"score": 0.0}
    options = {name: settings[name] for name in ("variant", "use_stemmer") if name in settings}
    return reference_scores(settings["metric"], response, reference, **options)


def _is_equal(recorded: Any, computed: float) -> bool:
    return type(recorded) in (int, float) and math.isclose(recorded, computed, rel_tol=0.0, abs_tol=TOLERANCE)
