"""The registry of built-in metrics: the metrics of this package and of extensions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from inspect import get_annotations
from types import ModuleType

from holodeck_action.metrics.standard import StandardMetric, standard_name
from holodeck_action.seam import registry
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import MetricTypes
from holodeck_action.text.foreign import read_file

_FOLDER = os.path.dirname(__file__)
_PACKAGES = ("", "judging", "tools")
_METRIC_MARKER = b"Role.KIND] = "
"""A string in the source of every module with a metric, so that these modules can be found without an import; a test
checks this.
"""


@cache
def built_in() -> MetricTypes:
    """Return the built-in metrics, each imported on demand.

    Iteration imports every module of this package, so no module may import heavy libraries at its top.
    """
    return MetricTypes(_BuiltIn())


class _BuiltIn(Mapping[str, type[Metric]]):
    """Metric classes by type, imported on demand, because importing all takes longer than reading a small suite."""

    def __init__(self) -> None:
        self._found: dict[str, type[Metric]] = {}

    def __getitem__(self, kind: str) -> type[Metric]:
        if kind not in self._found:
            self._found.update((metric_type(metric), metric) for metric in self._candidates(kind))
        return self._found[kind] if kind in self._found else self._all[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def _candidates(self, kind: str) -> Iterator[type[Metric]]:
        """Yield the metric that an extension declares for the type `kind`. If no extension declares one, yield all
        metrics of the module with that name, or of the modules that contain `kind` as the default of a field.
        """
        declared = registry.metrics().get((kind, ""))
        if declared is not None:
            yield registry.resolve(declared.to)
            return
        default = f' = "{kind}"\n'.encode("utf-8", "replace")
        namesake = kind.isidentifier() and default in _read_source(os.path.join(_FOLDER, f"{kind}.py"))
        for name in (kind,) if namesake else _modules_containing(default):
            yield from _metrics_in(_import_module(name))

    @cached_property
    def _all(self) -> Mapping[str, type[Metric]]:
        own = [metric for name in _modules_containing(_METRIC_MARKER) for metric in _metrics_in(_import_module(name))]
        declared = [registry.resolve(metric.to) for metric in registry.metrics().values() if not metric.name]
        return order_metrics([*own, *declared]).classes


@cache
def find_public(name: str) -> type[Metric] | None:
    """Return this package's metric with a public name, such as `Length` for `LengthMetric`; None if there is none."""
    for module in _modules_containing(f"class {name}Metric(".encode()):
        found = getattr(_import_module(module), f"{name}Metric", None)
        if isinstance(found, type) and _is_public(found):
            return found
    return None


def public_names() -> dict[str, str]:
    """Return this package's public metrics by name, each as `module:name`."""
    modules = {*_modules_containing(_METRIC_MARKER), *_modules_containing(b"(StandardMetric")}
    classes = [found for name in sorted(modules) for found in vars(_import_module(name)).values()]
    public = [found for found in classes if isinstance(found, type) and _is_public(found)]
    return {found.__name__.removesuffix("Metric"): f"{found.__module__}:{found.__name__}" for found in public}


def _is_public(found: type) -> bool:
    """Return whether a class is a metric that scores an answer alone, without code of a suite."""
    if not issubclass(found, Metric) or found.grader_callables is not Metric.grader_callables:
        return False
    return standard_name(found) is not None or ("type" in get_annotations(found) and found is not StandardMetric)


def order_metrics(metrics: Iterable[type[Metric]]) -> MetricTypes:
    """Return metrics by type, in the order in which messages list them."""
    ordered = sorted(metrics, key=lambda metric: (metric.PLACE, metric_type(metric)))
    return MetricTypes({metric_type(metric): metric for metric in ordered})


def metric_type(metric: type[Metric]) -> str:
    """Return the `type` of a metric in agent.yaml."""
    return str(metric.model_fields["type"].default)


def _modules_containing(content: bytes) -> Iterator[str]:
    """Yield the names, relative to this package, of the modules whose source contains `content`."""
    for package in _PACKAGES:
        folder = os.path.join(_FOLDER, package)
        for file in sorted(os.listdir(folder)):
            name, ending = os.path.splitext(file)
            if ending == ".py" and content in _read_source(os.path.join(folder, file)):
                yield f"{package}.{name}" if package else name


def _read_source(path: str) -> bytes:
    with suppress(OSError):
        return read_file(path).parse(bytes)
    return b""


def _import_module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


def _metrics_in(module: ModuleType) -> Iterator[type[Metric]]:
    for found in vars(module).values():
        own = isinstance(found, type) and issubclass(found, Metric) and found.__module__ == module.__name__
        # A class that inherits its type is not a separate metric.
        if own and "type" in get_annotations(found):
            yield found
