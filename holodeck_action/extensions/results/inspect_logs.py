"""Reads logs of Inspect: JSON, and the zip file `.eval`."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, field

from holodeck_action.extensions.results.archive import Archive
from holodeck_action.extensions.results.stored import (
    Definition,
    FormatError,
    StoredCase,
    StoredCheck,
    StoredResults,
    StoredTrial,
    scored_check,
)
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text.foreign import Foreign
from holodeck_action.text.plain import one_line

VERSIONS = (2,)
"""The known versions of logs."""
_STATUSES = ("success", "started", "cancelled", "error")
_LETTERS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's letters: correct, partially correct, incorrect, no answer."""
_JUDGE_FAILED = ("grader_failed", "scoring_failed")
"""Reasons of a score that say that the scorer could not work."""
_HEADER, _BEGUN, _SAMPLES = "header.json", "_journal/start.json", "samples/"


class _Revision(Struct, frozen=True):
    commit: str | None = None


class _Dataset(Struct, frozen=True):
    samples: Count | None = None
    ids: Sequence[Any] | None = field(default=None, name="sample_ids")


class _Configuration(Struct, frozen=True):
    epochs: Count | None = None


class _Scorer(Struct, frozen=True):
    name: str


class _Task(Struct, frozen=True):
    task: str
    model: str = ""
    task_file: str | None = None
    dataset: _Dataset | None = None
    config: _Configuration | None = None
    scorers: Sequence[_Scorer] | None = None
    revision: _Revision | None = None
    packages: Mapping[str, Any] | None = None


class _Message(Struct, frozen=True):
    message: str = ""


class _Limit(Struct, frozen=True):
    type: str


class _Score(Struct, frozen=True):
    value: Any
    explanation: str | None = None
    reason: str | None = None


class _Called(Struct, frozen=True):
    id: str
    function: str
    arguments: Mapping[str, Any] | None = None


class _Turn(Struct, frozen=True):
    role: str
    content: Any = None
    calls: Sequence[_Called] | None = field(default=None, name="tool_calls")
    call_id: str | None = field(default=None, name="tool_call_id")
    error: _Message | None = None


class _Choice(Struct, frozen=True):
    message: _Turn
    stop_reason: str | None = None


class _Output(Struct, frozen=True):
    model: str | None = None
    choices: Sequence[_Choice] = ()


class _Usage(Struct, frozen=True):
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read: Count | None = field(default=None, name="input_tokens_cache_read")
    cache_write: Count | None = field(default=None, name="input_tokens_cache_write")
    total_cost: Amount | None = None


class _Sample(Struct, frozen=True):
    id: str | int
    epoch: Count
    input: Any = ""
    target: str | Sequence[str] = ""
    output: _Output | None = None
    messages: Sequence[_Turn] | None = None
    scores: Mapping[str, _Score] | None = None
    usage: Mapping[str, _Usage] | None = field(default=None, name="model_usage")
    started: str | None = field(default=None, name="started_at")
    seconds: Amount | None = field(default=None, name="working_time")
    error: _Message | None = None
    limit: _Limit | None = None
    invalidation: Any = None


class _Stats(Struct, frozen=True):
    completed: str | None = field(default=None, name="completed_at")


class Log(Struct, frozen=True):
    """A log of one task."""

    version: int
    task: _Task = field(name="eval")
    status: str = "started"
    samples: Sequence[_Sample] | None = None
    stats: _Stats | None = None
    error: _Message | None = None


def read_archive(content: Foreign, max_bytes: int) -> Log:
    """Return the log in a zip file; that of a run that never ended has no header.

    Raises:
        ForeignError: the file is not a zip file.
        FormatError: it is not a log, or is damaged.
    """
    archive = Archive(content, max_bytes)
    head = next((name for name in (_HEADER, _BEGUN) if name in archive.names), None)
    if head is None:
        raise FormatError(f"is a zip file without {_HEADER}, so it is not a log of Inspect")
    value = archive.read(head).json_object()
    names = [name for name in archive.names if name.startswith(_SAMPLES)]
    return convert({**value, "samples": [archive.read(name).json() for name in names]}, Log)


def read_log(log: Log, file: str, marks: Mapping[str, float]) -> StoredResults:
    """Return the results of a log.

    Args:
        log: the log.
        file: name of the file, for positions.
        marks: least passing score of a metric, by its name; under the empty name, of all others.

    Raises:
        FormatError: the log has an unknown version or status, or no samples.
    """
    if log.version not in VERSIONS:
        raise FormatError(f"is of version {log.version} of Inspect's logs (known: 2); use another Inspect")
    if log.status not in _STATUSES:
        raise FormatError(f"has the unknown status {one_line(log.status, 60)!r} (known: {', '.join(_STATUSES)})")
    if not log.samples:
        raise FormatError("has no samples: let Inspect keep them (without --no-log-samples), and run the task again")
    task, dataset = log.task, log.task.dataset or _Dataset()
    epochs = (task.config or _Configuration()).epochs or 1
    scorers = [each.name for each in task.scorers or ()]
    groups: dict[str, list[tuple[int, _Sample]]] = {}
    for number, sample in enumerate(log.samples, start=1):
        groups.setdefault(str(sample.id), []).append((number, sample))
    version = str((task.packages or {}).get("inspect_ai", ""))
    ended = "" if log.status == "success" else f"Inspect's log has the status {log.status}"
    return StoredResults(
        program=f"Inspect {version}".strip(),
        suite=task.task,
        target=task.model,
        cases=[_case(task, group, file, epochs, scorers, marks) for group in groups.values()],
        written=(log.stats.completed if log.stats else None) or "",
        commit=None if task.revision is None else task.revision.commit,
        planned=dataset.samples or (len(dataset.ids) if dataset.ids else None),
        stopped=f"{ended}: {one_line(log.error.message, 300)}" if ended and log.error else ended,
    )


