"""The viewer's page, read as its script reads it, and as somebody does who looks for what should not be there."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cached_property
from html.parser import HTMLParser
from typing import Any

_VOID = ("meta",)


class Page(HTMLParser):
    """A page's elements with their attributes, in order, and whether every one was closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stray: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.stray += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "style":
            self.styles.append("")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.stray.append(tag)

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._open and self._open[-1] == "style":
            self.styles[-1] += data

    def handle_comment(self, data: str) -> None:
        self.stray.append(f"<!--{data}")

    @property
    def policy(self) -> str:
        """Its content security policy."""
        (found,) = (one["content"] for _, one in self.elements if one.get("http-equiv") == "Content-Security-Policy")
        return str(found)

    @cached_property
    def head(self) -> dict[str, Any]:
        """What it says before any case."""
        (text,) = (text for attributes, text in self.scripts if attributes.get("id") == "head")
        head: dict[str, Any] = json.loads(text)
        return head

    @cached_property
    def blocks(self) -> list[dict[str, Any]]:
        """Its cases, as the page has them."""
        (text,) = (text for attributes, text in self.scripts if attributes.get("id") == "index")
        blocks: list[dict[str, Any]] = _unpacked(text)
        return blocks

    @cached_property
    def index(self) -> dict[str, Any]:
        """Its cases, column by column."""
        index: dict[str, Any] = {}
        for block in self.blocks:
            for name, column in block.items():
                index.setdefault(name, []).extend(column)
        index["scores"] = [list(column) for column in zip(*index["scores"], strict=True)]
        return index

    @cached_property
    def details(self) -> dict[str, Any]:
        """What it holds of each case, by id."""
        found: dict[str, Any] = {}
        for attributes, text in self.scripts:
            if attributes.get("class") == "chunk":
                first, count = int(attributes["data-first"] or ""), int(attributes["data-count"] or "")
                found.update(zip(self.index["id"][first : first + count], _unpacked(text), strict=True))
        return found

    def row(self, case: str) -> dict[str, Any]:
        """One case of the index; its scores and outcomes by metric."""
        at = self.index["id"].index(case)
        names = [metric["name"] for metric in self.head["metrics"]]
        row = {name: column[at] for name, column in self.index.items() if name != "scores"}
        row["scores"] = {name: column[at] for name, column in zip(names, self.index["scores"], strict=True)}
        row["metric_outcomes"] = dict(zip(names, row["metric_outcomes"], strict=True))
        return row


def told(text: str) -> str:
    """Return a page with its data unpacked: everything that a reader can find in it; any other text as it is."""
    if not text.startswith("<!DOCTYPE html>"):
        return text
    page = Page(text)
    for attributes, packed in page.scripts:
        if attributes.get("type") == "application/octet-stream":
            # Its letters are those of base64: any four of them are in a large page by chance.
            text = text.replace(packed, "")
    return "\n".join([text, *_texts([page.head, page.index, page.details])])


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _unpacked(text: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(text, validate=True)))
