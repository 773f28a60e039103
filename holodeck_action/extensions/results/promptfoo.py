"""Reads results of promptfoo: the JSON document of `-o FILE.json`, and the rows of `-o FILE.jsonl`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert, field

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
from holodeck_action.record.serialization import to_plain
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.identity import canonical_json

VERSIONS = (3,)
"""The versions of the document that are known."""
_NO_FAILURE, _ASSERTION, _ERROR = 0, 1, 2
"""The values of `failureReason`."""
_CONFIGURATIONS = tuple(
    f"{'*/' * depth}promptfooconfig.{suffix}" for depth in range(4) for suffix in ("yaml", "yml", "json")
)
"""Patterns of configurations; the results do not name theirs."""
_THREW = (
    "Custom function threw error",
    "Python code execution failed",
    "Ruby code execution failed",
    "Webhook error",
    "Could not perform remote grading",
    "Moderation API error",
    "Error parsing output",
    "No output",
    "API error",
    "Could not extract JSON from",
    "Some grading calls failed",
)
"""How the reasons of assertions begin that could not be evaluated, in versions that do not mark them."""


class _Assertion(Struct, frozen=True):
    type: str = ""
    value: Any = None
    threshold: float | None = None
    weight: float | None = None
    metric: str | None = None
    provider: Any = None


class _Graded(Struct, frozen=True):
    passed: bool = field(name="pass")
    score: float
    reason: str | None = ""
    assertion: _Assertion | None = None
    metadata: Mapping[str, Any] | None = None


class _Grading(Struct, frozen=True):
    passed: bool = field(name="pass")
    score: float
    reason: str | None = ""
    components: Sequence[_Graded | None] | None = field(default=None, name="componentResults")


class _Tokens(Struct, frozen=True):
    prompt: Count | None = None
    completion: Count | None = None
    cached: Count | None = None
    total: Count | None = None


class _Response(Struct, frozen=True):
    output: Any = None
    error: str | None = None
    cached: bool | None = None
    cost: Amount | None = None
    tokens: _Tokens | None = field(default=None, name="tokenUsage")
    finish_reason: str | None = field(default=None, name="finishReason")


class _Test(Struct, frozen=True):
    description: str | None = None
    vars: Mapping[str, Any] | None = None
    asserts: Sequence[Any] | None = field(default=None, name="assert")
    threshold: float | None = None


class _Provider(Struct, frozen=True):
    id: str = ""
    label: str | None = None


class _Prompt(Struct, frozen=True):
    raw: str = ""
    label: str = ""


class Row(Struct, frozen=True):
    """A row of the results: one answer."""

    test_index: Count = field(name="testIdx")
    prompt_index: Count = field(name="promptIdx")
    success: bool
    score: float
    failure: int = field(name="failureReason")
    raw_test: Mapping[str, Any] = field(name="testCase")
    provider: _Provider | None = None
    prompt: _Prompt | None = None
    response: _Response | None = None
    grading: _Grading | None = field(default=None, name="gradingResult")
    error: str | None = None
    latency_ms: Amount | None = field(default=None, name="latencyMs")
    cost: Amount | None = None
    incurred_cost: Amount | None = field(default=None, name="incurredCost")

    @property
    def test(self) -> _Test:
        """The test, without what decides nothing here."""
        return convert(self.raw_test, _Test)

    @property
    def arm(self) -> tuple[str, str]:
        """What answered: the provider, and the prompt's label."""
        provider, prompt = self.provider or _Provider(), self.prompt or _Prompt()
        return provider.label or provider.id, prompt.label


class _Stats(Struct, frozen=True):
    successes: Count
    failures: Count
    errors: Count


class _Results(Struct, frozen=True):
    version: int
    rows: Sequence[Row] = field(name="results")
    timestamp: str = ""
    prompts: Sequence[Any] | None = None
    stats: _Stats | None = None


class _Options(Struct, frozen=True):
    repeat: Count | None = None


class _Configuration(Struct, frozen=True):
    description: str | None = None
    tests: Any = None
    options: _Options | None = field(default=None, name="evaluateOptions")


class _About(Struct, frozen=True):
    version: str = field(default="", name="promptfooVersion")
    exported: str = field(default="", name="exportedAt")


class Document(Struct, frozen=True):
    """The document that promptfoo writes."""

    results: _Results
    config: _Configuration | None = None
    metadata: _About | None = None
    runtime: _Options | None = field(default=None, name="runtimeOptions")


def read_document(document: Document, file: str) -> StoredResults:
    """Return the results of a document.

    Raises:
        FormatError: the document has an unknown version or status, or lacks rows.
    """
    results, config = document.results, document.config or _Configuration()
    if results.version not in VERSIONS:
        raise FormatError(f"is of version {results.version} of promptfoo's format (known: 3); use another promptfoo")
    counted = results.stats
    if counted is not None and counted.successes + counted.failures + counted.errors != len(results.rows):
        total = counted.successes + counted.failures + counted.errors
        raise FormatError(f"is incomplete: it counts {total} rows, and holds {len(results.rows)}")
    repeat = next((each.repeat for each in (document.runtime, config.options) if each and each.repeat), None)
    about = document.metadata or _About()
    tests = config.tests
    planned = None
    if isinstance(tests, list) and all(isinstance(test, dict) for test in tests) and results.prompts:
        planned = len({canonical_json(test) for test in tests}) * len(results.prompts)
    return _results(results.rows, file, about, config.description or "", repeat, planned, results.timestamp)


