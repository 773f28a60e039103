"""Take a picture of a comment as it looks on a pull request.

    python -m scripts.render_comment_picture comment.md docs/images/comment.png

The Markdown goes through a renderer of GitHub's dialect and our own stylesheet, which resembles GitHub's light
theme, and Chromium photographs the page: once to learn how high it is, once to take it. On Debian:

    apt-get install -y chromium fonts-liberation fonts-noto-color-emoji pngquant

pngquant can be missing: the picture is less sharp then, because its size is limited.

Environment: CHROMIUM, the browser to use (default: chromium, chromium-browser or google-chrome on the PATH).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
from markdown_it import MarkdownIt

WIDTH = 900
"""CSS pixels: about what GitHub gives a conversation on a laptop."""
MOST_BYTES = 200_000
"""Most bytes of a picture, which every reader of the README downloads."""
_HIGHEST = 8000
_SCALES = (2.0, 1.5, 1.0)
_TIMEOUT_S = 60
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Root cannot have the browser's sandbox; the pages are ours, or run nothing.
BROWSER_OPTIONS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage")
_HOW = (
    "apt-get install -y chromium fonts-liberation fonts-noto-color-emoji pngquant, or set CHROMIUM to a browser's path"
)

_STYLE = """
* { box-sizing: border-box }
body { margin: 0; padding: 16px; background: #fff; color: #1f2328;
       font: 14px/1.5 "Liberation Sans", Arial, "Noto Color Emoji", sans-serif }
.entry { display: flex; gap: 16px; align-items: flex-start } .entry + .entry { margin-top: 16px }
.avatar { flex: none; width: 40px; height: 40px; border-radius: 50%; background: #24292f; color: #fff;
          display: grid; place-items: center }
