"""The metrics that the installed version of DeepEval exports, and those of a suite, read from their source (see
`class_signatures`)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from holodeck_action.metrics.judging.class_metric import ClassEntry
from holodeck_action.metrics.judging.class_signatures import (
    UNWRITABLE,
    ClassSource,
    LibraryClass,
    Module,
    Parameter,
    library_source,
    module_files,
)
from holodeck_action.suite.messages import did_you_mean
from holodeck_action.suite.model.base import NonBlank
from holodeck_action.text.foreign import Foreign, ForeignError, RefusedFileError

_PACKAGE = "deepeval.metrics"
_ANSWERS, _CONVERSATIONS, _ARENAS = "BaseMetric", "BaseConversationalMetric", "BaseArenaMetric"
_HIDDEN_PARAMETERS = frozenset(
    (
        "model",
        "system_one_model",
        "eval_mode",
        "threshold",
        "async_mode",
        "verbose_mode",
        "flaky",
        "evaluation_template",
    )
)
"""Constructor parameters that a suite sets in another way, or that have no effect on a score."""
SCHEMA_OPTION = "expected_schema"
"""The option that takes a pydantic model in Python, and a JSON Schema in a suite."""
TOOLS_OPTION = "available_tools"
"""The option that takes the agent's tools."""
_SCHEMA = Parameter(SCHEMA_OPTION, NonBlank | dict[str, Any], True, None)
_CASE_INPUTS = {
    "EXPECTED_OUTPUT": "ground_truth",
    "EXPECTED_OUTCOME": "ground_truth",
    "CONTEXT": "context",
    "RETRIEVAL_CONTEXT": "retrieval_context",
}
_ALWAYS = frozenset(("INPUT", "ACTUAL_OUTPUT", "ROLE", "CONTENT"))
_CALLS = "TOOLS_CALLED"
_ROLE = "chatbot_role"
_MODEL_OPTIONS = ("model", "evaluation_model")
"""The names that DeepEval's documents give to the argument for the judge; the second only in a suite's own classes."""
_CASE_FIELDS = (_ROLE, "scenario", "user_description")

_OWN_TYPES = {
    "GEval": "write `type: geval`",
    "ToolCorrectnessMetric": "write `type: deepeval_tool_correctness`",
}
SPEECH = frozenset(("TranscriptionAccuracyMetric", "AudioGlitchMetric"))
FIXED: Mapping[str, Mapping[str, Any]] = {
    # It reads the model's messages between the calls, which a suite does not record: it could never fail.
    "AgentLoopDetectionMetric": {"check_reasoning_stagnation": False},
    # It would ask for the reason of each turn in a call that blocks the event loop.
    "TurnFaithfulnessMetric": {"include_reason": False},
}
"""Fixed values of options that a suite cannot set, by metric class."""


class CatalogueEntry(ClassEntry, frozen=True, kw_only=True):
    """A metric of DeepEval that grades an answer or a conversation.

    Its options include those fields of the test case that a suite cannot set elsewhere.

    Attributes:
        case_options: names of the options that are fields of the test case.
        inputs: names of all required fields of DeepEval's test case, in lower case.
        of_conversation: whether it grades a whole conversation.
        model_option: name of the constructor's argument for the judge; empty if it takes none.
        is_traced: whether it reads a trace, which is built from the turn's tool calls.
    """

    case_options: frozenset[str]
    inputs: tuple[str, ...]
    of_conversation: bool
    is_traced: bool
    model_option: str = "model"


@cache
def metric_names() -> tuple[str, ...]:
    """Return the names of all metrics, including those that a suite cannot use."""
    kinds = {_ANSWERS, _CONVERSATIONS, _ARENAS}
    return tuple(name for name in _exports() if (found := _find(name)) is not None and kinds.intersection(found.bases))


def find_metric(name: str) -> CatalogueEntry | str | None:
    """Return the named metric, or why a suite cannot use it, with an alternative; None if there is no such metric."""
    found = _find(name)
    if found is None or not {_ANSWERS, _CONVERSATIONS, _ARENAS}.intersection(found.bases):
        return None
    required = _required_params(found)
    return _unusable_reason(found, required) or _entry(found, required)


def read_own_metric(
    reference: str, read: Callable[[str], Foreign], required_params: Sequence[str] | None
) -> CatalogueEntry:
    """Return the entry of a suite's own metric.

    Args:
        reference: `module.path:Class`.
        read: returns the content of a file in the suite's folder.
        required_params: the required fields of the test case, in lower case; None to read them from the class.

    Raises:
        ValueError: the class cannot be used; the message is one sentence.
    """
    module, _, name = reference.partition(":")
    library, own = library_source(_PACKAGE), _suite_module(read)
    source = ClassSource(
        "", lambda each: own(each) or (None if library is None else library.find_module(each)), unannotated=Any
    )
    if own(module) is None:
        raise ValueError(f"{reference}: there is no module {module} in the suite's folder")
    found = source.read_class(name, module)
    if found is None:
        close = did_you_mean(name, source.class_names(module))
        raise ValueError(f"{reference}: the module {module} has no class {name}{close}")
    if not {_ANSWERS, _CONVERSATIONS}.intersection(found.bases):
        raise ValueError(f"{reference} is not a subclass of {_ANSWERS} or {_CONVERSATIONS} of DeepEval")
    if required_params is None and _read_required(found) is None:
        params = "_required_params" if _ANSWERS in found.bases else "_required_test_case_params"
        raise ValueError(
            f"{reference}: what the metric reads is unknown; give required_params, such as "
            f"`required_params: [input, actual_output]`, or {params} in the class"
        )
    fields = _required_params(found) if required_params is None else tuple(name.upper() for name in required_params)
    if (reason := _unusable_reason(found, fields, is_suite_class=True)) is not None:
        raise ValueError(f"{reference} cannot be used: {reason}")
    return _entry(found, fields, is_suite_class=True)


