"""The names that expressions of the tables use: the documented ones, and what a row is tried with."""

from __future__ import annotations

import asyncio
import builtins
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

from pydantic import BaseModel, ValidationError

import holodeck_action.compat
from scripts.build_conformance import documents
from tests.conformance.lab import Lab
from tests.extensions.gllm.gllm import ANSWER, ITEM

assert holodeck_action.compat
PRODUCT = str(Path(holodeck_action.compat.__file__).parent)
AZURE = {
    "provider": "azure_openai",
    "model_name": "gpt-4o",
    "endpoint": "https://a.example",
    "deployment_name": "judge",
    "api_key": "key",
}
INPUTS = {
    "input": "What are the store hours?",
    "actual_output": "Store is open 24/7.",
    "expected_output": "Mon-Fri. 9am-5pm. By phone.",
    "retrieval_context": ["Store hours: Mon-Fri 9am-5pm", "Company founded in 2020"],
}
"""What a judged metric is tried with."""


class Names(dict[str, Any]):
    """Finds a name in what a row is tried with, then in the documented modules; notes whether it is the product's."""

    def __init__(self, modules: Sequence[str], given: Mapping[str, Any], runs: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(given)
        self.touched = False
        self._modules = modules
        self._runs = runs

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        self.touched = True
        if name in self._runs:
            return self._runs[name]()
        return documented(name, self._modules)


def documented(name: str, modules: Sequence[str]) -> Any:
    """What a documented name is, whichever module has it."""
    return next(getattr(module, name) for module in map(importlib.import_module, modules) if name in dir(module))


def evaluate(expression: str, names: Names) -> Any:
    """Return the value of an expression; `names.touched` says whether code of the product ran, or was looked up."""

    def notice(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PRODUCT):
            names.touched = True
            # What follows need not be slowed down.
            sys.setprofile(None)

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        value = eval(expression, names)
    finally:
        sys.setprofile(before)
    names.touched |= str(getattr(value, "__module__", "")).startswith(holodeck_action.__name__)
    return value


def refusal(error: Exception) -> str:
    """The class and the text of an error; of pydantic's, the places and messages without its links."""
    text = str(error)
    if isinstance(error, ValidationError):
        text = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all'}: {each['msg']}" for each in error.errors())
    return f"{type(error).__name__}: {' '.join(text.split())}"


def arguments(kind: Any) -> list[tuple[Any, ...]]:
    """The arguments of a class in order, each with its default if it has one."""
    parameters = inspect.signature(kind).parameters.values()
    return [(each.name,) if each.default is each.empty else (each.name, each.default) for each in parameters]


def evaluate_inputs(evaluator: Any, **inputs: Any) -> Any:
    return asyncio.run(evaluator.evaluate(**inputs))


def result_of(evaluator: Any, data: Any) -> Any:
    return asyncio.run(evaluator.evaluate(data))


CONFIGURATION = "holodeck_action.extensions.honeyhive.evaluation_config"
HOLODECK = "holodeck.lib.evaluators"


def names_for(document: str, lab: Lab) -> Names:
    """The names that the rows of a document use."""
    modules = documents()[document].modules

    def graded(kind: Any, models: Any) -> list[str]:
        """The models that are asked for one evaluation, sorted."""
        before = len(lab.presets.requests)
        result_of(kind(models), ITEM)
        return sorted(request.model for request in lab.presets.requests[before:])

    def score(evaluator: Any, response: str, ground_truth: str) -> Any:
        return evaluator.compute(response=response, ground_truth=ground_truth).score

    def metric(kind: str, **fields: Any) -> Any:
        return documented("EvaluationConfig", modules)(metrics=[{"type": kind, **fields}]).metrics[0]

    def model_config() -> Any:
        endpoint = {"azure_endpoint": "https://a.example", "azure_deployment": "gpt-4o"}
        return documented("ModelConfig", [f"{HOLODECK}.azure_ai"])(api_key="azure-key", **endpoint)

    given = {
        "arguments": arguments,
        "complete": MappingProxyType(AZURE),
        "without": lambda name: {key: value for key, value in AZURE.items() if key != name},
        "of": lambda module: importlib.import_module(f"{HOLODECK}.{module}"),
        "fields_of": lambda kind: {field.name for field in dataclasses.fields(kind)},
        "tone": MappingProxyType({"name": "Tone", "criteria": "polite"}),
        "score": score,
        "metric": metric,
        "graded": graded,
        "valid": lab.valid,
        "evaluated": result_of,
        "evaluate_value": result_of,
        "answer": ANSWER,
        "data": ITEM,
        "found": {"retrieved_chunks": {"chunk1": 0.9, "chunk2": 0.8}, "ground_truth_chunk_ids": ["chunk1"]},
        "date": datetime.fromisoformat,
        "matches": re.fullmatch,
        "isabstract": inspect.isabstract,
        "iscoroutinefunction": inspect.iscoroutinefunction,
        "BaseModel": BaseModel,
        "Enum": Enum,
        "judged": lambda kind, **options: evaluate_inputs(kind(lab.reader(), **options), **INPUTS),
        "evaluate": evaluate_inputs,
    }
    runs = {
        "azure": model_config,
        "judge": lambda: documented("DeepEvalModelConfig", [f"{HOLODECK}.deepeval"])(),
        "model": lab.judge,
        "sample": lambda: lambda heading, at=0: lab.sample(document, heading, at),
        "api_sample": lambda: lambda heading, at=0: lab.sample("holodeck-evaluation-api", heading, at),
        "reader": lab.reader,
        "suite": lambda: lab.suite,
        "agent": lambda: lab.agent,
        "MyEvaluator": lambda: lab.sample("holodeck-evaluation-api", "BaseEvaluator", 0)["MyEvaluator"],
        "other": lambda: lab.judge("other"),
        "bleu": lambda: documented("BLEUEvaluator", [f"{HOLODECK}.nlp_metrics"])(threshold=0.5),
        "config": lambda: importlib.import_module(CONFIGURATION).HoneyHiveEvaluationConfig,
        "own": lambda: type("Own", (documented("MetricsAggregator", modules),), {})(),
        "by": lambda: lab.evaluations,
        "export": lambda: lab.exported,
        "after": lambda: lab.after,
    }
    return Names(modules, given, runs)