def _case(
    task: _Task,
    group: Sequence[tuple[int, _Sample]],
    file: str,
    epochs: int,
    scorers: Sequence[str],
    marks: Mapping[str, float],
) -> StoredCase:
    number, first = group[0]
    question = first.input if isinstance(first.input, str) else _conversation(first.input)
    ordered = sorted((sample for _, sample in group), key=lambda sample: sample.epoch)
    target = first.target if isinstance(first.target, str) else "\n".join(first.target)
    return StoredCase(
        name=f"{task.task}: {first.id}",
        question=question,
        asked=[task.task, str(first.id), question, target],
        source=SourceMark(task.task_file or file, 1 if task.task_file else number, 1 if task.task_file else 0),
        trials=tuple(_trial(sample, scorers, marks) for sample in ordered),
        repeat=max(epochs, len(group)),
        expected=target or None,
        inputs=() if isinstance(first.input, str) else _only_message(convert(first.input, list[_Turn])),
        definition=Definition((glob.escape(task.task_file),), task.task) if task.task_file else None,
    )


def _only_message(turns: Sequence[_Turn]) -> tuple[str, ...]:
    """Return the user's message if there is a single one; a conversation asks more than its last message."""
    found = [_text(turn.content) for turn in turns if turn.role != "system"]
    return tuple(found) if len(found) == 1 else ()


def _conversation(messages: Any) -> str:
    turns = convert(messages, list[_Turn])
    return "\n".join(f"{turn.role}: {_text(turn.content)}" for turn in turns)


def _text(content: Any) -> str:
    """Return the text of a message, whose content is a text or a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _trial(sample: _Sample, scorers: Sequence[str], marks: Mapping[str, float]) -> StoredTrial:
    choices = sample.output.choices if sample.output else ()
    error = "" if sample.error is None else sample.error.message or "the sample ended in an error"
    if sample.invalidation:
        error = error or "the sample was marked as invalid"
    return StoredTrial(
        answer=_text(choices[0].message.content) if choices and not error else None,
        checks=() if error else tuple(_checks(sample, scorers, marks)),
        error=error,
        calls=None if sample.messages is None else tuple(_calls(sample.messages)),
        usage=_usage(sample.usage),
        started=sample.started or "",
        duration_ms=None if sample.seconds is None else 1000 * sample.seconds,
        model=sample.output.model if sample.output else None,
        finish_reason=f"limit: {sample.limit.type}" if sample.limit else choices[0].stop_reason if choices else None,
    )


def _calls(messages: Sequence[_Turn]) -> Iterator[ToolInvocation]:
    answers = {turn.call_id: turn for turn in messages if turn.role == "tool"}
    for call in (call for turn in messages for call in turn.calls or ()):
        answer = answers.get(call.id)
        yield ToolInvocation(
            call.function,
            call.arguments or {},
            None if answer is None else _text(answer.content),
            error=None if answer is None or answer.error is None else answer.error.message,
        )


def _usage(models: Mapping[str, _Usage] | None) -> Usage | None:
    if not models:
        return None
    found = list(models.values())
    costs = [each.total_cost for each in found]
    # Inspect counts cached tokens beside the input.
    prompt = sum(each.input_tokens + (each.cache_read or 0) + (each.cache_write or 0) for each in found)
    cost = None if None in costs else sum(each for each in costs if each is not None)
    return Usage(prompt, sum(each.output_tokens for each in found), cost)


def _checks(sample: _Sample, scorers: Sequence[str], marks: Mapping[str, float]) -> Iterator[StoredCheck]:
    scores = sample.scores or {}
    for name in dict.fromkeys((*scorers, *scores)):
        score = scores.get(name)
        if score is None:
            yield StoredCheck(name, "score", error="Inspect has no score of this sample")
        elif score.reason in _JUDGE_FAILED or score.value is None:
            yield StoredCheck(name, "score", error=score.reason or "Inspect could not score this sample")
        elif isinstance(score.value, dict):
            for part, value in score.value.items():
                yield _check(f"{name}.{part}", value, score.explanation or "", marks)
        else:
            yield _check(name, score.value, score.explanation or "", marks)


def _check(name: str, value: Any, reason: str, marks: Mapping[str, float]) -> StoredCheck:
    mark = marks.get(name, marks.get(""))
    if isinstance(value, bool):
        return StoredCheck(name, "score", value, float(value), reason)
    if isinstance(value, str) and value in _LETTERS:
        return StoredCheck(name, "score", _LETTERS[value] >= (1.0 if mark is None else mark), _LETTERS[value], reason)
    if isinstance(value, int | float):
        return scored_check(name, "score", float(value), reason, marks)
    return StoredCheck(name, "score", reason=one_line(f"{value}: {reason}", 300), asserts=False)
