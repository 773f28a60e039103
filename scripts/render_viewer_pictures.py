"""Take the pictures of the viewer in docs/images from recordings of examples/support and examples/skill.

    python -m scripts.render_viewer_pictures

The script makes three runs without a model: of the recorded model calls, of the recorded conversations, and of these
with different answers in two cases, as from an earlier version of the agent. Chromium opens the page of the first run,
a comparison of the other two, and all three in one table. Of the recorded trials of examples/skill, there is a case and
the comment. Needs what `make browser-test` installs, and pngquant.

Environment: CHROMIUM, the browser to use (default: chromium, chromium-browser or google-chrome on the PATH).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holodeck_action.record.result_files import read_record
from scripts.comment_situations import comment_of
from scripts.render_comment_picture import BROWSER_OPTIONS, WIDTH, comment_page, find_browser, shrink
from scripts.render_comment_picture import photograph as photograph_comment

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
MOST_BYTES = 200_000
"""Most bytes of a picture, which every reader of the page downloads."""
_SCALES = (2.0, 1.5, 1.0)
_LAPTOP = (1280, 800)
_PHONE = (390, 780)


@dataclass(frozen=True)
class Picture:
    """A picture to take: a part of a page, after some actions of a user."""

    name: str
    page: str
    place: str = ""
    scheme: str = "light"
    size: tuple[int, int] = _LAPTOP
    do: Callable[[Page], object] = lambda page: None


def _open_difference(page: Page) -> None:
    page.click("text=Trajectory: ")
    page.click("summary:has-text('modified')")
    page.locator(".item pre.diff").scroll_into_view_if_needed()


BEFORE = {
    "Opened bag of coffee": "Sorry, we cannot take back opened bags of coffee for reasons of hygiene. If the beans are "
    "stale or damaged, just send us a photo and we replace the bag free of charge.",
    "Return window": "Just send it back whenever you like.",
}
"""Answers of the earlier version, by case."""
PICTURES = (
    Picture("overview", "run"),
    Picture("table", "run", do=lambda page: page.keyboard.press("g")),
    Picture(
        "case", "run", "#case=return-of-a-milk-jug", do=lambda page: page.click("summary:has-text('start_return')")
    ),
    Picture("diff", "run", "#case=cancel-an-order", do=lambda page: page.keyboard.press("d")),
    Picture("compare", "compared", "#compare", do=lambda page: page.keyboard.press("j")),
    Picture("changes", "compared", "#compare", do=lambda page: page.wait_for_selector(".paired .bad")),
    Picture("runs", "runs", do=lambda page: page.wait_for_selector(".grid .row")),
    Picture("dark", "run", "#metrics", scheme="dark"),
    Picture("skill", "skill", "#case=no-refund-twice", do=_open_difference),
    Picture("phone", "run", "#case=return-of-a-milk-jug", size=_PHONE),
)


def make_pages(folder: Path) -> Mapping[str, Path]:
    """Make the runs and their pages in a folder; return the pages by name."""
    support = folder / "support"
    shutil.copytree(ROOT / "examples" / "support", support)
    environ = {**os.environ, "OPENAI_BASE_URL": "http://localhost/v1"}

    def command(*arguments: str) -> str:
        return _command(arguments, support, environ)

    command("run", "-o", "replayed", "--target", "model", "--replay", "cassette")
    command("report", "replayed/results.json", "--format", "html", "-o", "run.html")
    command("run", "-o", "now")
    transcripts = support / "transcripts.jsonl"
    rows = [json.loads(line) for line in transcripts.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["response"] = BEFORE.get(row["case"], row["response"])
    transcripts.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    command("run", "-o", "before")
    compared = support / "compared.html"
    compared.write_text(command("compare", "before", "now", "--format", "html"), encoding="utf-8")
    command("report", "now", "before", "replayed", "--format", "html", "-o", "runs.html")
    skill = folder / "skill"
    shutil.copytree(ROOT / "examples" / "skill", skill)
    _command(("run", "-o", "out", "--replay", "cassette"), skill, os.environ)
    pages = {"run": support / "run.html", "compared": compared, "runs": support / "runs.html"}
    return {**pages, "skill": skill / "out" / "report.html"}


def _command(arguments: tuple[str, ...], folder: Path, environ: Mapping[str, str]) -> str:
    """Run a command of the product and return its output; cases of the example fail on purpose."""
    program = (sys.executable, "-m", "holodeck_action.cli", *arguments)
    ended = subprocess.run(program, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise click.ClickException(ended.stderr.strip())
    return ended.stdout


def photograph(page_files: Mapping[str, Path], output: Path) -> None:
    """Take all pictures, each at the highest resolution within `MOST_BYTES`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=find_browser(os.environ), args=list(BROWSER_OPTIONS))
        for picture in PICTURES:
            file = output / f"viewer-{picture.name}.png"
            for scale in _SCALES:
                width, height = picture.size
                page = program.new_page(
                    viewport={"width": width, "height": height},
                    device_scale_factor=scale,
                    color_scheme=picture.scheme,
                )
                page.goto(page_files[picture.page].as_uri() + picture.place)
                page.wait_for_selector(".turn" if "case=" in picture.place else ".app")
                picture.do(page)
                page.wait_for_timeout(500)
                page.screenshot(path=file)
                page.close()
                shrink(file)
                if file.stat().st_size <= MOST_BYTES:
                    break
            else:
                raise click.ClickException(f"{file} has more than {MOST_BYTES:,} bytes: choose a smaller part")
            click.echo(f"{file}: {file.stat().st_size:,} bytes, {scale:g} pixels for each of CSS")
        program.close()


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.argument("output", type=click.Path(file_okay=False, path_type=Path), default=ROOT / "docs" / "images")
def main(output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pages = make_pages(Path(folder))
        photograph(pages, output)
        comment = comment_of(read_record(pages["skill"].parent / "results.json"))
        photograph_comment(comment_page(comment), output / "comment-skill.png", find_browser(os.environ), WIDTH)


if __name__ == "__main__":
    main()
