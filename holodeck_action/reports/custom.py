"""Renders Markdown with a user's template, in a process with limits.

The sandbox blocks access to attributes; the process limits time and memory.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from holodeck_action.record.serialization import to_json
from holodeck_action.reports.comment.size_limit import IN_THE_RECORD, JOB_SUMMARY, SizeLimit
from holodeck_action.reports.report_views import Report
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import ForeignError, RefusedFileError, read_file
from holodeck_action.text.plain import one_line
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import NO_CODE

MAX_SOURCE = 1024 * 1024
"""Maximum size of a template, in bytes."""

_DATA_FACTOR = 12
"""Bytes of address space per byte of the report's JSON, which is several times larger once parsed and wrapped."""

_MAX_CHARACTER = 4
"""Maximum bytes of a character in UTF-8."""
_STATUS = 1000
"""Maximum number of characters that the process writes before the text: `made`, or `failed` and the reason."""
_CHILD = Path(__file__).with_name("template_process.py")


class Limits(Struct, frozen=True):
    """The limits for rendering one template.

    Attributes:
        cpu_s: CPU seconds.
        wall_s: seconds after which the process is killed.
        memory: bytes of address space, in addition to the space for the report's data.
        output: characters of output at which rendering is stopped; shorter output above the report's limit is cut.
    """

    cpu_s: int = 10
    wall_s: float = 60.0
    memory: int = 512 * 1024 * 1024
    output: int = 8 * 1024 * 1024


LIMITS = Limits()


class TemplateError(ConfigurationError):
    """A template cannot be used; the message is a sentence with the file's name and, if known, the line."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


class CustomTemplate(Struct, frozen=True):
    """A user's template: file name and source."""

    name: str
    source: str


def read_template(path: os.PathLike[str]) -> CustomTemplate:
    """Read a template.

    Raises:
        TemplateError: the file is missing, too large, or not UTF-8.
    """
    try:
        return CustomTemplate(one_line(str(path)), read_file(path, MAX_SOURCE).text())
    except RefusedFileError as error:
        raise TemplateError(f"{path}: {error.clause}") from error
    except OSError as error:
        raise TemplateError(f"{path}: cannot be read: {error.strerror}; give the file of a Jinja template") from error
    except ForeignError as error:
        raise TemplateError(f"{path}: {error}; save it as UTF-8") from error


def render_custom(
    template: CustomTemplate,
    report: Report,
    limit: SizeLimit = JOB_SUMMARY,
    *,
    footer: str = IN_THE_RECORD,
    limits: Limits = LIMITS,
) -> str:
    """Render a report with a user's template.

    The template gets the same variables as the built-in one, `report` and `detail`. `footer` is trusted Markdown that
    refers to the complete report, to end a cut report.

    Raises:
        TemplateError: the template is invalid, or exceeds its limits.
    """
    data = to_json(report)
    task = {
        "path": [entry for entry in sys.path if entry],
        "package": str(Path(__file__).parents[2]),
        "cpu_s": limits.cpu_s,
        "memory": limits.memory + _DATA_FACTOR * len(data),
        "output": limits.output,
        "name": template.name,
        "source": template.source,
        "limit": asdict(limit),
        "rest": footer,
    }
    with tempfile.TemporaryFile() as given:
        given.write(json.dumps(task).encode() + b"\n" + data)
        given.seek(0)
        command = [sys.executable, "-I", "-S", str(_CHILD)]
        try:
            most = _MAX_CHARACTER * (limits.output + _STATUS)
            ended = run_program(command, {}, code=NO_CODE, timeout_s=limits.wall_s, max_bytes=most, input_file=given)
        except ProgramError as error:
            raise TemplateError(f"{template.name}: {error}") from error
    status, _, text = ended.output.lossy_text().partition("\n")
    if ended.code != 0 or status not in ("made", "failed"):
        # The system killed the process, so there is no reason or line.
        raise TemplateError(f"{template.name}: used more than {limits.cpu_s} s of processor time or too much memory")
    if status == "failed":
        raise TemplateError(one_line(text, 600))
    return text
