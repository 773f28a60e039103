"""The metrics of this package: those of the modules beside and below this one, and those of its extensions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from inspect import get_annotations
from types import ModuleType

import holodeck_action.metrics
from holodeck_action.seam import registry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.text.foreign import read_file

_ROOMS = ("", "judging", "tools")
_MARK = b"Role.KIND] = "
"""In the source of each module that defines a metric; a test imports all others, too."""


@cache
def built_in() -> MetricTypes:
    """Return the metrics of this package, each imported when it is asked for.

    Those who look through all of them import every module beside this one, so none of them may import anything heavy;
    what is heavy is imported where it is used, or is in a package of its own.
    """
    return MetricTypes(_BuiltIn())


class _BuiltIn(Mapping[str, type[Metric]]):
    """The classes by type: a suite names few of them, and to import all takes longer than to read a small suite."""

    def __init__(self) -> None:
        self._found: dict[str, type[Metric]] = {}

    def __getitem__(self, kind: str) -> type[Metric]:
        if kind not in self._found:
            self._found.update((type_of(metric), metric) for metric in self._likely(kind))
        return self._found[kind] if kind in self._found else self._all[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def _likely(self, kind: str) -> Iterator[type[Metric]]:
        """Yield the metric that an extension declares, or those of modules whose source has this type as a default."""
        declared = registry.metrics().get((kind, ""))
        if declared is not None:
            yield registry.resolve(declared.to)
            return
        for name in _modules(f' = "{kind}"\n'.encode("utf-8", "replace")):
            yield from _defined_in(_imported(name))

    @cached_property
    def _all(self) -> Mapping[str, type[Metric]]:
        own = [metric for name in _modules(_MARK) for metric in _defined_in(_imported(name))]
        declared = [registry.resolve(metric.to) for metric in registry.metrics().values() if not metric.name]
        return in_order([*own, *declared]).classes


def in_order(metrics: Iterable[type[Metric]]) -> MetricTypes:
    """Return metrics by type, in the order in which messages list them."""
    ordered = sorted(metrics, key=lambda metric: (metric.PLACE, type_of(metric)))
    return MetricTypes({type_of(metric): metric for metric in ordered})


def type_of(metric: type[Metric]) -> str:
    """Return the value of `type`."""
    return str(metric.model_fields["type"].default)


def _modules(written: bytes) -> Iterator[str]:
    """Yield the modules whose source holds this, by their names below this package."""
    root = os.path.dirname(__file__)
    for room in _ROOMS:
        folder = os.path.join(root, room)
        for file in sorted(os.listdir(folder)):
            name, ending = os.path.splitext(file)
            if ending == ".py" and written in _content(os.path.join(folder, file)):
                yield f"{room}.{name}" if room else name


def _content(path: str) -> bytes:
    with suppress(OSError):
        return read_file(path).parse(bytes)
    return b""


def _imported(name: str) -> ModuleType:
    return importlib.import_module(f"{holodeck_action.metrics.__name__}.{name}")


def _defined_in(module: ModuleType) -> Iterator[type[Metric]]:
    for found in vars(module).values():
        own = isinstance(found, type) and issubclass(found, Metric) and found.__module__ == module.__name__
        # One that inherits its type is a metric of that type.
        if own and "type" in get_annotations(found):
            yield found
