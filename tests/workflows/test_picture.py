"""The picture of a comment: what the page shows and loads, and the file that comes of it."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from lxml import html

from scripts.comment_situations import comments
from scripts.render_comment_picture import MOST_BYTES, WIDTH, comment_page, find_browser, photograph
from tests.workflows.files import ROOT

COMMENT = """<!-- holodeck-action:report:x -->
## ❌ Failed: `support`

| Metric | Mean |
| --- | --: |
| `bleu` | 0.91 |

<details>
<summary>21 passing</summary>

- `Return window`

</details>

`<img src=x onerror=alert(1)>`
"""


def test_the_page_shows_the_comment_as_github_does() -> None:
    tree = html.fromstring(comment_page(COMMENT))
    article = tree.find(".//article")
    assert article is not None
    assert [cell.text_content() for cell in article.findall(".//td")] == ["bleu", "0.91"]
    assert article.findtext(".//details/summary") == "21 passing"
    assert article.findtext(".//details/ul/li/code") == "Return window"
    assert not article.findall(".//img")


def test_the_page_loads_nothing() -> None:
    tree = html.fromstring(comment_page(COMMENT))
    assert not tree.xpath("//link | //@src | //@href")
    [policy] = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; ")


def _picture(file: Path, output: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scripts.render_comment_picture", str(file), str(output)],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def comment(tmp_path: Path) -> Path:
    file = tmp_path / "comment.md"
    file.write_text(COMMENT, encoding="utf-8")
    return file


def test_without_a_browser_it_says_how_to_get_one(comment: Path) -> None:
    output = comment.with_suffix(".png")
    ended = _picture(comment, output, PATH=str(comment.parent))
    assert (ended.returncode, ended.stdout, output.exists()) == (1, "", False)
    assert ended.stderr.startswith("Error: there is no Chromium: apt-get install -y chromium")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_the_picture_is_as_high_as_the_comment(comment: Path) -> None:
    output = comment.with_suffix(".png")
    heights = []
    for text in (COMMENT, COMMENT + "\nOne more line\n\nand another\n"):
        comment.write_text(text, encoding="utf-8")
        ended = _picture(comment, output)
        assert ended.returncode == 0, ended.stderr
        width, height = _size(output)
        assert width == 1800
        heights.append(height)
    # Two paragraphs of 21 pixels with 16 between them, at two pixels for each of CSS.
    assert heights[1] - heights[0] == 2 * (2 * 21 + 2 * 16)
    assert output.stat().st_size <= MOST_BYTES


@pytest.mark.full
def test_the_pictures_of_the_documentation_are_of_the_situations_and_small_enough() -> None:
    pictures = {
        picture.stem.removeprefix("comment-"): picture for picture in (ROOT / "docs" / "images").glob("comment-*.png")
    }
    # That of an example is taken with the pictures of its page.
    assert pictures.keys() == comments().keys() | {"skill"}
    for picture in pictures.values():
        assert picture.stat().st_size <= MOST_BYTES
        assert _size(picture)[0] in (900, 1350, 1800)


@pytest.mark.full
def test_every_failing_case_is_named_in_its_comment() -> None:
    for name, (texts, title) in comments().items():
        assert title in texts[0], name


@pytest.mark.full
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_the_first_failing_case_begins_at_the_top(tmp_path: Path) -> None:
    texts, title = comments()["forty-of-two-hundred"]
    taken = photograph(comment_page(*texts, title=title), tmp_path / "comment.png", find_browser(os.environ), WIDTH)
    assert taken.first is not None
    assert taken.first <= 200


def _size(picture: Path) -> tuple[int, int]:
    """Width and height that the header of a PNG file tells."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height
