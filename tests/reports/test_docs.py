"""docs/reports.md names every field, filter and limit there is."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

from holodeck_action.decide.consumption import Spend
from holodeck_action.decide.verdict import Counts, GateVerdict, PanelSummary
from holodeck_action.reports.comment.size_limit import CHECK, COMMENT
from holodeck_action.reports.custom import LIMITS
from holodeck_action.reports.formats import COLUMNS, FORMATS
from holodeck_action.reports.history import FlakyCase, History, Trend
from holodeck_action.reports.report_views import (
    CaseView,
    ConversationView,
    MetricView,
    Report,
    ReportProvenance,
    RunView,
    SkippedMetric,
    TurnView,
)
from holodeck_action.reports.templating import markdown_environment, template_folder

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in ("reports.md", "templates.md"))


def names_after(title: str) -> list[str]:
    """The names in the first column of the table that follows a line."""
    table = PAGE.partition(f"\n{title}\n")[2].lstrip().partition("\n\n")[0]
    cells = [line.replace(r"\|", "").split("|")[1] for line in table.splitlines()[2:]]
    return [name for cell in cells for name in re.findall(r"`-*(\w+)", cell)]


def test_every_field_is_documented() -> None:
    documented = {
        "`report`:": Report,
        "`counts`:": Counts,
        "A gate:": GateVerdict,
        "A metric:": MetricView,
        "A case:": CaseView,
        "A turn:": TurnView,
        "A whole conversation:": ConversationView,
        "A panel:": PanelSummary,
        "A skipped metric:": SkippedMetric,
        "`history`, of at most 20 runs, oldest first; incomplete and filtered runs are not counted:": History,
        "A trend:": Trend,
        "A flaky case:": FlakyCase,
        "`spend`:": Spend,
        "`provenance`:": ReportProvenance,
        "`run`:": RunView,
    }
    for title, value in documented.items():
        assert sorted(names_after(title)) == sorted(value.__struct_fields__), title


def test_every_filter_is_documented() -> None:
    own = markdown_environment().filters.keys() - ImmutableSandboxedEnvironment().filters.keys()
    start = PAGE.index("| filter | result |")
    rows = PAGE[start : PAGE.index("\n\n", start)].splitlines()[2:]
    assert sorted(own) == sorted(name for row in rows for name in re.findall(r"`(\w+)", row.split("|")[1]))


def test_formats_blocks_columns_and_limits_are_the_documented_ones() -> None:
    listed = re.findall(r"^\| `(\w+)` \| [a-zJ]", PAGE, re.MULTILINE)[: len(FORMATS) + 1]
    assert sorted(listed) == sorted((*FORMATS, "html"))
    template = (template_folder() / "summary.md.j2").read_text(encoding="utf-8")
    for block in re.findall(r"{% block (\w+)", template):
        assert f"`{block}`" in PAGE
    assert ", ".join(f"`{name}`" for name in COLUMNS) in " ".join(PAGE.split())
    flat = " ".join(PAGE.split())
    assert f"a comment {COMMENT.bytes:,}, the summary of a check {CHECK.bytes:,}" in flat
    limits = f"{LIMITS.cpu_s} s of processor time, {LIMITS.wall_s:g} s in all, {LIMITS.memory >> 20} MiB beside"
    assert f"{limits} the report's own data, {LIMITS.output >> 20} million characters of output" in flat
