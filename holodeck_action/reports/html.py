"""The HTML page: one file without any script or outside resource."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING

from holodeck_action.reports.templating import html_environment, template_folder, wrap
from holodeck_action.results.views import Report

if TYPE_CHECKING:
    from jinja2 import Template


def html_page(report: Report) -> str:
    """Render a report as a page of its own.

    Its content security policy allows the one style sheet it holds, by hash, and nothing else.
    """
    from markupsafe import Markup

    style = (template_folder() / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return _template().render(report=wrap(report), style=Markup(style), style_hash=digest)  # noqa: S704


@cache
def _template() -> Template:
    return html_environment().get_template("report.html.j2")
