"""The metrics of this package: one for each module beside this one that defines one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from types import ModuleType

import holodeck_action.metrics
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.text.foreign import read_file


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
        """Yield the metrics of the modules whose source gives this type as a default; none where there is no source."""
        written = f' = "{kind}"\n'.encode("utf-8", "replace")
        folder = os.path.dirname(__file__)
        for file in sorted(os.listdir(folder)):
            name, ending = os.path.splitext(file)
            if ending == ".py" and written in _content(os.path.join(folder, file)):
                yield from _defined_in(_imported(name))

    @cached_property
    def _all(self) -> Mapping[str, type[Metric]]:
        import pkgutil

        modules = pkgutil.iter_modules(holodeck_action.metrics.__path__)
        names = sorted(found.name for found in modules if not found.ispkg)
        return in_order(metric for name in names for metric in _defined_in(_imported(name))).classes


def in_order(metrics: Iterable[type[Metric]]) -> MetricTypes:
    """Return metrics by type, in the order in which messages list them."""
    ordered = sorted(metrics, key=lambda metric: (metric.PLACE, type_of(metric)))
    return MetricTypes({type_of(metric): metric for metric in ordered})


def type_of(metric: type[Metric]) -> str:
    """Return the value of `type`."""
    return str(metric.model_fields["type"].default)


def _content(path: str) -> bytes:
    with suppress(OSError):
        return read_file(path).parse(bytes)
    return b""


def _imported(name: str) -> ModuleType:
    return importlib.import_module(f"{holodeck_action.metrics.__name__}.{name}")


def _defined_in(module: ModuleType) -> Iterator[type[Metric]]:
    for found in vars(module).values():
        own = isinstance(found, type) and issubclass(found, Metric) and found.__module__ == module.__name__
        if own and "type" in found.model_fields:
            yield found
