"""How a setting is declared: as an option of the command line or of the Action's `args`, an input, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import Any, Literal, NamedTuple

from holodeck_action.run.options.input_kinds import FLAG, Kind

Group = Literal[
    "Cases",
    "Agent and limits",
    "Judge",
    "Gates",
    "Comparison and history",
    "Model calls",
    "Files and packages",
    "Publishing",
    "Output",
    "Other",
]
"""Titles of groups of options in the help of a command, in their order."""


class Input(NamedTuple):
    """One setting: an option of the command line or of the Action's `args`, or an input of the Action, or both.

    Attributes:
        name: name of the option after `--`, and of the input under `with:`.
        setting: name of the setting in the code.
        kind: kind of the setting's values.
        help: help text of the option; empty if the command line does not have the option.
        key: the policy file's key that the setting overrides, such as `baseline.source`. Only the key's section, such
            as `gates`, if the rest of the key is the setting's name; empty if the setting overrides no key.
        default: text that is used if the input is empty; empty if the setting has no default.
        metavar: placeholder for the value in the help; empty to use the kind's placeholder.
        short: letter of the short option; empty if there is no short option.
        secret: whether the value must not be shown.
        group: title of the option's group in the help.
        everyday: whether `--help` of a command with many options lists the option; `--help-all` lists all.
        action: whether the setting is an input of the Action; if not, a step gets it as a line of `args`.
        of: what the setting belongs to: a run, `run` on the command line alone (`terminal`), publishing, the command
            line of `publish` alone, or `compare`.
    """

    name: str
    setting: str
    kind: Kind
    help: str = ""
    key: str = ""
    default: str = ""
    metavar: str = ""
    short: str = ""
    secret: bool = False
    group: Group = "Other"
    everyday: bool = False
    action: bool = False
    of: Literal["run", "terminal", "publish", "destination", "compare"] = "run"

    @property
    def policy_key(self) -> str:
        """Key that the setting overrides in the policy file, such as `gates.max_errors`; empty if it overrides none."""
        return self.key if "." in self.key or not self.key else f"{self.key}.{self.setting}"

    @property
    def variable(self) -> str:
        """Name of the environment variable that the runner sets to the input's value."""
        return f"INPUT_{self.name.replace(' ', '_').upper()}"

    def text_in(self, environ: Mapping[str, str]) -> str:
        """Return the input's text in the environment; empty if the input is not set."""
        return environ.get(self.variable, "").strip()


def option(group: Group, kind: Kind, help: str = "", key: str = "", **more: Any) -> Any:
    """Return a field of `Flags` that is declared as an `Input`.

    Args:
        group: title of the option's group in the help.
        kind: kind of the setting's values.
        help: help text of the option; empty if the command line does not have the option.
        key: key of the policy file, or its section; see `Input`.
        more: `value` is the setting's value if it is not given; without it, False for a switch, the empty tuple for a
            list, or else None. The rest are attributes of `Input`; `name` only if it is not the field's with hyphens,
            and `default` only if it is not the text of `value`.
    """
    value = more.pop("value", False if kind is FLAG else () if kind.many else None)
    more.setdefault("default", str(value).lower() if kind is FLAG else value or "")
    declared = Input(more.pop("name", ""), "", kind, help, key, group=group, **more)
    return field(default=value, metadata={"input": declared})


agent = partial(option, "Agent and limits")
cases = partial(option, "Cases")
gates = partial(option, "Gates")
comparison = partial(option, "Comparison and history")
calls = partial(option, "Model calls")
files = partial(option, "Files and packages")
output = partial(option, "Output")
publishing = partial(option, "Publishing", of="publish")
destination = partial(option, "Publishing", of="destination")
