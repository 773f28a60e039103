"""Converts promptfoo's assertions to metrics or graders, or gives the reason why an assertion has no counterpart."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from holodeck_action.extensions.importers.converted_suite import has_variable
from holodeck_action.extensions.importers.grader_file import Check, Counterpart
from holodeck_action.extensions.importers.import_report import Outcome
from holodeck_action.extensions.importers.promptfoo import codes, judged, toolchecks
from holodeck_action.extensions.importers.promptfoo.hints import HINTS
from holodeck_action.extensions.importers.promptfoo.patterns import metric_pattern, python_pattern
from holodeck_action.extensions.importers.promptfoo.rows import LISTS, number_in, split_list
from holodeck_action.extensions.importers.promptfoo.schemas import NeverPassesError, python_schema
from holodeck_action.extensions.importers.promptfoo.templates import Templates, script_text, string_of
from holodeck_action.extensions.importers.promptfoo.tests import Test, WrittenAssertion
from holodeck_action.extensions.importers.source import Source, UnfitError, json_problem, plain
from holodeck_action.suite.model.patterns import pattern_problem

_TEXT_VALUES = ("starts-with", "regex", "levenshtein")
"""Assertions whose value must be a string: a number is an error."""


class AssertionCounterpart(Counterpart, frozen=True):
    """The metric or grader that replaces an assertion.

    Attributes:
        turn: fields to add to the turn, such as `ground_truth`.
        latency_ms: limit of the answer's latency in milliseconds; None if the assertion sets no limit.
        expect: the metric as an entry of `expect`; None if it cannot be written there.
    """

    turn: Mapping[str, Any] = field(default_factory=dict)
    latency_ms: float | None = None
    expect: Mapping[str, Any] | None = None


class Assertion(Struct, frozen=True):
    """One assertion of one case, with rendered templates."""

    source: Source
    templates: Templates
    test: Test
    written: WrittenAssertion
    value: Any
    threshold: float | None
    negated: bool
    kind: str
    prompt: str

    @property
    def stem(self) -> str:
        """The preferred name of the grader's function."""
        start = "" if self.written.place.file == self.source.name else f"{_slug(self.written.place.file)}_"
        return f"{start}line_{self.written.place.line}_{_slug(str(self.written.data['type']))}".lstrip("0123456789_")

    @property
    def description(self) -> str:
        """The assertion's position and type."""
        return f"{self.written.place.exact}: {self.written.data['type']}"

    @property
    def config(self) -> Any:
        """The value of `context.config` that the assertion's code receives."""
        return plain(self.written.data.get("config"))

    def texts(self) -> list[str]:
        """Return the assertion's value as a list of strings; a string is split at commas.

        Raises:
            NeverPassesError: the value is neither a list nor a string.
            UnfitError: the list is empty.
        """
        value = self.value
        if value is None or value is False or value in ("", 0):
            raise NeverPassesError("it has no value")
        try:
            value = split_list(value) if isinstance(value, str) else value
        except UnfitError as error:
            raise NeverPassesError(str(error)) from None
        if not isinstance(value, list):
            raise NeverPassesError("its value is not a list of strings")
        if not value:
            raise UnfitError("its list of strings is empty")
        return [string_of(item) for item in value]

    def text(self) -> str:
        """Return the assertion's value as a string.

        Raises:
            NeverPassesError: the value is not a valid string.
        """
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if self.kind == "levenshtein" and self.value == "":
            return ""
        if not self.value and not number:
            raise NeverPassesError("it has no value")
        if not isinstance(self.value, str) and (not number or self.kind in _TEXT_VALUES):
            raise NeverPassesError(f"its value is not a string{'' if number else ' or a number'}; write it in quotes")
        return script_text(self.value)

    def threshold_or(self, default: float) -> float:
        """Return the assertion's threshold, or `default` if it has no threshold."""
        return default if self.threshold is None else self.threshold

    def as_check(self, function: str, value: Any, **settings: Any) -> AssertionCounterpart:
        """Return a grader for this assertion that calls `function` with `value`.

        Raises:
            UnfitError: the value contains an environment variable, which graders do not get, or cannot be written as
                JSON.
        """
        if has_variable(value) or has_variable(settings):
            raise UnfitError("it compares with an environment variable; read the variable in your own grader")
        problem = json_problem([value, settings])
        if problem:
            raise UnfitError(f"its value {problem}")
        negated = settings.pop("negated", self.negated)
        made = Check(self.stem, self.description, function, value, negated=negated, **settings)
        return AssertionCounterpart(Outcome.GRADER, check=made)


