"""Reads the flags of one call of the program from command-line options and inputs, and checks them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from holodeck_action.decide.survey import judge_cases
from holodeck_action.record.result_files import read_record
from holodeck_action.run.options.action_inputs import AGAINST, DECLARED, Flags
from holodeck_action.run.stages import stages_of
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.reports.custom import CustomTemplate

_FIELDS = frozenset(item.name for item in fields(Flags))
_ON_BY_DEFAULT = frozenset(item.setting for item in DECLARED if item.default == "true")


def flags_from(*layers: Mapping[str, Any]) -> Flags:
    """Merge layers of options, the one with the highest precedence first, and check that they are consistent.

    Args:
        layers: values by setting name; None and the empty tuple count as missing, and so does False unless the setting
            is on by default. Unknown settings are ignored.

    Raises:
        ConfigurationError: values contradict each other, or the results of `failed_from` cannot be read.
    """
    given: dict[str, Any] = {}
    for layer in reversed(layers):
        given |= {name: value for name, value in layer.items() if is_given(name, value)}
    for problem in _contradictions(given):
        raise ConfigurationError([problem])
    if "keywords" in given:
        given["case_globs"] = (*given.get("case_globs", ()), *(f"*{word}*" for word in given["keywords"]))
    if "exitfirst" in given:
        given["stop"] = "certain"
    if "failed_from" in given:
        given["failed_from"] = failed_cases(given["failed_from"])
    if missing := [path for path in given.get("allow_paths", ()) if not path.path.is_dir()]:
        raise ConfigurationError([f"{path}: the folder, which --allow-path names, does not exist" for path in missing])
    given["extra"] = {item.setting: given[item.setting] for item in registry.options("run") if item.setting in given}
    flags = Flags(**{name: value for name, value in given.items() if name in _FIELDS})
    for stage in stages_of((), flags):
        stage.check_flags(flags)
    return flags


def is_given(name: str, value: Any) -> bool:
    """Return whether the value of a setting was given."""
    # 0 is a value, although it equals False.
    return value is not None and value != () and (value is not False or name in _ON_BY_DEFAULT)


def _contradictions(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each contradiction between the given settings."""
    if "resume" in given and "output_dir" not in given:
        yield "--resume needs the --output-dir of the interrupted run, or .holodeck/last if none was given"
    folders = [f"--{name}" for name in ("record", "replay", "cache") if name in given]
    if "replay" in given and len(folders) > 1:
        yield "--replay answers only from its folder; leave out --record and --cache"
    if "no_cache" in given and folders:
        yield f"--no-cache forbids stored answers, so leave out {' and '.join(folders)}"
    if "repeat" in given and given.get("min_pass", 0) > given["repeat"]:
        yield f"min-pass {given['min_pass']} is more than repeat {given['repeat']}: no case could pass"
    compared = [f"--{name.replace('_', '-')}" for name in (*AGAINST, "baseline") if name in given]
    if len(compared) > 1:
        yield f"a run can be compared with only one other: give one of {' and '.join(compared)}"
    if "exitfirst" in given and given.get("stop") == "never":
        yield "--exitfirst and --stop never contradict each other; leave out one of them"
    if "last_failed" in given and "failed_from" in given:
        yield "--last-failed and --failed-from name different runs; leave out one of them"
    if "bless" in given and given.keys().isdisjoint(AGAINST):
        yield "--bless keeps the results of the better of two agents; give --against, too"
    for name in ("history", "bless"):
        if "shard" in given and name in given:
            yield f"--{name} requires the whole run, but --shard runs only a part; leave out one of them"


def failed_cases(path: GivenPath) -> frozenset[str]:
    """Return the ids of the cases in a results file that did not pass.

    Raises:
        ConfigurationError: the file is not a results file.
    """
    judged = judge_cases(read_record(path))
    return frozenset(verdict.id for verdict in judged if verdict.judged not in ("passed", "informational"))


def template_of(path: GivenPath | None) -> CustomTemplate | None:
    """Read a report template; return None if no path is given.

    Raises:
        ConfigurationError: the template cannot be read.
    """
    if path is None:
        return None
    from holodeck_action.reports.custom import read_template

    return read_template(path)
