"""Azure AI Evaluation itself: imported late, once, and kept from looking around and from speaking.

Its import takes a second or more and reads variables that replace the code which renders its prompts. Of its messages
nothing is lost: what fails is raised as well.
"""

from __future__ import annotations

import importlib
import logging
from functools import cache
from types import ModuleType
from typing import Any

from holodeck_action.evaluators.errors import EvaluationError
from holodeck_action.evaluators.isolation import hidden_environment

_SWITCHES = {"PF_LOGGING_LEVEL": "CRITICAL"}
"""Its own logger writes to the standard output, past the logging configuration of the program."""

_NOBODY = {"azure_endpoint": "https://judge.invalid", "api_key": "not-used", "azure_deployment": "not-used"}
"""What its evaluators insist on; nothing is ever sent there, because their flow is replaced."""


@cache
def package() -> ModuleType:
    """Return `azure.ai.evaluation`; the first call takes seconds.

    Raises:
        EvaluationError: the packages of the `azure` extra are not installed (code `not_installed`).
    """
    with hidden_environment(_SWITCHES):
        try:
            found = importlib.import_module("azure.ai.evaluation")
        except ImportError as error:
            raise EvaluationError(
                f"Azure AI metrics need a package that is not installed ({error.name or error}); "
                "install it with: pip install 'holodeck-action[agents,azure]'",
                code="not_installed",
            ) from error
    logger = logging.getLogger("azure.ai.evaluation")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return found


def evaluator(name: str) -> Any:
    """Return a new evaluator of the library, which could not reach any model by itself.

    Args:
        name: of its class.

    Raises:
        EvaluationError: see `package`.
    """
    kind = getattr(package(), name)
    with hidden_environment(_SWITCHES):
        return kind(dict(_NOBODY))
