"""Reuses verdicts of judges: a judge is not called again if every input of an evaluation is unchanged."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct, structs

from holodeck_action import __version__
from holodeck_action.llm.calls import Meter, judge_context, use_context
from holodeck_action.llm.providers import ModelConfigError
from holodeck_action.metrics.base import Around, BaseEvaluator, FollowsSteps
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.params import declared_names
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.record import ToolInvocation, Usage
from holodeck_action.scoring.judges import plans_of
from holodeck_action.scoring.verdict_cache import FORMAT, StoredVerdict, VerdictCache
from holodeck_action.seam import registry
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.model.metric_base import Metric, Role
from holodeck_action.suite.panels import panel_of
from holodeck_action.text.fields import field_names
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.llm.providers import ModelPlan
    from holodeck_action.suite.values import Suite

_EXCLUDED_ROLES = (Role.HANDLING, Role.EFFORT, Role.JUDGES)
"""Roles of the settings that are not part of a metric's identity. Such settings do not affect verdicts, or are part of
the judges' plans.
"""


class Reusable(Struct, frozen=True):
    """A metric whose verdicts can be stored and reused.

    Attributes:
        identity: digest of the metric's version, configuration and judges.
        evaluator: the evaluator that grades if no verdict is stored.
        threshold: the current threshold, applied to a stored verdict if `threshold_free` is true.
        threshold_free: whether the score does not depend on the threshold (`SCORE_IS_THRESHOLD_FREE`, and no panel).
        judge_writes_steps: whether the judge first writes the evaluation steps, because the suite gives only criteria.
    """

    identity: str
    evaluator: BaseEvaluator
    threshold: float | None
    threshold_free: bool
    judge_writes_steps: bool


class Reuse:
    """Finds and stores the verdicts of a suite's metrics with judges.

    * A verdict is reused after a change of the threshold if the metric has `SCORE_IS_THRESHOLD_FREE` and is graded by a
      single judge. The scores of panels and of the other metrics, such as presets, depend on the threshold.
    * Only completed evaluations are stored: no errors, no refusals, and no verdicts that contain an error.
    * For a composite, the verdicts of its judged members are stored, but not the composite's verdict, because other
      members may be graders of the suite.
    * No verdict is stored if judges must write evaluation steps and the score depends on the threshold.
    """

    def __init__(
        self,
        suite: Suite,
        environ: Mapping[str, str],
        cache: VerdictCache,
        redactor: Redactor,
    ) -> None:
        """Store the arguments; nothing is read.

        Args:
            suite: the suite.
            environ: environment variables, with keys and URLs that model references omit.
            cache: the stored verdicts.
            redactor: masks secrets in inputs before they are hashed.
        """
        self._suite = suite
        self._environ = environ
        self._cache = cache
        # A stored verdict must be found again by the next version.
        self._redactor = redactor.declared
        self._metrics: dict[tuple[int, int], tuple[Metric, BaseEvaluator, Reusable | None]] = {}

    def close(self) -> None:
        """Close the cache."""
        self._cache.close()

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about problems with the cache, one sentence each."""
        trouble = self._cache.trouble
        return () if trouble is None else (f"the cache of verdicts could not be used: {trouble}",)

    def find(
        self, config: Metric, evaluator: BaseEvaluator, inputs: Mapping[str, Any], trial: int
    ) -> StoredVerdict | None:
        """Return the stored verdict on these inputs; None if no verdict is stored. Verdicts on a composite as a whole
        are never stored.

        Args:
            config: the metric, or a part of a composite.
            evaluator: evaluator of the metric.
            inputs: the evaluator's inputs, by the names that it declares.
            trial: index of the trial; each trial has its own verdicts.
        """
        if config.HAS_MEMBERS:
            return None
        reusable = self._reusable(config, evaluator)
        key = None if reusable is None else self._key(reusable, inputs, trial)
        found = None if key is None else self._cache.read(key)
        if found is not None and reusable is not None and reusable.threshold_free:
            found = structs.replace(found, result=replace(found.result, threshold=reusable.threshold, passed=None))
        return found

    def keep(
        self,
        config: Metric,
        evaluator: BaseEvaluator,
        inputs: Mapping[str, Any],
        trial: int,
        result: EvaluationResult,
        duration_ms: float,
        usage: Usage | None,
        calls: Iterable[str],
    ) -> None:
        """Store a verdict, unless it needed no model call or contains an error.

        `calls` are the keys of the evaluation's model calls. See `find` for the other arguments.
        """
        reusable = self._reusable(config, evaluator)
        if reusable is None or usage is None or _has_error(result.metadata):
            return
        if reusable.judge_writes_steps and (result.evaluation_steps is None or not self._store_steps(reusable, result)):
            return
        key = self._key(reusable, inputs, trial)
        if key is not None:
            self._cache.write(key, StoredVerdict(result, duration_ms, usage, frozenset(calls)))

    def find_probe(self, key: str) -> StoredVerdict | None:
        """Return the stored verdict of a judge's probe; None if it is not stored."""
        return self._cache.read(key)

    def keep_probe(self, key: str, verdict: StoredVerdict) -> None:
        """Store a verdict of a judge's probe."""
        self._cache.write(key, verdict)

    def _store_steps(self, reusable: Reusable, result: EvaluationResult) -> bool:
        """Store the evaluation steps that a judge has just written; return False if the result was not based on
        them."""
        steps = self._steps(reusable)
        if steps is None or steps != result.evaluation_steps:
            return False
        if self._cache.read_steps(reusable.identity) != steps:
            self._cache.write_steps(reusable.identity, steps)
        return True

    def _steps(self, reusable: Reusable) -> tuple[str, ...] | None:
        """Return the evaluation steps written by the judge, in this run or an earlier one; None if there are none
        yet."""
        evaluator = reusable.evaluator
        assert isinstance(evaluator, FollowsSteps)
        if evaluator.steps is None:
            kept = self._cache.read_steps(reusable.identity)
            if kept is not None:
                evaluator.use_steps(kept)
        return evaluator.steps

    def _key(self, reusable: Reusable, inputs: Mapping[str, Any], trial: int) -> str | None:
        """Return the cache key of an evaluation; None if its evaluation steps are not written yet."""
        steps = self._steps(reusable) if reusable.judge_writes_steps else None
        if reusable.judge_writes_steps and steps is None:
            return None
        declared = declared_names(reusable.evaluator.PARAM_SPEC)
        # The parts of a preset use different inputs, so the key contains all inputs.
        read = {
            name: to_plain(value) for name, value in inputs.items() if name in declared or not reusable.threshold_free
        }
        return digest_of(
            {
                "metric": reusable.identity,
                "inputs": self._redactor.value(read),
                "steps": self._redactor.value(steps),
                "trial": trial,
            }
        )

    def _reusable(self, config: Metric, evaluator: BaseEvaluator) -> Reusable | None:
        # Metrics are unhashable, so `id` is the key; the stored tuple keeps them alive.
        key = id(config), id(evaluator)
        known = self._metrics.get(key)
        if known is None:
            known = self._metrics[key] = (config, evaluator, self._make_reusable(config, evaluator))
        return known[2]

    def _make_reusable(self, config: Metric, evaluator: BaseEvaluator) -> Reusable | None:
        # The code and library of a class of the suite are not known before it is imported.
        if config.HAS_MEMBERS or config.suite_class_paths or not config.needs_judge:
            return None
        try:
            parts = [self._describe_part(name, part) for name, part in config.judged_parts()]
        except ModelConfigError:
            return None
        threshold_free = config.SCORE_IS_THRESHOLD_FREE and all(part["panel"] is None for part in parts)
        excluded = config.settings_for(*_EXCLUDED_ROLES, *((Role.PASS_MARK,) if threshold_free else ()))
        dumped = config.model_dump(mode="json", exclude=set(excluded))
        judge_writes_steps = _writes_steps(dumped)
        if judge_writes_steps and not threshold_free:
            # The steps are part of the key, but unknown before the judges are called.
            return None
        described = {
            "format": FORMAT,
            "program": __version__,
            "library": library_of(config),
            "metric_version": evaluator.version,
            "config": dumped,
            "parts": parts,
        }
        identity = digest_of(self._redactor.value(described))
        return Reusable(identity, evaluator, config.pass_mark, threshold_free, judge_writes_steps)

    def _describe_part(self, name: str, config: Metric) -> dict[str, Any]:
        """Return the data that identify the judges of a metric, or of a part of it.

        Raises:
            ModelConfigError: the metric has no usable judge.
        """
        panel = panel_of(self._suite.policy.judges, config)
        return {
            "name": name,
            "judges": [judge_identity(plan) for plan in plans_of(self._suite, config, self._environ)],
            "panel": None if panel is None else panel.decision_rule,
        }


