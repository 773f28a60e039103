"""The settings of a run, merged from their sources.

The sources, highest first: flags, the policy file, agent.yaml `execution`, project and user config, `HOLODECK_*`
variables, defaults.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct
from pydantic import BaseModel

from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.suite.applicability import case_asserts, compares_answers
from holodeck_action.suite.errors import Problem
from holodeck_action.suite.model.agent import DOWNLOADS_FOLDER
from holodeck_action.suite.model.judging import ProbeWhen
from holodeck_action.suite.model.policy import (
    Baseline,
    GatedCases,
    Gates,
    fails_on_case_regression,
    fails_on_loss,
    why_no_gate_fails,
)
from holodeck_action.suite.values import Case, Suite

_DEFAULT_BASELINE = Baseline.model_construct()
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


class SettingsError(Exception):
    """Settings contradict each other or the suite; the message is one sentence with the reason and a remedy.

    `setting` is the key in the policy file, such as `gates.max_cost_usd`; None if the policy file has no such key.
    """

    def __init__(self, message: str, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


class ModelCalls(Struct, frozen=True):
    """The settings of model calls.

    Attributes:
        mode: `live` calls models; `record` also stores every call in `folder`; `replay` answers only from calls stored
            in `folder`.
        folder: absolute path of the stored calls; None if the mode is `live`.
        cache: folder in which answers are stored between runs; None to store no answers.
        ttl_s: how long a stored answer may be reused, in seconds; None if there is no limit, or no cache.
    """

    mode: Literal["live", "record", "replay"] = "live"
    folder: Path | None = None
    cache: Path | None = None
    ttl_s: float | None = None


class FileSettings(Struct, frozen=True):
    """The settings for files of cases: time limits for one conversion and one download, in seconds, and the cache.

    `cache` is the absolute path of the folder for downloads; None to store no downloads.
    """

    file_timeout_s: float
    download_timeout_s: float
    cache: Path | None


class Settings(Struct, frozen=True):
    """The settings of one suite's run: times in seconds, sizes in bytes, and counts.

    `run_timeout_s`, `max_cost_usd` (US dollars) and `max_tokens` are the suite's own limits; None if there is no limit
    for this suite. A limit of the command line applies to all suites together and is not stored here. `workers` is the
    maximum number of processes for the suite's own Python; `compared` is whether the run is to be compared with a base.
    `concurrency_given` is whether a file or an option sets it; if not, and if `start_concurrency` is given, runs begin
    with that many conversations at the same time, and `concurrency` is the maximum that they may grow to.
    `stop_when_certain` is whether it ends when its exit code can no longer change. `on_changed_code` is that of
    `Flags`. `probe` is when judges are probed.
    """

    concurrency: int
    concurrency_given: bool
    workers: int
    turn_timeout_s: float
    case_timeout_s: float
    rate_limit_wait_s: float
    run_timeout_s: float | None
    max_cost_usd: float | None
    max_tokens: int | None
    max_response_bytes: int
    stop_when_decided: bool
    stop_when_certain: bool
    gates: Gates
    baseline: Baseline
    compared: bool
    calls: ModelCalls
    files: FileSettings
    probe: ProbeWhen
    on_changed_code: Literal["fail", "warn"] | None = None
    start_concurrency: int | None = None

    @property
    def least_concurrency(self) -> int:
        """The number of concurrent conversations that do not have to be earned."""
        return self.start_concurrency or self.concurrency


def merge(suite: Suite, flags: Flags, environ: Mapping[str, str]) -> Settings:
    """Merge the settings of one suite from all sources.

    Args:
        suite: the loaded suite with its policy, `execution` block and project config.
        flags: the command line.
        environ: environment variables; `HOLODECK_LLM_TIMEOUT`, `HOLODECK_FILE_TIMEOUT`, `HOLODECK_DOWNLOAD_TIMEOUT`,
            `HOLODECK_CACHE_ENABLED`, `HOLODECK_CACHE_DIR` and `HOLODECK_JUDGE_PROBE` are read; invalid values are
            ignored.
    """
    limits = flags.override("limits", suite.policy.limits)
    budget = suite.policy.budget
    minutes = budget.max_minutes
    deadlines = [value for value in (limits.run_timeout_s, 60 * minutes if minutes else None) if value is not None]
    given: int | None = _find(suite, "parallel_test_cases", _given(limits, "concurrency"))
    concurrency = given or limits.concurrency
    seconds = _parse_seconds(environ.get("HOLODECK_LLM_TIMEOUT"))
    baseline = merge_baseline(suite.policy.baseline, flags)
    # Finding flaky cases takes all of their trials.
    gates = flags.override("gates", suite.policy.gates)
    return Settings(
        concurrency=concurrency,
        concurrency_given=given is not None,
        # More processes than processors help only callables that wait.
        workers=min(concurrency, max(4, os.cpu_count() or 1)),
        turn_timeout_s=_find(suite, "llm_timeout", _given(limits, "turn_timeout_s"), seconds, limits.turn_timeout_s),
        case_timeout_s=limits.case_timeout_s,
        rate_limit_wait_s=limits.rate_limit_wait_s,
        run_timeout_s=None if flags.run_timeout_s is not None else min(deadlines, default=None),
        max_cost_usd=None if flags.max_cost_usd is not None else budget.max_cost_usd,
        max_tokens=None if flags.max_tokens is not None else budget.max_tokens,
        max_response_bytes=limits.max_response_bytes,
        stop_when_decided=suite.policy.trials.stop_when_decided and gates.max_flaky is None,
        stop_when_certain=(flags.stop or suite.policy.stop) == "certain",
        gates=gates,
        baseline=baseline,
        compared=baseline.source is not None or flags.compared_with is not None,
        calls=merge_calls(suite, flags),
        files=merge_files(suite, environ),
        probe=_merge_probe(suite, environ),
        on_changed_code=flags.on_changed_code,
    )


def _given(section: BaseModel, key: str) -> Any:
    """Return a value that the command line or the policy file gives for a key of a section; None if neither does."""
    return getattr(section, key) if key in section.model_fields_set else None


def _find(suite: Suite, key: str, first: Any = None, variable: Any = None, default: Any = None) -> Any:
    """Return a setting of `execution` from the first source that has it.

    Args:
        suite: the suite; its agent.yaml comes before its project and user config.
        key: the key in `execution`.
        first: the value of the command line or the policy file, which comes before both; None if they have none.
        variable: the value of the environment variable, which comes after both; None if it is not set or invalid.
        default: the value if no source has one.
    """
    blocks = (suite.agent.execution, suite.project.execution)
    values = (first, *(getattr(block, key, None) for block in blocks), variable)
    return next((value for value in values if value is not None), default)


def _merge_probe(suite: Suite, environ: Mapping[str, str]) -> ProbeWhen:
    """Return when judges are probed: from the policy file, else from `HOLODECK_JUDGE_PROBE`, else the default."""
    judges, variable = suite.policy.judges, environ.get("HOLODECK_JUDGE_PROBE", "").strip().lower()
    default: ProbeWhen = next((when for when in get_args(ProbeWhen) if when == variable), judges.probe)
    return _given(judges, "probe") or default


def merge_files(suite: Suite, environ: Mapping[str, str]) -> FileSettings:
    """Return the settings for files of cases, from agent.yaml, the project config, `HOLODECK_*` variables, or defaults.

    The folder for downloads is relative to the suite's folder.
    """

    def find(key: str, read: Callable[[str], Any], default: Any) -> Any:
        return _find(suite, key, None, read(environ.get(f"HOLODECK_{key.upper()}", "")), default)

    folder = suite.folder / find("cache_dir", lambda text: text or None, DOWNLOADS_FOLDER)
    enabled = find("cache_enabled", lambda text: _BOOLEANS.get(text.lower()), default=True)
    return FileSettings(
        find("file_timeout", _parse_seconds, 30.0),
        find("download_timeout", _parse_seconds, 30.0),
        folder if enabled else None,
    )


def merge_calls(suite: Suite, flags: Flags) -> ModelCalls:
    """Return whether and where model calls are recorded, replayed or cached: from the flags, else from the policy file.

    Folders in flags are relative to the working folder, folders in the policy file to the suite's folder.
    """
    policy = suite.policy.cache
    ttl_s = policy.ttl_days * 86_400.0
    if flags.record is not None:
        return ModelCalls("record", flags.record.path, None if flags.cache is None else flags.cache.path, ttl_s)
    if flags.replay is not None:
        return ModelCalls("replay", flags.replay.path)
    if flags.cache is not None:
        return ModelCalls(cache=flags.cache.path, ttl_s=ttl_s)
    if flags.no_cache or policy.mode == "off":
        return ModelCalls()
    folder = suite.folder / policy.dir
    return ModelCalls(cache=folder, ttl_s=ttl_s) if policy.mode == "cache" else ModelCalls(policy.mode, folder)


def merge_baseline(baseline: Baseline, flags: Flags) -> Baseline:
    """Return the `baseline` settings with the command line's values; `source` is None if `--against…` is given."""
    merged = flags.override("baseline", baseline)
    return merged if flags.compared_with is None else merged.model_copy(update={"source": None})