def convert_assertion(
    source: Source, templates: Templates, test: Test, entry: WrittenAssertion, prompt: str, *, is_only_check: bool
) -> AssertionCounterpart:
    """Convert an assertion of a case to a metric or grader.

    Args:
        source: the imported file.
        templates: renders the assertion's templates.
        test: case that contains the assertion.
        entry: the assertion as in the configuration.
        prompt: prompt of the case.
        is_only_check: whether the counterpart must be a grader, because its score is part of a weighted mean.
    """
    assertion = None
    try:
        assertion = _read_assertion(source, templates, test, entry, prompt)
        is_equality = assertion.kind == "equals" and not assertion.negated and _is_ground_truth(assertion.value)
        if is_equality and not is_only_check:
            metric = {"type": "standard", "metric": "equality"}
            return AssertionCounterpart(Outcome.METRIC, "equality", metric, turn={"ground_truth": assertion.value})
        if not is_only_check and (made := _text_metric(assertion)) is not None:
            return made
        if assertion.kind in CONVERTERS:
            return CONVERTERS[assertion.kind](assertion)
        if assertion.kind in judged.TYPES:
            if is_only_check:
                raise UnfitError("a judged assertion in a weighted mean; give it its own threshold")
            return _convert_graded(assertion)
        if assertion.kind == "latency" and not assertion.negated and assertion.threshold and not is_only_check:
            return AssertionCounterpart(Outcome.METRIC, "limits.turn_timeout_s", latency_ms=assertion.threshold)
        raise UnfitError(HINTS.get(assertion.kind, "an unknown type of assertion; write a code grader"))
    except NeverPassesError as error:
        if assertion is None:
            return AssertionCounterpart(Outcome.MISSING, note=str(error))
        note = f"{error}: promptfoo ends the case with an error, and it fails here, too"
        check = Check(assertion.stem, assertion.description, FAILING, str(error))
        return AssertionCounterpart(Outcome.GRADER, check=check, note=note)
    except UnfitError as error:
        return AssertionCounterpart(Outcome.MISSING, note=str(error))


FAILING = "fail_always"
"""Name of the check that fails every answer."""


