"""The pages of the tour: an index as HTML and Markdown, and each comment as Markdown and as it looks on GitHub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.render_comment_picture import comment_page
from scripts.tour.story import Desk
from scripts.tour.tour import Played, PlayedStep

_REPORTS = {
    "report.html": "viewer",
    "report.md": "report",
    "leaderboard.md": "leaderboard",
}


def write_pages(steps: Sequence[PlayedStep], output: Path) -> None:
    """Write the pages into the folder of the tour."""
    shown = [_shown(step, output) for step in steps]
    for name, escaped in (("index.html", True), ("index.md", False)):
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=escaped,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        text = environment.get_template(f"{name}.j2").render(steps=shown)
        output.joinpath(name).write_text(text, encoding="utf-8")


def _shown(step: PlayedStep, output: Path) -> dict[str, Any]:
    return {
        "title": step.step.title,
        "shows": step.step.shows,
        "patch": step.patch,
        "pull": step.number if step.step.patch else 0,
        "problems": step.problems,
        "runs": [_shown_run(run, output) for run in step.runs],
    }


def _shown_run(run: Played, output: Path) -> dict[str, Any]:
    folder = output / run.folder
    folder.mkdir(parents=True, exist_ok=True)
    links = {}
    if run.comment:
        folder.joinpath("comment.md").write_text(run.comment, encoding="utf-8")
        folder.joinpath("comment.html").write_text(comment_page(run.comment), encoding="utf-8")
        links = {"comment.html": "comment", "comment.md": "as Markdown"}
    if isinstance(run.run, Desk):
        name = f"$ {run.run.command}"
        folder.joinpath("output.txt").write_text(run.said, encoding="utf-8")
    else:
        name = f"{run.run.workflow} on {run.run.event.replace('.', ' ')}"
        folder.joinpath("summary.md").write_text(run.said, encoding="utf-8")
        folder.joinpath("summary.html").write_text(comment_page(run.said), encoding="utf-8")
        links["summary.html"] = "job summary"
    links |= {file: title for file, title in _REPORTS.items() if folder.joinpath(file).exists()}
    return {
        "name": name,
        "code": run.code,
        "expected": run.run.exit,
        "links": {f"{run.folder}/{file}": title for file, title in links.items()},
        "comment": f"{run.folder}/comment.html" if run.comment else "",
        "said": run.said if isinstance(run.run, Desk) else "",
        "annotations": [*map(_annotation_text, run.annotations)],
        "problems": run.problems,
    }


def _annotation_text(mark: Mapping[str, Any]) -> str:
    message = " · ".join(mark["message"].splitlines())
    return f"{mark['path']}:{mark['start_line']} {mark['annotation_level']}: {message}"
