"""Rows of marks as expectations: the last code of a row is what its test evaluates, with the documented names."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

import holodeck_action.compat

assert holodeck_action.compat

MODULES = (
    "holodeck.lib.evaluators.azure_ai",
    "holodeck.lib.evaluators.base",
    "holodeck.lib.evaluators.deepeval",
    "holodeck.lib.evaluators.nlp_metrics",
    "holodeck.lib.evaluators.param_spec",
    "holodeck.models.evaluation",
    "holodeck.models.llm",
)


def named(name: str, modules: Sequence[str] = MODULES) -> Any:
    """What a documented name is, whichever module has it."""
    served = map(importlib.import_module, modules)
    return next(getattr(module, name) for module in served if name in dir(module))


def rows(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """Each heading of the marks on this test, with the last code of each row: what its test expects."""
    for mark in request.node.iter_markers("claims"):
        _, heading, *texts = mark.args
        yield heading, [re.findall("`([^`]+)`", text)[-1] for text in texts]


class Names(dict[str, Any]):
    """The names that a row may use: the documented ones, a configuration of each kind, and a few of Python."""

    def __init__(self, modules: Sequence[str] = MODULES, **own: Any) -> None:
        self.modules = modules
        super().__init__(
            azure=named("ModelConfig")(
                azure_endpoint="https://a.example", api_key="azure-key", azure_deployment="gpt-4o"
            ),
            judge=named("DeepEvalModelConfig")(),
            of=lambda module: importlib.import_module(f"holodeck.lib.evaluators.{module}"),
            isabstract=inspect.isabstract,
            iscoroutinefunction=inspect.iscoroutinefunction,
            BaseModel=BaseModel,
            Enum=Enum,
            **own,
        )

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        return named(name, self.modules)


def check_that_all_hold(request: pytest.FixtureRequest, names: Names | None = None) -> None:
    """Evaluate the expression of each row, which must be true."""
    names = names or Names()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OLLAMA_BASE_URL", raising=False)
        for heading, expressions in rows(request):
            for expression in expressions:
                assert eval(expression, {}, names), f"{heading}: {expression}"


def check_that_all_are_refused(request: pytest.FixtureRequest, names: Names | None = None) -> None:
    """Evaluate the expression of each row, whose value must be refused."""
    names = names or Names()
    for heading, expressions in rows(request):
        for expression in expressions:
            try:
                eval(expression, {}, names)
            except (ValueError, TypeError):
                continue
            pytest.fail(f"{heading}: {expression} is taken")
