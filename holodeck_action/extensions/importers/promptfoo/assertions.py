"""What each assertion of promptfoo becomes: a metric, a grader, or nothing, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.accounting import Outcome
from holodeck_action.extensions.importers.grader_file import Became, Check
from holodeck_action.extensions.importers.promptfoo import codes, judged, toolchecks
from holodeck_action.extensions.importers.promptfoo.patterns import python_pattern
from holodeck_action.extensions.importers.promptfoo.rows import listed, number_in
from holodeck_action.extensions.importers.promptfoo.schemas import NeverPassesError, python_schema
from holodeck_action.extensions.importers.promptfoo.templates import Templates, script_text, string_of
from holodeck_action.extensions.importers.promptfoo.tests import Test, Written
from holodeck_action.extensions.importers.source import Source, UnfitError, json_problem, plain
from holodeck_action.extensions.importers.written import has_variable

_TEXT_VALUES = ("starts-with", "regex", "levenshtein")
"""Assertions whose value must be a text; a number will not do."""


class BecameAssertion(Became, frozen=True):
    """What an assertion is here.

    Attributes:
        turn: fields that the turn must have for it, such as `ground_truth`.
        latency_ms: the time within which the answer must come, where that is the assertion.
    """

    turn: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: float | None = None


class Assertion(Struct, frozen=True):
    """One assertion of one case, read."""

    source: Source
    templates: Templates
    test: Test
    written: Written
    value: Any
    threshold: float | None
    negated: bool
    kind: str
    prompt: str

    @property
    def stem(self) -> str:
        """Name of its function."""
        start = "" if self.written.place.file == self.source.name else f"{_slug(self.written.place.file)}_"
        return f"{start}line_{self.written.place.line}_{_slug(str(self.written.data['type']))}".lstrip("0123456789_")

    @property
    def told(self) -> str:
        """Where it stands, and its type."""
        return f"{self.written.place.exact}: {self.written.data['type']}"

    @property
    def config(self) -> Any:
        """What its code gets as `context.config`."""
        return plain(self.written.data.get("config"))

    def texts(self) -> list[str]:
        """Return the value as a list of texts: a list, or a text separated by commas.

        Raises:
            NeverPassesError: it is neither.
            UnfitError: it is an empty list, which decides nothing.
        """
        value = self.value
        if value is None or value is False or value in ("", 0):
            raise NeverPassesError("it has no value")
        try:
            value = listed(value) if isinstance(value, str) else value
        except UnfitError as error:
            raise NeverPassesError(str(error)) from None
        if not isinstance(value, list):
            raise NeverPassesError("its value is no list of texts")
        if not value:
            raise UnfitError("its list of texts is empty")
        return [string_of(item) for item in value]

    def text(self) -> str:
        """Return the value as a text.

        Raises:
            NeverPassesError: it is none.
        """
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if self.kind == "levenshtein" and self.value == "":
            return ""
        if not self.value and not number:
            raise NeverPassesError("it has no value")
        if not isinstance(self.value, str) and (not number or self.kind in _TEXT_VALUES):
            raise NeverPassesError(f"its value is no text{'' if number else ' and no number'}; write it in quotes")
        return script_text(self.value)

    def at_least(self, default: float) -> float:
        """Return the threshold, or what it is without one."""
        return default if self.threshold is None else self.threshold

    def check(self, function: str, value: Any, **settings: Any) -> BecameAssertion:
        """Return a check of this assertion.

        Raises:
            UnfitError: the value holds an environment variable, which graders do not get, or what JSON does not have.
        """
        if has_variable(value) or has_variable(settings):
            raise UnfitError("it compares with an environment variable; read it in a grader of your own")
        problem = json_problem([value, settings])
        if problem:
            raise UnfitError(f"its value {problem}")
        negated = settings.pop("negated", self.negated)
        made = Check(self.stem, self.told, function, value, negated=negated, **settings)
        return BecameAssertion(Outcome.GRADER, check=made)


def become(
    source: Source, templates: Templates, test: Test, written: Written, prompt: str, *, only_check: bool
) -> BecameAssertion:
    """Translate an assertion.

    Args:
        source: the imported file.
        templates: renders its texts.
        test: the case that has it.
        written: the assertion.
        prompt: what the case asks.
        only_check: whether a metric is of no use, because its score belongs to a weighted mean.
    """
    read = None
    try:
        read = _read(source, templates, test, written, prompt)
        if not only_check and read.kind == "equals" and not read.negated and _is_ground_truth(read.value):
            metric = {"type": "standard", "metric": "equality"}
            return BecameAssertion(Outcome.METRIC, "equality", metric, turn={"ground_truth": read.value})
        if read.kind in CHECKS:
            return CHECKS[read.kind](read)
        if read.kind in judged.TYPES:
            if only_check:
                raise UnfitError("a judge's score in a weighted mean; give it a threshold of its own")
            return _judged(read)
        if read.kind == "latency" and not read.negated and read.threshold and not only_check:
            return BecameAssertion(Outcome.METRIC, "limits.turn_timeout_s", latency_ms=read.threshold)
        raise UnfitError(HINTS.get(read.kind, "an unknown type of assertion; write a code grader"))
    except NeverPassesError as error:
        if read is None:
            return BecameAssertion(Outcome.MISSING, note=str(error))
        note = f"{error}: promptfoo ends the case with an error, and it fails here, too"
        check = Check(read.stem, read.told, REFUSED, str(error))
        return BecameAssertion(Outcome.GRADER, check=check, note=note)
    except UnfitError as error:
        return BecameAssertion(Outcome.MISSING, note=str(error))


REFUSED = "refused"
"""The check that no answer passes."""


def _is_ground_truth(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not has_variable(value)


def _judged(read: Assertion) -> BecameAssertion:
    question = judged.Question(read.kind, read.value, read.threshold, read.negated, read.test, read.written)
    metric, turn, note = judged.metric(question)
    name = str(metric.get("metric_type") or metric.get("metric") or metric["type"])
    return BecameAssertion(Outcome.SIMILAR, name, metric, note=note, turn=turn)


def _read(source: Source, templates: Templates, test: Test, written: Written, prompt: str) -> Assertion:
    data = written.data
    if data.get("problem"):
        raise UnfitError(str(data["problem"]))
    kind = str(data.get("type") or "")
    negated = kind.startswith("not-")
    kind = kind.removeprefix("not-")
    for key in ("transform", "contextTransform"):
        if data.get(key):
            raise UnfitError(f"it has a {key}; let the agent return that part, or write a code grader")
    if test.options.get("transform") or test.options.get("postprocess"):
        raise UnfitError("the answer is transformed first (options.transform); let the agent return the result")
    threshold = data.get("threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | None):
        raise UnfitError("its threshold is no number, which promptfoo refuses, too")
    if threshold is None and "threshold" in data and kind in ("javascript", "python"):
        raise UnfitError("its threshold is null; write a number")
    if "weight" in data and (isinstance(data["weight"], bool) or not isinstance(data["weight"], int | float)):
        raise UnfitError("its weight is no number, which promptfoo refuses, too")
    value = plain(data.get("value"))
    if kind not in ("javascript", "python"):
        value = _value(source, templates, value, test.variables)
    return Assertion(source, templates, test, written, value, threshold, negated, kind, prompt)


def _value(source: Source, templates: Templates, value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_value(source, templates, item, variables) if isinstance(item, str) else item for item in value]
    if not isinstance(value, str):
        return value
    if not value.startswith("file://"):
        return templates.render(value, variables)
    path = source.named(value.removeprefix("file://"))
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml", ".json"):
        return plain(source.data(path))
    if kind == ".txt":
        return source.text(path).strip()
    raise UnfitError(f"its value comes from the code of {source.relative(path)}; write a code grader")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower().removesuffix(".yaml")).strip("_")


def _equals(read: Assertion) -> BecameAssertion:
    if read.value is None and "value" not in read.written.data:
        raise UnfitError("it has no value")
    if read.value is None or isinstance(read.value, dict | list):
        return read.check("equals_json", read.value)
    return read.check("equals", script_text(read.value))


def _of_text(function: str) -> Callable[[Assertion], BecameAssertion]:
    return lambda read: read.check(function, read.text())


def _of_texts(function: str) -> Callable[[Assertion], BecameAssertion]:
    return lambda read: read.check(function, read.texts())


def _regex(read: Assertion) -> BecameAssertion:
    pattern = read.text()
    try:
        return read.check("regex", python_pattern(pattern))
    except UnfitError as error:
        if not read.source.node:
            raise UnfitError(f"{error}, or import and run where Node.js is") from None
        code = "new RegExp(context.config.pattern).test(output)"
        made = read.check("javascript", {"code": code, "config": {"pattern": pattern}})
        note = f"runs in Node.js, without which the case fails: {error}"
        return BecameAssertion(made.outcome, check=made.check, note=note)


def _word_count(read: Assertion) -> BecameAssertion:
    value = read.value
    if not isinstance(value, dict):
        number = _number(value)
        if number is None:
            raise NeverPassesError("its value is no number of words")
        return read.check("word_count", {"min": number, "max": number})
    bounds = {key: _number(value[key]) for key in ("min", "max") if key in value}
    if not bounds:
        raise NeverPassesError("its value has neither min nor max")
    if None in bounds.values():
        raise UnfitError("a bound of its value is no number")
    if len(bounds) == 2 and bounds["min"] > bounds["max"]:  # type: ignore[operator]  # neither is None
        raise NeverPassesError("its min is greater than its max")
    return read.check("word_count", bounds)


def _number(value: Any) -> float | None:
    """Return a number, or that of a text; None for what JavaScript may read in another way."""
    if isinstance(value, str):
        return number_in(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _json(read: Assertion) -> BecameAssertion:
    contained = read.kind == "contains-json"
    function = read.kind.replace("-", "_")
    if contained and read.negated:
        function = "contains_no_json"
    schema = read.value
    if isinstance(schema, str) and schema:
        schema = plain(read.source.parse(schema, "its schema"))
    elif schema is None or schema is False or schema in ("", 0):
        schema = None
    notes = [_CONTAINS_JSON] if contained else []
    if schema is not None or read.value:
        schema = python_schema(schema)
        notes.append("needs the package jsonschema where graders run")
    made = read.check(function, schema, negated=read.negated and not contained)
    outcome = Outcome.SIMILAR if contained else Outcome.GRADER
    return BecameAssertion(outcome, check=made.check, note="; ".join(notes))


def _scored(function: str, default: float) -> Callable[[Assertion], BecameAssertion]:
    def of(read: Assertion) -> BecameAssertion:
        value = read.value if isinstance(read.value, list) else [read.value]
        if not all(isinstance(item, str) for item in value):
            raise NeverPassesError("its value is no text")
        if not value:
            raise UnfitError("its list of texts is empty")
        return read.check(function, value, threshold=read.at_least(default))

    return of


def _levenshtein(read: Assertion) -> BecameAssertion:
    return read.check("levenshtein", read.text(), options={"most": read.at_least(5)})


def _tools(read: Assertion) -> BecameAssertion:
    function, value, threshold = toolchecks.check(read.kind, read.value, read.threshold, negated=read.negated)
    # Negating a list of tools forbids each of them, which is a check of its own.
    negated = read.negated and function != "tools_unused"
    return read.check(function, value, threshold=threshold, negated=negated)


def _code(read: Assertion) -> BecameAssertion:
    written = read.written.data.get("value")
    found = codes.code(read.source, read.templates, read.kind, written, read.test.variables, read.config)
    if found.body:
        return read.check("", found.value, code=found.body, threshold=read.threshold)
    value = found.value
    if read.kind == "python" and read.threshold is not None:
        value = {**value, "least": read.threshold}
    made = read.check(found.function, value, threshold=read.threshold)
    return BecameAssertion(made.outcome, check=made.check, note=found.note)


_CONTAINS_JSON = "finds objects in JSON's own notation only"

CHECKS: Mapping[str, Callable[[Assertion], BecameAssertion]] = {
    "equals": _equals,
    "contains": _of_text("contains"),
    "icontains": _of_text("icontains"),
    "contains-any": _of_texts("contains_any"),
    "icontains-any": _of_texts("icontains_any"),
    "contains-all": _of_texts("contains_all"),
    "icontains-all": _of_texts("icontains_all"),
    "starts-with": _of_text("starts_with"),
    "regex": _regex,
    "word-count": _word_count,
    "is-json": _json,
    "contains-json": _json,
    "levenshtein": _levenshtein,
    "bleu": _scored("bleu", 0.5),
    "gleu": _scored("gleu", 0.5),
    **dict.fromkeys(toolchecks.TYPES, _tools),
    "javascript": _code,
    "python": _code,
}

_OUTPUT = "the answer of a model here is text, and its calls are tool calls; use expected_tools with args"
_COMPARE = "it compares several agents in one case; compare two runs with --against"
_FORMAT = "no check of this notation; write a code grader"
_TRACE = "graders see no spans; use expected_tools, or limits and gates of the policy file"
_SEARCH = "the judge would have to use tools; state the facts as ground_truth and use factual_accuracy"

HINTS: Mapping[str, str] = {
    "agent-rubric": _SEARCH,
    "classifier": "no classifier is called; use toxicity, a geval metric or a code grader",
    "contains-html": _FORMAT,
    "contains-sql": _FORMAT,
    "contains-xml": _FORMAT,
    "conversation-relevance": "no metric grades a conversation so; use a geval metric on its last turn",
    "cost": "costs are limited for a whole run: gates.max_cost_usd of the policy file",
    "finish-reason": "reports show answers that were cut off, and no metric asserts it",
    "guardrails": "the reply has no field for it; use toxicity or refusal",
    "is-html": _FORMAT,
    "is-sql": _FORMAT,
    "is-valid-function-call": _OUTPUT,
    "is-valid-openai-function-call": _OUTPUT,
    "is-valid-openai-tools-call": _OUTPUT,
    "is-xml": _FORMAT,
    "latency": "a limit for single cases, or one without a number; set limits.turn_timeout_s of the policy file",
    "max-score": _COMPARE,
    "moderation": "no moderation service is called; use toxicity",
    "perplexity": "log probabilities of answers are not recorded",
    "perplexity-score": "log probabilities of answers are not recorded",
    "pi": "its service is not called; use a geval metric",
    "ruby": "Ruby is not run; write a code grader in Python",
    "search-rubric": _SEARCH,
    "select-best": _COMPARE,
    "similar": "no metric compares embeddings; use meteor, rouge or a geval metric",
    "similar:cosine": "no metric compares embeddings; use meteor, rouge or a geval metric",
    "similar:dot": "no metric compares embeddings; use meteor, rouge or a geval metric",
    "similar:euclidean": "no metric compares embeddings; use meteor, rouge or a geval metric",
    "skill-used": _TRACE,
    "trace-error-spans": _TRACE,
    "trace-span-count": _TRACE,
    "trace-span-duration": _TRACE,
    "trajectory:goal-success": "use trajectory_accuracy, or a geval metric on the answer",
    "video-rubric": "answers are text",
    "webhook": "no service is asked for a verdict; call it in a code grader",
}

TYPES = frozenset((*CHECKS, *judged.TYPES, *HINTS))
"""Names of all known types of assertions, without `not-`."""