def baseline_problem(baseline: Baseline, gates: Gates, *, compared: bool) -> tuple[str, str] | None:
    """Return the first setting without effect, such as `baseline.margin`, and the reason; None if there is none.

    Args:
        baseline: the settings of the comparison.
        gates: the gates.
        compared: whether results are compared with a base.
    """
    if not compared:
        way_out = "has no effect without a base; give baseline.source, or the input or flag baseline"
        for name in ("max_regressions", "min_win_rate_lower_bound"):
            if getattr(gates, name) is not None:
                return f"gates.{name}", way_out
        named = [key for key in Baseline.model_fields if getattr(baseline, key) != getattr(_DEFAULT_BASELINE, key)]
        return (f"baseline.{named[0]}", way_out) if named else None
    if gates.max_regressions is not None and not fails_on_case_regression(baseline):
        return "gates.max_regressions", f"never fails with `baseline.on_case_regression: {baseline.on_case_regression}`"
    return None


def gates_problem(settings: Settings, flags: Flags, suite: Suite, cases: Sequence[Case]) -> Problem | None:
    """Return a problem, with the option or line that causes it, if no gate can fail with these cases; else None."""
    if not cases:
        return None
    gates, baseline = settings.gates, settings.baseline
    if gates.min_win_rate_lower_bound is not None and not any(map(compares_answers, cases)):
        message = "no case has a metric that compares answers with the base; add a metric of type preference"
        name = "gates.min_win_rate_lower_bound"
        return Problem(suite.gate_marks.get(name), name, message)
    found = GatedCases(
        len(cases),
        sum(map(case_asserts, cases)),
        sum(case.repeat > 1 for case in cases),
        compared=settings.compared and (fails_on_loss(baseline) or bool(gates.min_win_rate_lower_bound)),
    )
    reason = why_no_gate_fails(gates, found)
    if reason is None:
        return None
    given = " ".join(f"--{key.replace('_', '-')} {value:g}" for key, value in flags.section_values("gates").items())
    return Problem(None if given else suite.gates_mark, given or "gates", reason)


def _parse_seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and 0 < value < float("inf") else None
