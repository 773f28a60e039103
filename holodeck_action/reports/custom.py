"""Markdown through a template of the user's own, rendered in a process with limits.

The sandbox keeps a template from attributes, not from time and memory: those the process limits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from holodeck_action.reports.size_limit import IN_THE_RECORD, JOB_SUMMARY, SizeLimit
from holodeck_action.results.report_views import Report
from holodeck_action.results.serialization import to_json
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import open_file
from holodeck_action.text.plain import one_line

MAX_SOURCE = 1024 * 1024
"""Bytes of the largest template."""

_DATA_FACTOR = 12
"""Address space per byte of JSON: parsed and wrapped, it is several times as large."""

_CHILD = Path(__file__).with_name("template_process.py")


class Limits(Struct, frozen=True):
    """What rendering one template may take.

    Attributes:
        cpu_s: processor seconds.
        wall_s: seconds after which the process is ended, whatever it does.
        memory: bytes of address space, beside what the report's own data needs.
        output: characters it may write before it is taken for endless; what is above the report's limit is cut.
    """

    cpu_s: int = 10
    wall_s: float = 60.0
    memory: int = 512 * 1024 * 1024
    output: int = 8 * 1024 * 1024


LIMITS = Limits()


class TemplateError(ConfigurationError):
    """A template cannot be used; the message is one sentence naming the file and, where known, the line."""

    def __init__(self, message: str) -> None:
        super().__init__([message])


class CustomTemplate(Struct, frozen=True):
    """A template of the user's: how its file is called, and its source."""

    name: str
    source: str


def read_template(path: os.PathLike[str]) -> CustomTemplate:
    """Read a template.

    Raises:
        TemplateError: it is missing, too large, or not UTF-8.
    """
    try:
        with open_file(path, None) as file:
            content = file.read(MAX_SOURCE + 1)
        if len(content) > MAX_SOURCE:
            raise TemplateError(f"{path}: is larger than {MAX_SOURCE:,} bytes; give a smaller template")
        return CustomTemplate(one_line(str(path)), content.decode("utf-8"))
    except OSError as error:
        raise TemplateError(f"{path}: cannot be read: {error.strerror}; give the file of a Jinja template") from error
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path}: is not UTF-8 text; save it as UTF-8") from error


def custom_markdown(
    template: CustomTemplate,
    report: Report,
    limit: SizeLimit = JOB_SUMMARY,
    *,
    rest: str = IN_THE_RECORD,
    limits: Limits = LIMITS,
) -> str:
    """Render a report through a template.

    The template sees `report` and `detail` as the built-in one does. `rest` is trusted Markdown.

    Raises:
        TemplateError: the template is wrong, or takes more than its process may use.
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
        "rest": rest,
    }
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as made:
        given.write(json.dumps(task).encode() + b"\n" + data)
        given.seek(0)
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(_CHILD)],
                stdin=given,
                stdout=made,
                stderr=subprocess.DEVNULL,
                env={},
                timeout=limits.wall_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise TemplateError(f"{template.name}: took longer than {limits.wall_s:g} s") from error
        made.seek(0)
        status, _, text = made.read().decode("utf-8", "replace").partition("\n")
    if done.returncode != 0 or status not in ("made", "failed"):
        # The system ended it: Python had no chance to say where it was.
        raise TemplateError(f"{template.name}: used more than {limits.cpu_s} s of processor time or too much memory")
    if status == "failed":
        raise TemplateError(one_line(text, 600))
    return text