.comment { flex: 1; min-width: 0; border: 1px solid #d0d7de; border-radius: 6px; position: relative }
.comment::before { content: ""; position: absolute; left: -7px; top: 13px; width: 12px; height: 12px;
                   background: #f6f8fa; border: solid #d0d7de; border-width: 0 0 1px 1px; transform: rotate(45deg) }
header { padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d0d7de; border-radius: 6px 6px 0 0;
         color: #59636e; position: relative }
header b { color: #1f2328 }
.label { border: 1px solid #d0d7de; border-radius: 2em; padding: 0 7px; font-size: 12px; margin-left: 4px }
article { padding: 16px; overflow-wrap: break-word }
article > :first-child { margin-top: 0 }
article > :last-child { margin-bottom: 0 }
h1, h2, h3, h4 { margin: 24px 0 16px; font-weight: 600; line-height: 1.25 }
h1, h2 { padding-bottom: .3em; border-bottom: 1px solid #d1d9e0b3 }
h1 { font-size: 2em } h2 { font-size: 1.5em } h3 { font-size: 1.25em } h4 { font-size: 1em }
p, ul, ol, table, pre, blockquote, details { margin: 0 0 16px }
ul, ol { padding-left: 2em } li > p { margin-bottom: 8px }
a { color: #0969da; text-decoration: underline }
table { border-collapse: collapse; display: block; width: max-content; max-width: 100%; overflow: hidden }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; vertical-align: top }
th { font-weight: 600 } tr:nth-child(2n) td { background: #f6f8fa }
code { font-family: "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: 85%;
       background: #818b981f; padding: .2em .4em; border-radius: 6px; white-space: break-spaces }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; line-height: 1.45; overflow: hidden }
pre code { background: none; padding: 0; white-space: pre }
blockquote { border-left: .25em solid #d1d9e0; color: #59636e; padding: 0 1em }
hr { border: 0; height: 3px; background: #d1d9e0; margin: 24px 0 }
summary { cursor: pointer } details > :nth-child(2) { margin-top: 12px }
sub { font-size: 75%; vertical-align: baseline; color: #59636e }
.alert { border-left: .25em solid; padding: 8px 16px; margin: 0 0 16px }
.alert p { margin: 0; color: #1f2328 } .alert .kind { font-weight: 500; margin-bottom: 4px }
.CAUTION { border-color: #cf222e } .CAUTION .kind { color: #d1242f }
.WARNING { border-color: #9a6700 } .WARNING .kind { color: #9a6700 }
thead:not(:has(th:not(:empty))) { display: none }
"""

_MEASURE = """
const article = document.querySelector("article");
const words = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
const range = document.createRange();
const title = document.body.dataset.title;
while (title && words.nextNode()) {
  if (!words.currentNode.data.includes(title)) continue;
  range.selectNode(words.currentNode);
  document.body.dataset.first = Math.round(range.getBoundingClientRect().top - article.getBoundingClientRect().top);
  break;
}
document.body.dataset.height = Math.ceil(document.querySelector("main").getBoundingClientRect().bottom) + 16;
"""
_ALERT = re.compile(r"<blockquote>\n<p>\[!(CAUTION|WARNING)\]\n(.*?)</p>\n</blockquote>", re.DOTALL)

_COMMENT = """<div class="entry">
<div class="avatar">
<svg width="22" height="22" viewBox="0 0 22 22" fill="none" stroke="currentColor" stroke-width="2">
<rect x="3" y="7" width="16" height="11" rx="3"/><path d="M11 7V3M8 12v2M14 12v2"/></svg>
</div>
<section class="comment">
<header><b>github-actions</b> <span class="label">bot</span> commented now</header>
<article>
{comment}
</article>
</section>
</div>
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'nonce-picture'; style-src-attr 'unsafe-inline';
               script-src 'nonce-picture'">
<title>Comment</title>
<style nonce="picture">{style}</style>
</head>
<body data-title="{title}">
<main>
{comments}
</main>
<script nonce="picture">{measure}</script>
</body>
</html>
"""


class PictureError(Exception):
    """No picture could be taken; the message is a sentence that says what to do."""


def comment_page(*comments: str, title: str = "") -> str:
    """Return an HTML page that shows comments, without external resources and without running scripts of the comments.

    Args:
        comments: the comments as Markdown.
        title: the text whose distance from the top of the first comment is to be measured.
    """
    shown = "".join(_COMMENT.format(comment=_comment_html(markdown)) for markdown in comments)
    return _PAGE.format(style=_STYLE, comments=shown, measure=_MEASURE, title=escape(title, quote=True))


def _comment_html(markdown: str) -> str:
    shown = MarkdownIt("gfm-like", {"html": True}).render(markdown)
    return _ALERT.sub(
        lambda found: f'<div class="alert {found[1]}"><p class="kind">{found[1].title()}</p><p>{found[2]}</p></div>',
        shown,
    )


def find_browser(environ: Mapping[str, str]) -> str:
    """Return the browser to use.

    Raises:
        PictureError: there is none.
    """
    given = environ.get("CHROMIUM")
    for name in (given,) if given else _BROWSERS:
        found = shutil.which(name, path=environ.get("PATH"))
        if found is not None:
            return found
    raise PictureError(f"there is no {given or 'Chromium'}: {_HOW}")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that was taken.

    Attributes:
        scale: picture pixels per CSS pixel.
        height: height of the page in CSS pixels.
        first: distance of the measured text from the top of the comment in CSS pixels; None without such a text.
    """

    scale: float
    height: int
    first: int | None


def photograph(html: str, output: Path, program: str, width: int) -> Picture:
    """Take a picture of a page, trimmed to its height, at the highest resolution within `MOST_BYTES`.

    Args:
        html: the page.
        output: the PNG file to write.
        program: the browser.
        width: width of the page in CSS pixels.

    Raises:
        PictureError: the browser fails, or the picture is too high or too large.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "page.html"
        file.write_text(html, encoding="utf-8")
        measured = _run(program, folder, file, f"--window-size={width},600", "--dump-dom")
        found = re.search(r'data-height="([0-9]+)"', measured)
        first = re.search(r'data-first="([0-9]+)"', measured)
        if found is None:
            raise PictureError(f"{program} did not measure the page: its scripts have to be switched on")
        height = int(found[1])
        if height > _HIGHEST:
            raise PictureError(f"the comment is {height} pixels high, more than {_HIGHEST}: choose a shorter one")
        picture = folder / "page.png"
        for scale in _SCALES:
            size = (f"--window-size={width},{height}", f"--force-device-scale-factor={scale}")
            _run(program, folder, file, *size, f"--screenshot={picture}")
            shrink(picture)
            if picture.stat().st_size <= MOST_BYTES:
                output.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(picture, output)
                return Picture(scale, height, None if first is None else int(first[1]))
    raise PictureError(f"the picture has more than {MOST_BYTES:,} bytes: choose a shorter comment")


def shrink(picture: Path) -> None:
    """Reduce a picture to 256 colours, if pngquant is installed."""
    program = shutil.which("pngquant")
    if program is not None:
        # If the quality would be too low, pngquant ends with 98 or 99 and does not change the file.
        subprocess.run([program, "--force", "--quality=80-100", f"--output={picture}", str(picture)], check=False)


def _run(program: str, folder: Path, file: Path, *arguments: str) -> str:
    command = [
        program,
        "--headless",
        *BROWSER_OPTIONS,
        f"--user-data-dir={folder / 'profile'}",
        *arguments,
        file.as_uri(),
    ]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired as error:
        raise PictureError(f"{program} took more than {_TIMEOUT_S} seconds: try again") from error
    except subprocess.CalledProcessError as error:
        raise PictureError(f"{program} failed: {error.stderr.strip()[-500:]}") from error
    return finished.stdout


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.argument("markdown", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--width", default=WIDTH, show_default=True, type=click.IntRange(320, 2000), help="CSS pixels.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the page there, too.")
def main(markdown: Path, output: Path, width: int, html: Path | None) -> None:
    text = comment_page(markdown.read_text(encoding="utf-8"))
    if html is not None:
        html.write_text(text, encoding="utf-8")
    try:
        taken = photograph(text, output, find_browser(os.environ), width)
    except PictureError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{output}: {output.stat().st_size:,} bytes, {taken.scale:g} pixels for each of CSS")


if __name__ == "__main__":
    main()
