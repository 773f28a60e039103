"""DeepEval itself, imported late: its import takes seconds."""

from __future__ import annotations

import importlib
from typing import Any

from holodeck_action.metrics.errors import EvaluationError


def module(name: str) -> Any:
    """Return a module of DeepEval.

    Raises:
        EvaluationError: the packages of the `judges` extra are not installed (code `not_installed`), or cannot be
            imported (`not_importable`).
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EvaluationError(
            f"the metrics of DeepEval need a package that is not installed ({error.name or error}); "
            "install it with: pip install 'holodeck-action[judges]'",
            code="not_installed",
        ) from error
    # A package that ends the program would end it with its own exit code.
    except (Exception, SystemExit) as error:
        raise EvaluationError(
            f"DeepEval, which the metric needs, cannot be imported: {type(error).__name__}: {error}; "
            "install it anew with: pip install --force-reinstall 'holodeck-action[judges]'",
            code="not_importable",
        ) from error