def reusing(config: Metric, evaluator: BaseEvaluator, reuse: Reuse) -> BaseEvaluator:
    """Return the evaluator of a judged metric of a composite that reuses the verdict of an earlier run if no input has
    changed.

    Args:
        config: the metric.
        evaluator: the evaluator that grades if no verdict is stored; it has its own timeout and retries.
        reuse: the stored verdicts.
    """

    def knows(inputs: Mapping[str, Any], trial: int) -> bool:
        try:
            return reuse.find(config, evaluator, evaluator.resolve(inputs), trial) is not None
        except EvaluationError:
            return False

    async def grade(given: dict[str, Any]) -> EvaluationResult:
        inputs = evaluator.resolve(given)
        context = judge_context()
        kept = reuse.find(config, evaluator, inputs, context.repeat)
        if kept is not None:
            context.meter.add_part(kept.usage, kept.duration_ms)
            return kept.result
        started, meter = time.perf_counter(), Meter()
        try:
            with use_context(structs.replace(context, meter=meter)):
                result = await evaluator.evaluate(**given)
        finally:
            context.meter.add_part(meter.usage())
        took = 1000 * (time.perf_counter() - started)
        reuse.keep(config, evaluator, inputs, context.repeat, result, took, meter.usage(), meter.keys)
        return result

    return Around(evaluator, grade, knows_verdicts=knows)


