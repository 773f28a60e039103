"""The validated request of one call of the program, merged from command-line options and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import fields

from holodeck_action.decide.exit_codes import TOLERABLE, ExitCode
from holodeck_action.decide.survey import judged_cases
from holodeck_action.record.result_files import read_record
from holodeck_action.run.options.action_inputs import policy_values
from holodeck_action.run.options.settings import AGAINST, Flags
from holodeck_action.run.stages import stages_of
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath

if TYPE_CHECKING:
    from holodeck_action.reports.custom import CustomTemplate

FailOn = Literal["violation", "never"]


class Permissions(Struct, frozen=True):
    """Permissions beyond their checkout that suites get from the workflow (a suite cannot grant them itself).

    `paths` are further folders whose files they may read; `plain_http` lets keys go to other machines unencrypted;
    `unsafe_forks` lets a fork's code run although the job has secrets.
    """

    paths: tuple[GivenPath, ...] = ()
    plain_http: bool = False
    unsafe_forks: bool = False

    def __post_init__(self) -> None:
        """Check the folders.

        Raises:
            ConfigurationError: a path is not a folder.
        """
        if wrong := [path for path in self.paths if not path.path.is_dir()]:
            raise ConfigurationError(
                [f"{path}: the folder, which --allow-path names, does not exist" for path in wrong]
            )


NO_PERMISSIONS = Permissions()


def permissions_from(values: Mapping[str, Any]) -> Permissions:
    """Return the permissions from values by setting name."""
    return Permissions(
        tuple(values.get("allow_paths") or ()),
        bool(values.get("allow_plain_http")),
        bool(values.get("allow_unsafe_forks")),
    )


class Request(Struct, frozen=True):
    """The validated options of a requested run.

    Paths and suites are as the user gave them; a path is None if it is not given. `html` tells whether the viewer's
    page is written. `fail_on` is `violation` if every verdict except `passed` fails the process, `never` if only a
    configuration error fails the process. `dry_run` requests only the plan. `history` is the folder of the history, or
    `branch:NAME`. `bless` is the file for the results of the better of two agents. `verbose` tells whether every case
    is printed with its metrics and tool calls.
    """

    flags: Flags
    allowed: Permissions
    suites: tuple[str, ...] = ("agent.yaml",)
    output_dir: GivenPath | None = None
    resume: bool = False
    allow_empty: bool = False
    env_file: GivenPath | None = None
    requirements: tuple[str, ...] = ()
    template: GivenPath | None = None
    html: bool = True
    fail_on: FailOn = "violation"
    dry_run: bool = False
    bless: GivenPath | None = None
    history: GivenPath | str | None = None
    verbose: bool = False

    @property
    def run_flags(self) -> Flags | None:
        """The options if something is run; None if only the plan is requested."""
        return None if self.dry_run else self.flags

    def process_exit_code(self, verdict_code: int) -> int:
        """Return the exit code of the process for a verdict's exit code, as `fail_on` requests."""
        tolerated = self.fail_on == "never" and verdict_code in TOLERABLE
        return ExitCode.PASSED if tolerated else verdict_code


def request_from(*layers: Mapping[str, Any]) -> Request:
    """Merge layers of options, the one with the highest precedence first, and check that they are consistent.

    Args:
        layers: values by setting name; None, False and the empty tuple count as missing. Unknown settings are ignored.

    Raises:
        ConfigurationError: values contradict each other, or the results of `failed_from` cannot be read.
    """
    given: dict[str, Any] = {}
    for layer in reversed(layers):
        given.update({name: value for name, value in layer.items() if not _is_unset(value)})
    output_dir, resume = given.get("output_dir"), given.get("resume", False)
    if resume and output_dir is None:
        raise ConfigurationError(
            ["--resume needs the --output-dir of the interrupted run, or .holodeck/last if none was given"]
        )
    if given.get("replay") is not None and (given.get("record") or given.get("cache")) is not None:
        raise ConfigurationError(["--replay answers only from its folder; leave out --record and --cache"])
    folders = [f"--{name}" for name in ("record", "replay", "cache") if given.get(name) is not None]
    if given.get("no_cache") and folders:
        raise ConfigurationError([f"--no-cache forbids stored answers, so leave out {' and '.join(folders)}"])
    repeat, min_pass = given.get("repeat"), given.get("min_pass")
    if repeat is not None and min_pass is not None and min_pass > repeat:
        raise ConfigurationError([f"min-pass {min_pass} is more than repeat {repeat}: no case could pass"])
    against = [name for name in AGAINST if given.get(name) is not None]
    if len(against) + (given.get("baseline") is not None) > 1:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in (*against, "baseline") if name in given)
        raise ConfigurationError([f"a run can be compared with only one other: give one of {named}"])
    if given.get("bless") is not None and not against:
        raise ConfigurationError(["--bless keeps the results of the better of two agents; give --against, too"])
    if given.get("shard") is not None:
        for name in ("history", "bless"):
            if given.get(name) is not None:
                raise ConfigurationError(
                    [f"--{name} requires the whole run, but --shard runs only a part; leave out one of them"]
                )
    failed_from = given.pop("failed_from", None)
    extra = {option.setting: given[option.setting] for option in registry.options("run") if option.setting in given}
    flags = {**_settings_of(Flags, given), "policy": policy_values(given), "extra": extra}
    if failed_from is not None:
        flags["failed_from"] = _failed_cases(failed_from)
    # On by default; the highest layer with a value decides.
    html = next((layer["html"] for layer in layers if layer.get("html") is not None), True)
    allowed = permissions_from(given)
    request = Request(**{**_settings_of(Request, given), "flags": Flags(**flags), "allowed": allowed, "html": html})
    for stage in stages_of((), request.flags):
        stage.check_request(request)
    return request


def _settings_of(kind: type[Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings that are fields of a struct, by name."""
    return {item.name: values[item.name] for item in fields(kind) if item.name in values}


def _failed_cases(path: GivenPath) -> frozenset[str]:
    """Return the ids of the cases in a results file that did not pass.

    Raises:
        ConfigurationError: the file is not a results file.
    """
    judged = (verdict for _, verdict in judged_cases(read_record(path)))
    return frozenset(verdict.id for verdict in judged if verdict.judged not in ("passed", "informational"))


def _is_unset(value: Any) -> bool:
    # 0 is a value, although it equals False.
    return value is None or value is False or value == ()


def template_of(path: GivenPath | None) -> CustomTemplate | None:
    """Read a report template; return None if no path is given.

    Raises:
        ConfigurationError: the template cannot be read.
    """
    if path is None:
        return None
    from holodeck_action.reports.custom import read_template

    return read_template(path)