def read_rows(rows: Sequence[Row], file: str) -> StoredResults:
    """Return the results of rows, which do not say how many there should be.

    Raises:
        FormatError: a row has an unknown status.
    """
    return _results(rows, file, _About(), "", None, None, "")


def _results(
    rows: Sequence[Row],
    file: str,
    about: _About,
    suite: str,
    repeat: int | None,
    planned: int | None,
    written: str,
) -> StoredResults:
    arms = {row.arm for row in rows}
    groups: dict[bytes, list[tuple[int, Row]]] = {}
    for number, row in enumerate(rows, start=1):
        # Each repetition has another index: only the test itself is the same.
        groups.setdefault(canonical_json([row.raw_test, row.arm]), []).append((number, row))
    cases = tuple(
        _case(group, SourceMark(file, group[0][0], 0), repeat, with_arm=len(arms) > 1) for group in groups.values()
    )
    cached = sum(trial.cached for case in cases for trial in case.trials)
    return StoredResults(
        program=f"promptfoo {about.version}".strip(),
        suite=suite,
        target=", ".join(sorted({provider for provider, _ in arms})),
        cases=cases,
        written=about.exported or written,
        planned=planned,
        terms_known=True,
        notices=(
            (f"{cached} of {len(rows)} answers are from promptfoo's cache: they are no new evidence",) if cached else ()
        ),
    )


def _case(group: Sequence[tuple[int, Row]], source: SourceMark, repeat: int | None, *, with_arm: bool) -> StoredCase:
    _, first = group[0]
    provider, prompt = first.arm
    name, given = first.test.description, dict(first.test.vars or {})
    if with_arm:
        name = f"{name or _question(first)} ({provider}, {prompt})"
    return StoredCase(
        name=name,
        question=_question(first),
        asked=[given, "" if first.prompt is None else first.prompt.raw, *first.arm],
        source=source,
        trials=tuple(_trial(number, row) for number, row in group),
        # Equal tests of a suite are more trials of one case.
        repeat=max(len(group), repeat or 1),
        # A prompt around a single variable asks what the variable has.
        inputs=tuple(value for value in given.values() if isinstance(value, str)) if len(given) == 1 else (),
        definition=Definition(_CONFIGURATIONS, test={"description": first.test.description, "vars": given}),
    )


def _question(row: Row) -> str:
    raw = "" if row.prompt is None else row.prompt.raw
    return raw or canonical_json(dict(row.test.vars or {})).decode("utf-8", "replace")


def _trial(number: int, row: Row) -> StoredTrial:
    if row.failure not in (_NO_FAILURE, _ASSERTION, _ERROR):
        raise FormatError(f"row {number}: has the unknown failureReason {row.failure} (known: 0, 1, 2)")
    if row.success and row.failure != _NO_FAILURE:
        raise FormatError(f"row {number}: contradicts itself: success with failureReason {row.failure}")
    response = row.response or _Response()
    error = response.error or ""
    if row.failure == _ERROR:
        error = row.error or error or "promptfoo reports an error without a message"
    tokens = response.tokens or _Tokens()
    cost = row.incurred_cost if row.incurred_cost is not None else row.cost
    output = response.output
    known = output is not None and not error
    return StoredTrial(
        answer=None if not known else output if isinstance(output, str) else canonical_json(output).decode(),
        checks=() if error else tuple(_checks(row)),
        error=error,
        usage=Usage(tokens.prompt, tokens.completion, cost),
        duration_ms=row.latency_ms,
        finish_reason=response.finish_reason,
        metadata={"promptfoo": {"success": row.success, "score": row.score}},
        cached=bool(response.cached),
    )


def _checks(row: Row) -> Iterator[StoredCheck]:
    """Yield the assertions of a row, then promptfoo's own verdict; nothing if there are no assertions."""
    graded = [each for each in ((row.grading and row.grading.components) or ()) if each is not None]
    taken: dict[str, int] = {}
    found = [_check(each, taken) for each in graded]
    if not found and not row.test.asserts:
        return
    yield from found
    errors = [each.error for each in found if each.error]
    failed = any(each.passed is False and each.asserts for each in found)
    unknown = errors[0] if errors and not failed else "" if found else "promptfoo lists no result of its assertions"
    yield StoredCheck(
        name="promptfoo's verdict",
        kind="verdict",
        passed=None if unknown else row.success,
        score=unit_score(row.score),
        reason="" if row.success else "promptfoo failed the test",
        error=unknown,
        settings={} if row.test.threshold is None else {"threshold": row.test.threshold},
    )


def _check(graded: _Graded, taken: dict[str, int]) -> StoredCheck:
    assertion = graded.assertion or _Assertion("assert-set")
    label = assertion.metric or assertion.type
    taken[label] = taken.get(label, 0) + 1
    reason = graded.reason or ""
    threw = bool(graded.metadata and graded.metadata.get("graderError")) or reason.startswith(_THREW)
    settings = {name: value for name, value in to_plain(assertion).items() if value is not None and name != "metric"}
    return StoredCheck(
        name=label if taken[label] == 1 else f"{label} {taken[label]}",
        kind=assertion.type,
        passed=None if threw else graded.passed,
        score=None if threw else unit_score(graded.score),
        reason="" if threw else reason,
        error=(reason.partition("\n")[0] or "its grader failed") if threw else "",
        # promptfoo lets an assertion of weight 0 pass always.
        asserts=assertion.weight != 0,
        settings=settings,
    )
