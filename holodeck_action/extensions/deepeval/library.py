"""Imports DeepEval when it is first needed, since the import takes seconds."""

from __future__ import annotations

import importlib
from typing import Any

from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.seam.extras import way_to_get


def load_module(name: str) -> Any:
    """Import and return a module of DeepEval.

    Raises:
        EvaluationError: the packages of the extra `judges` are not installed (code `not_installed`) or cannot be
            imported (`not_importable`).
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EvaluationError(
            "the metrics of DeepEval need a package that is not installed "
            f"({error.name or error}); {way_to_get('judges')}",
            code="not_installed",
        ) from error
    # A package that calls `sys.exit` on import would end the process with its own exit code.
    except (Exception, SystemExit) as error:
        raise EvaluationError(
            f"DeepEval, which the metric needs, cannot be imported: {type(error).__name__}: {error}; "
            f"in a new environment, {way_to_get('judges')}",
            code="not_importable",
        ) from error