def _is_ground_truth(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not has_variable(value)


_TEXT_METRICS = {
    "contains": "contains",
    "starts-with": "starts_with",
    "contains-any": "contains_any",
    "contains-all": "contains_all",
    "regex": "regex",
}
"""Metrics by the type of assertion that they replace. Negated types have no metric, because promptfoo passes an empty
answer."""
COMPUTED = frozenset({"equality", *_TEXT_METRICS.values()})
"""Metrics that give the same verdict as an assertion and call no model."""


def _text_metric(assertion: Assertion) -> AssertionCounterpart | None:
    """Return the text metric that does what the assertion does; None if there is no such metric. Its verdict on every
    answer equals the assertion's, but without case also letters match that only case folding makes equal.

    Raises:
        NeverPassesError: no answer can pass the assertion.
        UnfitError: the assertion's list of texts is empty.
    """
    folded = assertion.kind.startswith("icontains")
    kind = _TEXT_METRICS.get(assertion.kind[1:] if folded else assertion.kind)
    if kind is None or assertion.negated:
        return None
    several = kind in ("contains_any", "contains_all")
    value: Any = assertion.texts() if several else assertion.text()
    if kind == "regex":
        try:
            value = metric_pattern(value)
        except UnfitError:
            return None
        if value is None or pattern_problem(value) is not None:
            return None
    texts = value if several else [value]
    if has_variable(texts) or json_problem(texts) or not all(text.strip() for text in texts):
        return None
    name = {"regex": "pattern"}.get(kind, "values" if several else "value")
    options = {"case_insensitive": True} if folded else {}
    outcome, note = (Outcome.SIMILAR, "ß equals ss, too") if folded else (Outcome.METRIC, "")
    return AssertionCounterpart(
        outcome, kind, {"type": kind, name: value, **options}, note=note, expect={kind: value, **options}
    )


def _convert_graded(assertion: Assertion) -> AssertionCounterpart:
    graded = judged.GradedAssertion(
        assertion.kind, assertion.value, assertion.threshold, assertion.negated, assertion.test, assertion.written
    )
    metric, turn, note = judged.graded_metric(graded)
    name = str(metric.get("metric_type") or metric.get("metric") or metric["type"])
    return AssertionCounterpart(Outcome.SIMILAR, name, metric, note=note, turn=turn)


def _read_assertion(
    source: Source, templates: Templates, test: Test, assertion: WrittenAssertion, prompt: str
) -> Assertion:
    data = assertion.data
    if data.get("problem"):
        raise UnfitError(str(data["problem"]))
    kind = str(data.get("type") or "")
    negated = kind.startswith("not-")
    kind = kind.removeprefix("not-")
    for key in ("transform", "contextTransform"):
        if data.get(key):
            raise UnfitError(f"it has a {key}; let the agent return the transformed value, or write a code grader")
    if test.options.get("transform") or test.options.get("postprocess"):
        raise UnfitError("the answer is transformed first (options.transform); let the agent return the result")
    threshold = data.get("threshold")
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | None):
        raise UnfitError("its threshold is not a number, which promptfoo refuses, too")
    if threshold is None and "threshold" in data and kind in ("javascript", "python"):
        raise UnfitError("its threshold is null; write a number")
    if "weight" in data and (isinstance(data["weight"], bool) or not isinstance(data["weight"], int | float)):
        raise UnfitError("its weight is not a number, which promptfoo refuses, too")
    value = plain(data.get("value"))
    if kind not in ("javascript", "python"):
        value = _read_value(source, templates, value, test.variables)
    return Assertion(source, templates, test, assertion, value, threshold, negated, kind, prompt)


def _read_value(source: Source, templates: Templates, value: Any, variables: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_read_value(source, templates, item, variables) if isinstance(item, str) else item for item in value]
    if not isinstance(value, str):
        return value
    if not value.startswith("file://"):
        return templates.render(value, variables)
    path = source.file_named(value.removeprefix("file://"))
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml", ".json"):
        return plain(source.data(path))
    if kind == ".txt":
        return source.text(path).strip()
    raise UnfitError(f"its value comes from the code of {source.relative(path)}; write a code grader")


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower().removesuffix(".yaml")).strip("_")


def _convert_equals(assertion: Assertion) -> AssertionCounterpart:
    if assertion.value is None and "value" not in assertion.written.data:
        raise UnfitError("it has no value")
    if assertion.value is None or isinstance(assertion.value, dict | list):
        return assertion.as_check("equals_json", assertion.value)
    return assertion.as_check("equals", script_text(assertion.value))


def _convert_text(assertion: Assertion) -> AssertionCounterpart:
    value = assertion.texts() if assertion.kind in LISTS else assertion.text()
    return assertion.as_check(assertion.kind.replace("-", "_"), value)


def _convert_regex(assertion: Assertion) -> AssertionCounterpart:
    pattern = assertion.text()
    try:
        return assertion.as_check("regex", python_pattern(pattern))
    except UnfitError as error:
        if not assertion.source.node:
            raise UnfitError(f"{error}, or import and run on a machine with Node.js") from None
        code = "new RegExp(context.config.pattern).test(output)"
        made = assertion.as_check("javascript", {"code": code, "config": {"pattern": pattern}})
        note = f"runs in Node.js, and the case fails if it is missing: {error}"
        return AssertionCounterpart(made.outcome, check=made.check, note=note)