def _suite_module(read: Callable[[str], Foreign]) -> Callable[[str], Module | None]:
    @cache
    def find(module: str) -> Module | None:
        for file in module_files(module):
            try:
                return read(file).parse(ast.parse), file.endswith("__init__.py")
            except RefusedFileError as error:
                raise ValueError(f"the file {error.clause}") from None
            except ForeignError as error:
                raise ValueError(f"the file {file} {error}") from None
            except OSError:
                continue
        return None

    return find


@cache
def _exports() -> Mapping[str, str]:
    source = library_source(_PACKAGE)
    return {} if source is None else source.exports()


@cache
def _find(name: str) -> LibraryClass | None:
    source, module = library_source(_PACKAGE), _exports().get(name)
    return None if source is None or module is None else source.read_class(name, module)


def _unusable_reason(
    library_class: LibraryClass, required_params: Sequence[str], *, is_suite_class: bool = False
) -> str | None:
    given = library_class.parameters or {}
    packages = () if is_suite_class else library_class.module.split(".")
    if library_class.name in _OWN_TYPES and not is_suite_class:
        return _OWN_TYPES[library_class.name]
    if "voice" in packages or library_class.name in SPEECH:
        return "it grades recorded speech, which a suite does not have; grade the transcript with `type: geval`"
    if "multimodal_metrics" in packages:
        return "it grades images, which a suite does not have; grade a text about them with `type: geval`"
    if "mcp" in packages or "MCP_SERVERS" in required_params:
        return (
            "it needs MCP servers as Python objects; "
            "use `type: tool_correctness`, or `metric: ArgumentCorrectnessMetric`"
        )
    if "dag" in given:
        return "it needs a graph of Python objects; use `type: geval` with `evaluation_steps`, or `type: code`"
    if _ARENAS in library_class.bases:
        return "it compares several answers; compare the run with a base: see docs/baseline.md"
    if "model" not in given and "system_one_model" in given:
        return "it needs the decision model of DeepEval's service; use `type: geval`"
    unknown = [name for name in required_params if name not in {*_CASE_INPUTS, *_ALWAYS, _CALLS}]
    if unknown:
        return f"it needs {unknown[0].lower()}, which a suite does not have"
    unset = [
        each.name
        for each in _constructor_options(library_class, is_suite_class).values()
        if each.required and each.type is UNWRITABLE
    ]
    return f"its option {unset[0]} takes a Python object; use `type: code`" if unset else None


def _entry(
    library_class: LibraryClass, required_params: Sequence[str], *, is_suite_class: bool = False
) -> CatalogueEntry:
    given = library_class.parameters or {}
    model_option = next((each for each in _MODEL_OPTIONS if each in given and (is_suite_class or each == "model")), "")
    threshold = given["threshold"].default if "threshold" in given else None
    is_traced = library_class.method_assigns_true("requires_trace")
    calls = library_class.own_calls("a_measure", "_a_")
    reasons = [name for name in calls if "reason" in name]
    options, of_case = (
        {**_constructor_options(library_class, is_suite_class)},
        {**_case_options(library_class, is_suite_class)},
    )
    of_conversation = _CONVERSATIONS in library_class.bases
    tools = options.get(TOOLS_OPTION)
    if tools is not None:
        options[TOOLS_OPTION] = Parameter(TOOLS_OPTION, list[dict[str, Any]] | None, False, None)
    return CatalogueEntry(
        name=library_class.name,
        options={name: each for name, each in (options | of_case).items() if each.type is not UNWRITABLE},
        case_options=frozenset(of_case),
        threshold=None if threshold is None else float(threshold),
        needs=frozenset(_CASE_INPUTS[name] for name in required_params if name in _CASE_INPUTS),
        inputs=tuple(name.lower() for name in required_params),
        reads_calls=is_traced
        or _CALLS in required_params
        or (of_conversation and library_class.method_reads("tools_called")),
        has_judge=bool(model_option),
        model_option=model_option,
        of_conversation=of_conversation,
        is_traced=is_traced,
        tools_option="" if tools is None else TOOLS_OPTION,
        needs_tools=tools is not None and tools.required,
        judge_calls=max(1, len(calls) - len(reasons)),
        reason_calls=len(reasons),
    )


def _required_params(library_class: LibraryClass) -> tuple[str, ...]:
    return _read_required(library_class) or ()


def _read_required(library_class: LibraryClass) -> tuple[str, ...] | None:
    return library_class.constant_names("_required_params") or library_class.constant_names(
        "_required_test_case_params"
    )


def _case_options(library_class: LibraryClass, is_suite_class: bool) -> Mapping[str, Parameter]:
    """Return the options of a conversation metric that are fields of its test case."""
    if _CONVERSATIONS not in library_class.bases:
        return {}
    if is_suite_class or "evaluation_params" in (library_class.parameters or {}):
        return {name: Parameter(name, str | None, False, None) for name in _CASE_FIELDS}
    if library_class.class_assigns_true("_requires_chatbot_role"):
        return {_ROLE: Parameter(_ROLE, NonBlank, True, None)}
    return {}


def _constructor_options(library_class: LibraryClass, is_suite_class: bool) -> Mapping[str, Parameter]:
    hidden = {*_HIDDEN_PARAMETERS, *FIXED.get(library_class.name, ()), *(_MODEL_OPTIONS if is_suite_class else ())}
    listed = {
        name: each
        for name, each in (library_class.parameters or {}).items()
        if name not in hidden and not name.startswith("_")
    }
    return listed | ({SCHEMA_OPTION: _SCHEMA} if SCHEMA_OPTION in listed and not is_suite_class else {})
