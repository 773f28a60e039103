"""The reports that a run writes beside its results."""

from __future__ import annotations

from collections.abc import Callable

from holodeck_action.reports.budget import JOB_SUMMARY, Budget
from holodeck_action.reports.custom import CustomTemplate, TemplateError, custom_markdown
from holodeck_action.reports.formats import render
from holodeck_action.reports.markdown import IN_THE_RECORD, markdown
from holodeck_action.results.disk import DISK, Disk, write_atomically
from holodeck_action.results.views import Report
from holodeck_action.text.given_paths import GivenPath

REPORT_FILE = "report.md"
JUNIT_FILE = "junit.xml"


def write_reports(
    folder: GivenPath, report: Report, template: CustomTemplate | None, note: Callable[[str], None], disk: Disk = DISK
) -> None:
    """Write report.md and junit.xml; what cannot be made or written is noted in a sentence and changes no verdict.

    Args:
        folder: where they go.
        report: what they show.
        template: what report.md is made with; None for the built-in template.
        note: takes the sentences.
        disk: what they are written with.
    """
    made: dict[str, Callable[[], str]] = {
        REPORT_FILE: lambda: readable(report, template, note),
        JUNIT_FILE: lambda: render(report, "junit"),
    }
    for name, make in made.items():
        try:
            write_atomically(folder.path / name, [make().encode("utf-8", "replace")], disk=disk)
        except OSError as error:
            note(f"{folder / name}: could not be written: {error.strerror}; the verdict stands")
        except Exception as error:  # noqa: BLE001 - a report never hides the verdict
            note(f"{name} has a defect and was not written: {type(error).__name__}: {error}; please report it")


def readable(
    report: Report,
    template: CustomTemplate | None,
    note: Callable[[str], None],
    budget: Budget = JOB_SUMMARY,
    *,
    rest: str = IN_THE_RECORD,
) -> str:
    """Return the Markdown report: through the user's template, or the built-in one where that cannot be used.

    Args:
        report: what to show.
        template: the user's template; None for the built-in one.
        note: takes the sentence that says why the user's template was not used.
        budget: what the text may hold.
        rest: trusted Markdown that says where the rest of a cut report is.
    """
    if template is not None:
        try:
            return custom_markdown(template, report, budget, rest=rest)
        except TemplateError as error:
            note(f"{error}; the built-in report is used instead")
    return markdown(report, budget, rest=rest)
