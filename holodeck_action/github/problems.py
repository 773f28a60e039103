"""Configuration errors as annotations of the lines that hold them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from holodeck_action.github.annotations import MESSAGE_LIMIT, TITLE_LIMIT, Annotation, fitting
from holodeck_action.github.checkout import placed
from holodeck_action.results.positions import repository_path, usable
from holodeck_action.suite.configuration_errors import Located
from holodeck_action.text.plain import one_line


def annotate_problems(problems: Iterable[Located], environ: Mapping[str, str]) -> tuple[Annotation, ...]:
    """Return an annotation for each problem whose line the repository of a workflow has, in their order.

    Args:
        problems: of the suites' files.
        environ: the environment of the step.
    """
    known = {problem: placed(problem.folder, environ).folder for problem in problems}
    paths = ((problem, repository_path(folder, problem.mark)) for problem, folder in known.items())
    return tuple(_annotation(problem, path) for problem, path in paths if path is not None)


def _annotation(problem: Located, path: str) -> Annotation:
    field = one_line(problem.field, 150)
    title = f"NOT VALID · {field}" if field else "NOT VALID"
    named = json.dumps([path, problem.mark.line, problem.mark.column, problem.field, problem.message])
    return Annotation(
        path=path,
        line=problem.mark.line,
        column=problem.mark.column if usable(problem.mark.column) else None,
        level="failure",
        title=fitting(title, TITLE_LIMIT, TITLE_LIMIT),
        message=fitting(one_line(problem.message, MESSAGE_LIMIT), MESSAGE_LIMIT, 4 * MESSAGE_LIMIT),
        details="",
        key=hashlib.sha256(named.encode()).hexdigest()[:16],
    )
