"""Changes single values of a YAML file at their place; every other byte of the file stays."""

from __future__ import annotations

import difflib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from holodeck_action.extensions.race.variants import Value
from holodeck_action.record.disk import Disk, stage_file
from holodeck_action.suite.checkout import MOST_YAML, Checkout
from holodeck_action.suite.errors import printable
from holodeck_action.suite.yaml import document
from holodeck_action.suite.yaml.reading import read_yaml
from holodeck_action.text.foreign import Foreign

_NEVER_PLAIN = ("&", "!", "|", ">", "*")
"""First characters of a value with an anchor or tag, of a text block, and of a reference to another value."""


class EditError(Exception):
    """A file cannot be changed. The message is a clause whose subject is the file's name."""


def edit_scalars(content: Foreign, values: Mapping[document.Path, Value]) -> bytes:
    """Return a YAML file in which the scalars at some paths have other values.

    A value keeps its quotes. The changed file is read again: it must have the new values, and no other difference.

    Raises:
        EditError: a path does not lead to a plain value, or the value cannot be changed without changing another.
    """
    data: bytes = content.parse(bytes)
    root = _read(data)
    text = content.text()
    mark = data[: len(data) - len(text.encode())]
    try:
        spans = dict(_scalar_spans(text))
    except yaml.YAMLError:
        raise EditError("has characters that only JSON allows; change the values yourself") from None
    wanted = _plain(root)
    edits = []
    for place, value in values.items():
        name = ".".join(map(str, place))
        parent = _parent(wanted, place)
        if parent is None:
            raise EditError(f"has no {name} to change; write the setting into the file first")
        span = spans.get(document.position_of(root, place))
        written = "" if span is None else text[slice(*span)]
        if span is None or not written or written.startswith(_NEVER_PLAIN) or "$" in written:
            raise EditError(f"{name} is no plain value, but has a variable, an anchor or a tag; write a plain value")
        new = _write(value, written)
        parent[place[-1]] = _read_scalar(new)
        edits.append((span, new))
    for (start, end), new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    changed = mark + text.encode()
    if _plain(_read(changed)) != wanted:
        names = ", ".join(".".join(map(str, place)) for place in values)
        raise EditError(f"{names} cannot be changed without another change; write a plain value")
    return changed


def diff_lines(before: Foreign, after: bytes, name: str) -> Iterator[str]:
    """Yield the lines of the unified diff of two versions of a file."""
    old, new = before.text().splitlines(), Foreign(after).text().splitlines()
    yield from map(printable, difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm=""))


def replace_file(path: Path, before: Foreign, after: bytes, disk: Disk) -> None:
    """Replace a file's content atomically; a link stays a link, and the file keeps its mode.

    Raises:
        EditError: the file was changed since `before` was read.
        OSError: the file cannot be read or written.
    """
    real = Path(os.path.realpath(path))
    if Checkout.unbounded(real.parent).read(real.name, MOST_YAML).digest() != before.digest():
        raise EditError("was changed in the meantime, and stays as it is")
    with stage_file(real, [after], disk) as temporary:
        shutil.copymode(real, temporary)
        disk.replace((temporary, real))


def _read(data: bytes) -> Any:
    return read_yaml(Foreign(data), file="", environ={}).root


def _read_scalar(text: str) -> Any:
    return _read(f"- {text}".encode())[0]


def _scalar_spans(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield line and column of each scalar, counted from 1, with the indexes of its start and end."""
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        start, end = event.start_mark, event.end_mark
        if isinstance(event, yaml.ScalarEvent) and start is not None and end is not None:
            yield (start.line + 1, start.column + 1), (start.index, end.index)


def _plain(value: Any) -> Any:
    """Return a copy of a document's data without positions."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _parent(root: Any, place: document.Path) -> Any:
    """Return the mapping that has the last key of a path; None if the path does not exist."""
    found = root
    for part in place[:-1]:
        inside = part in found if isinstance(found, dict) else isinstance(found, list) and part in range(len(found))
        if not inside:
            return None
        found = found[part]
    return found if isinstance(found, dict) and place[-1] in found else None


def _write(value: Value, written: str) -> str:
    """Return a value as YAML, in the quotes of the value that it replaces."""
    if isinstance(value, float):
        # YAML reads 1e-05 as text.
        text = format(Decimal(repr(value)), "f")
    else:
        text = json.dumps(value) if isinstance(value, bool) else str(value)
    if written.startswith("'"):
        return "'" + text.replace("'", "''") + "'"
    if written.startswith('"') or (isinstance(value, str) and _read_scalar(text) != value):
        return json.dumps(text, ensure_ascii=False)
    return text
