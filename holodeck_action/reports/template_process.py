"""A script that renders one custom template in its own process. Limits are set before our modules are imported.

Standard input: the task as JSON on one line, then the report as JSON. Standard output: `made` and the text, or
`failed` and the reason.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any


class _OutOfTimeError(Exception):
    pass


class _TooLongError(Exception):
    pass


def main() -> None:
    """Render the template from standard input."""
    task = json.loads(sys.stdin.buffer.readline())
    # Import from the parent's path, without site packages and without the current folder.
    sys.path[:] = [*task["path"], task["package"]]
    _limit_process(task)
    try:
        text = _render(task, sys.stdin.buffer.read())
        answer = f"made\n{text}"
    except Exception as error:  # noqa: BLE001 - any exception is an error of the template
        answer = f"failed\n{_error_sentence(error, task)}"
    sys.stdout.buffer.write(answer.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _limit_process(task: dict[str, Any]) -> None:
    def stop(*_: object) -> None:
        raise _OutOfTimeError

    signal.signal(signal.SIGXCPU, stop)
    # A computation inside one C call does not handle the first signal; the second limit kills the process.
    resource.setrlimit(resource.RLIMIT_CPU, (task["cpu_s"], task["cpu_s"] + 1))
    resource.setrlimit(resource.RLIMIT_AS, (task["memory"], task["memory"]))
    # A character takes at most four bytes.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * task["output"], 4 * task["output"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _render(task: dict[str, Any], data: bytes) -> str:
    from holodeck_action.reports.comment.size_limit import DETAILS, SizeLimit, cut, gather
    from holodeck_action.reports.templating import CUSTOM, markdown_environment
    from holodeck_action.reports.untrusted import wrap

    report = wrap(json.loads(data))
    limit = SizeLimit(**task["limit"])
    template = markdown_environment((task["source"], task["name"])).get_template(CUSTOM)
    # Only the last level may exceed the limit, to distinguish a long text, which is cut, from an endless one.
    for detail in DETAILS:
        text, whole = gather(template.generate(report=report, detail=detail), limit)
        if whole:
            return text
    return cut(
        "".join(_join_bounded(template.generate(report=report, detail=DETAILS[-1]), task["output"])),
        limit,
        task["rest"],
    )


def _join_bounded(pieces: Iterator[str], limit: int) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > limit:
            raise _TooLongError
        yield piece


def _error_sentence(error: Exception, task: dict[str, Any]) -> str:
    from jinja2 import TemplateNotFound, TemplateSyntaxError

    line = error.lineno if isinstance(error, TemplateSyntaxError) else None
    name = task["name"]
    trace = error.__traceback__
    while trace is not None:
        # Frames of compiled templates have the template's file name and lines.
        if trace.tb_frame.f_code.co_filename == task["name"]:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, TemplateSyntaxError) and error.filename:
        name = error.filename
    place = f"{name}:{line}" if line else name
    if isinstance(error, _OutOfTimeError):
        return f"{place}: the template used more than {task['cpu_s']} s of processor time"
    if isinstance(error, MemoryError):
        return f"{place}: the template used more memory than is allowed"
    if isinstance(error, _TooLongError):
        return f"{place}: the template wrote more than {task['output']:,} characters"
    if isinstance(error, TemplateNotFound):
        return f"{place}: there is no template {error.name!r}; only the shipped ones can be included"
    return f"{place}: {error or type(error).__name__}"


if __name__ == "__main__":
    main()