def _convert_word_count(assertion: Assertion) -> AssertionCounterpart:
    value = assertion.value
    if not isinstance(value, dict):
        number = _number_of(value)
        if number is None:
            raise NeverPassesError("its value is not a number of words")
        return assertion.as_check("word_count", {"min": number, "max": number})
    bounds = {key: _number_of(value[key]) for key in ("min", "max") if key in value}
    if not bounds:
        raise NeverPassesError("its value has neither min nor max")
    if None in bounds.values():
        raise UnfitError("a bound of its value is not a number")
    if len(bounds) == 2 and bounds["min"] > bounds["max"]:  # type: ignore[operator]  # neither is None
        raise NeverPassesError("its min is greater than its max")
    return assertion.as_check("word_count", bounds)


def _number_of(value: Any) -> float | None:
    """Return a number, or the number in a string; None if JavaScript might parse the string differently."""
    if isinstance(value, str):
        return number_in(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _convert_json(assertion: Assertion) -> AssertionCounterpart:
    contained = assertion.kind == "contains-json"
    function = assertion.kind.replace("-", "_")
    if contained and assertion.negated:
        function = "contains_no_json"
    schema = assertion.value
    if isinstance(schema, str) and schema:
        schema = plain(assertion.source.parse(schema, "its schema"))
    elif schema is None or schema is False or schema in ("", 0):
        schema = None
    notes = [_CONTAINS_JSON] if contained else []
    if schema is not None or assertion.value:
        schema = python_schema(schema)
        notes.append("needs the Python package 'jsonschema' in the environment of the graders")
    made = assertion.as_check(function, schema, negated=assertion.negated and not contained)
    outcome = Outcome.SIMILAR if contained else Outcome.GRADER
    return AssertionCounterpart(outcome, check=made.check, note="; ".join(notes))


def _score_converter(function: str, default: float) -> Callable[[Assertion], AssertionCounterpart]:
    def convert(assertion: Assertion) -> AssertionCounterpart:
        value = assertion.value if isinstance(assertion.value, list) else [assertion.value]
        if not all(isinstance(item, str) for item in value):
            raise NeverPassesError("its value is not a string")
        if not value:
            raise UnfitError("its list of strings is empty")
        return assertion.as_check(function, value, threshold=assertion.threshold_or(default))

    return convert


def _convert_levenshtein(assertion: Assertion) -> AssertionCounterpart:
    return assertion.as_check("levenshtein", assertion.text(), options={"max_distance": assertion.threshold_or(5)})


def _convert_tools(assertion: Assertion) -> AssertionCounterpart:
    kind, threshold, negated = assertion.kind, assertion.threshold, assertion.negated
    function, value, threshold = toolchecks.tool_check(kind, assertion.value, threshold, negated=negated)
    # If a list of tools is negated, none of them may be called; `tools_unused` checks this.
    negated = negated and function != "tools_unused"
    return assertion.as_check(function, value, threshold=threshold, negated=negated)


def _convert_code(assertion: Assertion) -> AssertionCounterpart:
    written = assertion.written.data.get("value")
    source, kind, variables = assertion.source, assertion.kind, assertion.test.variables
    found = codes.code_check(source, assertion.templates, kind, written, variables, assertion.config)
    if found.body:
        return assertion.as_check("", found.value, code=found.body, threshold=assertion.threshold)
    value = found.value
    if assertion.kind == "python" and assertion.threshold is not None:
        value = {**value, "least": assertion.threshold}
    made = assertion.as_check(found.function, value, threshold=assertion.threshold)
    return AssertionCounterpart(made.outcome, check=made.check, note=found.note)


_CONTAINS_JSON = "finds objects in JSON's own notation only"

CONVERTERS: Mapping[str, Callable[[Assertion], AssertionCounterpart]] = {
    "equals": _convert_equals,
    **dict.fromkeys(("contains", "icontains", "starts-with", *LISTS), _convert_text),
    "regex": _convert_regex,
    "word-count": _convert_word_count,
    "is-json": _convert_json,
    "contains-json": _convert_json,
    "levenshtein": _convert_levenshtein,
    "bleu": _score_converter("bleu", 0.5),
    "gleu": _score_converter("gleu", 0.5),
    **dict.fromkeys(toolchecks.TYPES, _convert_tools),
    "javascript": _convert_code,
    "python": _convert_code,
}

TYPES = frozenset((*CONVERTERS, *judged.TYPES, *HINTS))
"""Names of all known types of assertions, without `not-`."""
