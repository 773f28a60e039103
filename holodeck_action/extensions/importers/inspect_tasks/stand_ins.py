"""Stand-ins for Inspect's decorators and datasets; everything else of it is recorded as it is constructed.

This module runs in the process of `recorder`, with the standard library alone.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holodeck_action.extensions.importers.deepeval.stand_ins import RUN, Recorded, UnknownValueError, stand_in_class

_FIELDS = ("input", "target", "choices", "id", "sandbox", "files", "setup")


def task(*args: Any, **kwargs: Any) -> Any:
    """Mark a function as a task."""

    def mark(function: Any) -> Any:
        function.is_task = True
        return function

    return mark(args[0]) if args and callable(args[0]) else mark


def json_dataset(json_file: Any, sample_fields: Any = None, *args: Any, **kwargs: Any) -> Sequence[Any]:
    """Return the samples of a file of JSON or JSON Lines."""
    file = _path(json_file)
    with open(file, encoding=kwargs.get("encoding", "utf-8")) as opened:
        if file.endswith(".jsonl"):
            rows = [(number, json.loads(line)) for number, line in enumerate(opened, 1) if line.strip()]
        else:
            loaded = json.load(opened)
            rows = [(1, row) for row in (loaded if isinstance(loaded, list) else [loaded])]
    return _samples(file, rows, sample_fields, args, kwargs)


def csv_dataset(csv_file: Any, sample_fields: Any = None, *args: Any, **kwargs: Any) -> Sequence[Any]:
    """Return the samples of a CSV file."""
    file = _path(csv_file)
    given = {name: kwargs[name] for name in ("fieldnames", "delimiter") if kwargs.get(name) is not None}
    with open(file, encoding=kwargs.get("encoding", "utf-8-sig"), newline="") as opened:
        reader = csv.DictReader(opened, dialect=kwargs.get("dialect", "unix"), **given)
        rows = [(reader.line_num, row) for row in reader]
    return _samples(file, rows, sample_fields, args, kwargs)


def memory_dataset(samples: Any, *args: Any, **kwargs: Any) -> Sequence[Any]:
    """Return the samples."""
    return [*samples]


def _path(name: Any) -> str:
    """Return the path of a file, which is relative to the folder of the task, as in Inspect."""
    if "://" in str(name):
        raise UnknownValueError("its dataset is not a file of the checkout; download it")
    return os.path.join(RUN.folder, str(name))


def _samples(
    file: str, rows: Iterable[tuple[int, Any]], fields: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Sequence[Any]:
    limit = kwargs.get("limit")
    if args or (limit is not None and kwargs.get("shuffle") not in (None, False)):
        raise UnknownValueError("which samples of its dataset it takes is unknown; name the arguments, without shuffle")
    names = {name: vars(fields).get(name, name) if isinstance(fields, Recorded) else name for name in _FIELDS}
    made: list[Any] = []
    for line, row in [*rows][:limit]:
        if callable(fields):
            found = fields(row)
        else:
            found = stand_in_class("Sample")(
                **{name: row[own] for name, own in names.items() if row.get(own) not in (None, "")}
            )
        for sample in found if isinstance(found, list) else [found]:
            RUN.places[id(sample)] = (RUN.shown(file), line, 1)
            made.append(sample)
    return made


INSPECT: Mapping[str, Any] = {
    "task": task,
    "json_dataset": json_dataset,
    "csv_dataset": csv_dataset,
    "MemoryDataset": memory_dataset,
}
