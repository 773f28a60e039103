"""Writes the files of a scenario: text as it is, JSON, JSON lines, spans as OTLP, and tables as .xlsx.

* A list in a file `*.jsonl` has a line for each value. Other values become JSON, which is YAML, too.
* `{otlp: [span, …]}` becomes one request of OTLP. A span has `trace`, `id`, `parent` (small numbers), `name`, `at` and
  `takes` in seconds, `status`, `message`, `events`, and `attributes`, whose lists and mappings become JSON texts.
* `{xlsx: [row, …], merged: [B2:B3]}` becomes a workbook.
* `{many: 60, of: VALUE, from: 1}` in a list becomes 60 values, in which `<n>` is the number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

NIGHT_NS = 1_790_000_000_000_000_000
"""The start of all traces, in nanoseconds since 1970."""
_SECOND_NS = 1_000_000_000
_MARK = "<n>"


def write_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Write files by name."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Mapping) and "xlsx" in content:
            _write_table(path, content["xlsx"], content.get("merged", ()))
        else:
            path.write_text(as_text(name, expand(content)), encoding="utf-8")


def as_text(name: str, content: Any) -> str:
    """Return the text of a file."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping) and "otlp" in content:
        return json.dumps(_request(content["otlp"])) + "\n"
    if isinstance(content, list) and name.endswith(".jsonl"):
        return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in content)
    return json.dumps(content, indent=1, ensure_ascii=False)


def expand(value: Any) -> Any:
    """Return a value whose lists have all copies of their `many`."""
    if isinstance(value, Mapping):
        return {key: expand(each) for key, each in value.items()}
    if isinstance(value, list):
        return [each for item in value for each in _copies(item)]
    return value


def _copies(item: Any) -> Iterator[Any]:
    if not (isinstance(item, Mapping) and "many" in item):
        yield expand(item)
        return
    first = item.get("from", 1)
    for number in range(first, first + item["many"]):
        copy = expand(_numbered(item["of"], number))
        yield from copy if isinstance(copy, list) else (copy,)


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return number if value == _MARK else value.replace(_MARK, str(number))
    if isinstance(value, Mapping):
        return {_numbered(key, number): _numbered(each, number) for key, each in value.items()}
    return [_numbered(each, number) for each in value] if isinstance(value, list) else value


def _write_table(path: Path, rows: Iterable[list[Any]], merged: Iterable[str]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for row in rows:
        sheet.append(row)
    for cells in merged:
        sheet.merge_cells(cells)
    book.save(path)


def _request(spans: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    scope = {"scope": {"name": "shop"}, "spans": [_span(**each) for each in spans]}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def _span(
    trace: int,
    id: int,
    name: str,
    attributes: Mapping[str, Any],
    parent: int = 0,
    at: float = 0,
    takes: float = 1,
    status: int | str | None = None,
    message: str = "",
    events: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    start = NIGHT_NS + int(at * _SECOND_NS)
    state = {} if status is None else {"status": {"code": status, "message": message}}
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{id:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(takes * _SECOND_NS)),
        "attributes": _attributes(attributes),
        "events": [
            {"name": each["name"], "timeUnixNano": str(start), "attributes": _attributes(each.get("attributes", {}))}
            for each in events
        ],
        **state,
    }


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(each)} for key, each in values.items()]


def _value(of: Any) -> dict[str, Any]:
    if isinstance(of, bool):
        return {"boolValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    if isinstance(of, float):
        return {"doubleValue": of}
    return {"stringValue": of if isinstance(of, str) else json.dumps(of)}
