"""Files of a source: which ones, in which order, and their text."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holodeck_action.extensions.knowledge import source_files as sources
from holodeck_action.extensions.knowledge.source_files import (
    SourceFile,
    source_files,
    source_text,
    text_of_html,
    unread_files,
)
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.checkout import Checkout


def write(folder: Path, name: str, content: bytes = b"text") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def within(folder: Path) -> Checkout:
    return Checkout.of(folder, folder)


def names(folder: Path, source: str) -> list[str]:
    return [file.name for file in source_files(source, within(folder), tool="kb")]


def text(folder: Path, name: str) -> str:
    return asyncio.run(source_text(SourceFile(folder / name, name, within(folder))))


def test_a_file_and_a_folder(tmp_path: Path) -> None:
    for name in ("docs/b.md", "docs/a/z.txt", "docs/a.MD", "docs/.git/x.md", "docs/.env", "docs/p.pdf", "docs/i.png"):
        write(tmp_path, name)
    write(tmp_path, "other/x.md")
    (tmp_path / "docs" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "docs" / "linked.md").symlink_to(tmp_path / "other" / "x.md")
    os.mkfifo(tmp_path / "docs" / "pipe.md")
    assert names(tmp_path, "docs") == ["a.MD", "a/z.txt", "b.md", "linked.md", "p.pdf"]
    assert unread_files("docs", within(tmp_path), tool="kb") == ("i.png",)
    # A file that is named is read whatever it is called.
    assert names(tmp_path, "docs/i.png") == ["i.png"]
    assert unread_files("docs/i.png", within(tmp_path), tool="kb") == ()
    assert names(tmp_path, str(tmp_path / "docs/b.md")) == ["b.md"]
    assert names(tmp_path, (tmp_path / "docs/b.md").as_uri()) == ["b.md"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("http://127.0.0.1/a.md", "is remote"),
        ("az://container/a.md", "is remote"),
        ("file://server/a.md", "is on another machine"),
        ("absent", "does not exist (a path relative to agent.yaml)"),
    ],
)
def test_what_is_elsewhere_is_refused(tmp_path: Path, source: str, told: str) -> None:
    with pytest.raises(TargetError) as caught:
        source_files(source, within(tmp_path), tool="kb")
    assert str(caught.value).startswith("tools.kb.source: ")
    assert told in str(caught.value)


def test_sources_are_bounded(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(sources.MOST_BYTES + 1)
    with pytest.raises(TargetError, match=r"\"huge\.txt\" has 50,000,001 bytes; at most 50,000,000 are read"):
        source_files("huge.txt", within(tmp_path), tool="kb")


def test_text_is_utf_8_without_its_mark(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", b"\xef\xbb\xbfgr\xc3\xbcn")
    assert text(tmp_path, "a.txt") == "grün"
    write(tmp_path, "b.txt", "grün".encode("latin-1"))
    with pytest.raises(AgentError) as caught:
        text(tmp_path, "b.txt")
    assert (caught.value.code, caught.value.message) == (
        "tool_unavailable",
        "b.txt: cannot be read: it is not UTF-8 text (line 1)",
    )
    with pytest.raises(AgentError, match=r"absent\.txt: cannot be read: No such file"):
        text(tmp_path, "absent.txt")


def test_trouble_of_the_document_reader_names_the_file(tmp_path: Path) -> None:
    class Broken:
        async def text(self, path: Path, checkout: Checkout) -> str:
            raise ValueError("it has no pages")

    write(tmp_path, "a.pdf")
    with pytest.raises(AgentError, match=r"a\.pdf: cannot be read: it has no pages"):
        asyncio.run(source_text(SourceFile(tmp_path / "a.pdf", "a.pdf", within(tmp_path)), Broken()))


@pytest.mark.parametrize(
    ("html", "plain"),
    [
        ("<h2>Fruit &amp; more</h2><p>one\n two<p>three", "## Fruit & more\n\none two\n\nthree"),
        ("<style>a{}</style><script>if (a < b) {}</script><body>x<noscript>y</noscript></body>", "x"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n\n- b"),
        ("<pre>a\n  b</pre>c<br>d", "a\n  b\n\nc\nd"),
        ("a <b>bold</b> word <!-- no -->&nbsp;<unknown>x</unknown>", "a bold word \xa0x"),
        ("</p></script>x<", "x<"),
    ],
)
def test_html_as_text(html: str, plain: str) -> None:
    assert text_of_html(html) == plain
