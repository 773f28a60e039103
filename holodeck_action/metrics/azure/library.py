"""Azure AI Evaluation itself: imported late and once, and kept from looking around and from speaking, unless a
program uses it already.

Its import takes a second or more and reads variables that replace the code which renders its prompts. Of its messages
nothing is lost: what fails is raised as well.
"""

from __future__ import annotations

import importlib
import logging
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.isolation import Library, hidden_environment

_SWITCHES = {"PF_LOGGING_LEVEL": "CRITICAL"}
"""Its own logger writes to the standard output, past the logging configuration of the program."""

_NOBODY = {"azure_endpoint": "https://judge.invalid", "api_key": "not-used", "azure_deployment": "not-used"}
"""What its evaluators insist on; nothing is ever sent there, because their flow is replaced."""


def package() -> ModuleType:
    """Return `azure.ai.evaluation`; the first call takes seconds.

    Raises:
        EvaluationError: the packages of the `azure` extra are not installed (code `not_installed`), or cannot be
            imported (`not_importable`).
    """
    return _LIBRARY.import_hidden()


def evaluator(name: str) -> Any:
    """Return a new evaluator of the library, which could not reach any model by itself.

    Args:
        name: of its class.

    Raises:
        EvaluationError: see `package`.
    """
    kind = getattr(package(), name)
    with _hidden() if _LIBRARY.hidden else nullcontext():
        return kind(dict(_NOBODY))


def _load() -> ModuleType:
    return importlib.import_module("azure.ai.evaluation")


def _settle() -> None:
    logger = logging.getLogger("azure.ai.evaluation")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False


def _failure(error: BaseException) -> EvaluationError:
    if isinstance(error, ImportError):
        return EvaluationError(
            f"Azure AI metrics need a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[agents,azure]'",
            code="not_installed",
        )
    return EvaluationError(
        f"Azure AI Evaluation, which the metric needs, cannot be imported: {type(error).__name__}: {error}",
        code="not_importable",
    )


def _hidden() -> AbstractContextManager[None]:
    return hidden_environment(_SWITCHES)


_LIBRARY = Library("azure.ai.evaluation", _load, _failure, _hidden, _settle)