def judge_identity(plan: ModelPlan) -> dict[str, Any]:
    """Return the data that identify a judge. As in the keys of model calls, only host and path of the URL count."""
    address = urlsplit(plan.account.base_url)
    host = address.hostname or ""
    return {
        "provider": plan.provider,
        "endpoint": ("localhost" if is_loopback(host) else host) + address.path,
        "model": plan.name,
        "api_version": plan.api_version,
        "settings": dict(plan.settings),
        "reasoning": structs.asdict(plan.reasoning),
    }


@cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def library_of(config: Metric) -> str:
    """Return the name and version of the library that creates the prompts for a metric's judges."""
    # The digests of built-in metrics contain DeepEval, as in earlier versions, so that stored verdicts stay valid.
    package = registry.libraries()[config.library].package if config.library else "deepeval"
    return f"{package} {_version(package)}"


def to_plain(value: Any) -> Any:
    """Convert a value to plain JSON values. Durations of tool calls are omitted, since they are not inputs."""
    if isinstance(value, ToolInvocation):
        return {
            "name": value.name,
            "args": to_plain(value.args),
            "result": to_plain(value.result),
            "error": value.error,
        }
    if names := field_names(type(value)):
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def _writes_steps(configuration: Any) -> bool:
    """Return whether a configuration contains criteria without evaluation steps, which a judge must then write."""
    if isinstance(configuration, Mapping):
        criteria_alone = (
            isinstance(configuration.get("criteria"), str) and configuration.get("evaluation_steps") is None
        )
        return criteria_alone or any(map(_writes_steps, configuration.values()))
    return isinstance(configuration, list) and any(map(_writes_steps, configuration))


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value's JSON, in hex."""
    return hashlib.sha256(_ENCODER.encode(value).encode("utf-8", "surrogatepass")).hexdigest()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


def _has_error(value: Any) -> bool:
    """Return whether a verdict's metadata contain an error, such as one judge's error in a panel."""
    if isinstance(value, Mapping):
        return value.get("error") is not None or any(map(_has_error, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_error, value))
