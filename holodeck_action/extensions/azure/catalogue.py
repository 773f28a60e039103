"""The evaluators that the installed version of Azure AI Evaluation exports, read from its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from holodeck_action.metrics.judging.class_metric import ClassEntry
from holodeck_action.metrics.judging.class_signatures import LibraryClass, Parameter, library_source

_PACKAGE = "azure.ai.evaluation"
_BASES = frozenset(("EvaluatorBase", "RaiServiceEvaluatorBase", "MultiEvaluatorBase", "PromptyEvaluatorBase"))
_JUDGED = "PromptyEvaluatorBase"
_TOOLS = "tool_definitions"
_CASE_INPUTS = {"ground_truth": "ground_truth", "context": "context"}
_KNOWN = frozenset(("query", "response", "ground_truth", "context", "tool_calls", _TOOLS))

_OWN_METRICS = {
    "BleuScoreEvaluator": "write `{type: standard, metric: bleu}`",
    "F1ScoreEvaluator": "write `{type: standard, metric: f1_score}`",
    "GleuScoreEvaluator": "write `{type: standard, metric: bleu}`; GLEU is a variant of BLEU",
    "MeteorScoreEvaluator": "write `{type: standard, metric: meteor}`",
    "RougeScoreEvaluator": "write `{type: standard, metric: rouge}`",
    "DocumentRetrievalEvaluator": "write `type: retrieval` with the metrics of ranked chunks",
    "QAEvaluator": "it gives several scores; list its evaluators separately",
}
_SAFETY = "write `{type: deepeval, metric: ToxicityMetric}`"
_ALTERNATIVES = {
    "CodeVulnerabilityEvaluator": "write `type: code` with a scanner of source code",
    "ContentSafetyEvaluator": _SAFETY,
    "GroundednessProEvaluator": "write `{type: azure, metric: GroundednessEvaluator}`",
    "HateUnfairnessEvaluator": "write `{type: deepeval, metric: BiasMetric}`",
    "IndirectAttackEvaluator": "write `{type: deepeval, metric: MisuseMetric}`",
    "ProtectedMaterialEvaluator": "write `type: geval` with criteria about copied texts",
    "SelfHarmEvaluator": _SAFETY,
    "SexualEvaluator": _SAFETY,
    "UngroundedAttributesEvaluator": "write `{type: rag, metric_type: faithfulness}`",
    "ViolenceEvaluator": _SAFETY,
}
"""What to write instead of an evaluator that a service computes; also of its subclasses."""
BINARY = frozenset(("TaskAdherenceEvaluator", "_ToolCallSuccessEvaluator", "_ToolOutputUtilizationEvaluator"))
"""Evaluators whose judge answers 0 or 1, according to their prompts; all others answer 1 to 5."""
ANSWER_ONLY = frozenset(("IntentResolutionEvaluator",))
"""Evaluators that accept tool calls, but whose prompt contains only the answer, so that the calls may be unknown."""


class AzureEntry(ClassEntry, frozen=True, kw_only=True):
    """An evaluator whose judge is a model.

    Attributes:
        inputs: the inputs that it requires or accepts, under the library's names.
        takes_calls: whether it accepts answers as messages with tool calls; if `reads_calls`, the calls are required.
        scale: the lowest and the highest score of its judge.
    """

    inputs: tuple[str, ...]
    takes_calls: bool
    scale: tuple[int, int]


@cache
def evaluator_names() -> tuple[str, ...]:
    """Return the names of all evaluators, including those that a suite cannot use; empty if the package is missing."""
    return tuple(name for name in _exports() if (found := _read(name)) is not None and _BASES.intersection(found.bases))


def find_evaluator(name: str) -> AzureEntry | str | None:
    """Return the named evaluator, or the reason why a suite cannot use it; None if there is no such evaluator."""
    found = _read(name)
    if found is None or not _BASES.intersection(found.bases):
        return None
    if name in _OWN_METRICS:
        return _OWN_METRICS[name]
    if _JUDGED not in found.bases:
        known = (_ALTERNATIVES[each] for each in (name, *found.bases) if each in _ALTERNATIVES)
        return f"a service of Azure computes it; {next(known, 'write `type: geval`')}"
    given = dict(_inputs(found))
    unknown = [each for each in given if each not in _KNOWN]
    return f"it needs {unknown[0]}, which a suite does not have" if unknown else _entry(found, given)


@cache
def _exports() -> Mapping[str, str]:
    source = library_source(_PACKAGE)
    return {} if source is None else source.exports()


@cache
def _read(name: str) -> LibraryClass | None:
    source, module = library_source(_PACKAGE), _exports().get(name)
    return None if source is None or module is None else source.read_class(name, module)


def _inputs(library_class: LibraryClass) -> Iterator[tuple[str, bool]]:
    """Yield `(name, required)` for each input in the evaluator's first call signature."""
    first = next(iter(library_class.method_definitions("__call__")), None)
    if first is not None:
        for argument, default in zip(first.args.kwonlyargs, first.args.kw_defaults, strict=True):
            yield argument.arg, default is None


def _entry(library_class: LibraryClass, requirements: Mapping[str, bool]) -> AzureEntry:
    tools: dict[str, Any] = {}
    if _TOOLS in requirements:
        tools[_TOOLS] = Parameter(_TOOLS, list[dict[str, Any]] | None, False, None)
    return AzureEntry(
        name=library_class.name,
        options=tools,
        tools_option=_TOOLS if tools else "",
        tool_keys=("name", "description", "parameters"),
        needs_tools=requirements.get(_TOOLS, False),
        needs=frozenset(_CASE_INPUTS[name] for name in requirements if name in _CASE_INPUTS),
        reads_calls=_TOOLS in requirements and library_class.name not in ANSWER_ONLY,
        takes_calls=_TOOLS in requirements,
        inputs=tuple(requirements),
        scale=(0, 1) if library_class.name in BINARY else (1, 5),
    )
