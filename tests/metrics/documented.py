"""The classes of HoloDeck's and gllm-evals' documents, and the arguments that they take."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from typing import Any, is_typeddict

from pydantic import BaseModel

from holodeck_action.compat import served_names
from holodeck_action.extensions.deepeval.entities import GEvalConfig, RAGMetricConfig
from holodeck_action.metrics.base import BaseEvaluator

BASES = ("AzureAIEvaluator", "BaseEvaluator", "DeepEvalBaseEvaluator")


def _of(module: str, name: str) -> object:
    """What a name stands for; None if its extension was deleted.

    That every name is there is held in tests/extensions/holodeck.
    """
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return None


def _classes() -> Iterator[type[Any]]:
    for module, names in served_names().items():
        if module.startswith("holodeck.lib.evaluators"):
            for name in names:
                found = _of(module, name)
                if isinstance(found, type) and issubclass(found, BaseEvaluator | BaseModel):
                    yield found


CLASSES: tuple[type[Any], ...] = tuple(dict.fromkeys(_classes()))
EVALUATORS = tuple(kind for kind in CLASSES if issubclass(kind, BaseEvaluator) and kind.__name__ not in BASES)


def _taken(kind: type[Any]) -> list[str]:
    """The arguments of a class, those that it hands on included."""
    if issubclass(kind, BaseModel):
        return [*kind.model_fields]
    if "__signature__" in vars(kind):
        return [*inspect.signature(kind).parameters]
    taken: dict[str, None] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base):
            parameters = [*inspect.signature(vars(base)["__init__"]).parameters.values()][1:]
            taken |= {each.name: None for each in parameters if each.kind is not each.VAR_KEYWORD}
            if not any(each.kind is each.VAR_KEYWORD for each in parameters):
                break
    return [*taken]


def _declaring(kind: type[Any], argument: str) -> type[Any]:
    """The first of the documented classes that takes an argument."""
    return next(base for base in reversed(kind.__mro__) if base in CLASSES and argument in _taken(base))


def _classes_below(root: str) -> Iterator[type[Any]]:
    for module, names in served_names().items():
        if module.partition(".")[0] == root:
            for name in names:
                found = _of(module, name)
                if isinstance(found, type) and not issubclass(found, enum.Enum) and not is_typeddict(found):
                    yield found


SERVED: tuple[type[Any], ...] = tuple(
    dict.fromkeys(kind for root in served_names() if "." not in root for kind in _classes_below(root))
)
"""Every class of the documents that a program can construct."""

GLLM_ARGUMENTS = tuple(
    f"gllm.{kind.__name__}.{argument}"
    for kind in dict.fromkeys(_classes_below("gllm_evals"))
    for argument in inspect.signature(kind).parameters
)
CONFIG_ARGUMENTS = tuple(
    f"{kind.__name__}.{field}"
    for kind in (GEvalConfig, RAGMetricConfig)
    for field in inspect.signature(kind).parameters
)

_HOLODECK = (f"{_declaring(kind, argument).__name__}.{argument}" for kind in CLASSES for argument in _taken(kind))
ARGUMENTS = (*dict.fromkeys(_HOLODECK), *GLLM_ARGUMENTS, *CONFIG_ARGUMENTS)
