"""Markdown as CommonMark and GFM parsers see it: tokens, and what may be among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

OUR_HTML = {
    "<details>",
    "<details open>",
    "</details>",
    "<summary>Copy for a coding agent</summary>",
    "<summary>More failing cases</summary>",
    "<summary>All terms that differ from the base</summary>",
}

_COUNTED = re.compile(r"<summary>\d+ (passing|cases? by trial|quarantined, without effect on the verdict)</summary>")

STRUCTURE = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "fence", "html_block", "hr"),
    *("table_open", "table_close", "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close"),
    *("th_open", "th_close", "td_open", "td_close", "bullet_list_open", "bullet_list_close"),
    *("ordered_list_open", "ordered_list_close", "list_item_open", "list_item_close"),
}
INLINE = {"text", "code_inline", "softbreak", "strong_open", "strong_close", "em_open", "em_close"}
PROSE = {"html_inline", "blockquote_open", "blockquote_close"}
"""Besides, where untrusted words stand as prose."""

_OUR_TAGS = {"<b>", "</b>", "<br>", "<del>", "</del>", "<sub>", "</sub>"}
_ACTS = re.compile(
    r"@|(?<!&)#\d|\bgh-\d|://|\bwww\.|:[\w+-]+:|\$(?!\d)|\b[0-9a-f]{7,64}\b|[<>`|]|\w\.[a-z]{2}", re.IGNORECASE
)
"""What GitHub makes more than text of, after rendering, or a mail program does."""
_OUR_WORDS = re.compile(r"is in results\.json|\bpass[@^](\d+|k)\b|^\|( [\w ]*\|)+$", re.MULTILINE)
"""Words of ours that look like that, and the head of a table of ours of which the rest was cut."""

# linkify finds addresses in the parsed text, as GitHub does after rendering.
_PARSERS = (MarkdownIt("gfm-like", {"linkify": True}), MarkdownIt("commonmark").enable(["table", "strikethrough"]))


def parses(text: str) -> list[list[Token]]:
    """Parse with links found in text and without."""
    return [parser.parse(text) for parser in _PARSERS]


def leaves(tokens: list[Token]) -> Iterator[Token]:
    """Yield every token, those inside lines included."""
    for token in tokens:
        yield token
        yield from token.children or ()


def check_structure(
    text: str, sentinel: str, *, ours: Callable[[str], object], link: re.Pattern[str] | None = None, prose: bool = False
) -> None:
    """Check that a text's structure is ours alone, and that `sentinel` stands only in code, or in words of prose.

    Args:
        text: Markdown.
        sentinel: is in every hostile text, and in none of ours.
        ours: tells whether a line of HTML is one that we make.
        link: the addresses that we link to; None where there are no links.
        prose: whether untrusted words stand as prose, too, in which nothing acts.
    """
    allowed = STRUCTURE | INLINE | ({"link_close"} if link else set()) | (PROSE if prose else set())
    for tokens in parses(text):
        depth = 0
        for token in leaves(tokens):
            if link and token.type == "link_open":
                assert link.fullmatch(str(token.attrs["href"])), token.attrs
                continue
            assert token.type in allowed, (token.type, token.content[:200])
            if token.type == "html_block":
                for line in filter(None, token.content.splitlines()):
                    assert ours(line), line[:300]
                    depth += line.startswith("<details") - line.startswith("</details")
                    assert depth in (0, 1)
            elif token.type == "html_inline":
                assert token.content in _OUR_TAGS, token.content
            elif prose and token.type == "text":
                assert not _ACTS.search(_OUR_WORDS.sub("", token.content)), token.content
            elif token.type not in ("code_inline", "fence", "inline"):
                assert sentinel not in token.content, (token.type, token.content[:200])
        assert depth == 0
        assert all(closed(token) for token in tokens if token.type == "fence")


def check_inert(text: str, sentinel: str) -> None:
    """Check a report in a file, which has no links."""
    check_structure(text, sentinel, ours=lambda line: line in OUR_HTML or _COUNTED.fullmatch(line), prose=True)


def closed(fence: Token) -> bool:
    """Tell whether a fence ends before the text does."""
    assert fence.map is not None
    return fence.map[1] - fence.map[0] == fence.content.count("\n") + 2


def rows(tokens: list[Token]) -> list[list[list[Token]]]:
    """Return every table row as its cells, each a list of tokens."""
    found: list[list[list[Token]]] = []
    for token, following in pairwise(tokens):
        if token.type == "tr_open":
            found.append([])
        elif token.type in ("td_open", "th_open"):
            found[-1].append(following.children or [])
    return found
