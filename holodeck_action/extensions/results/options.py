"""Reads and checks the extension's options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holodeck_action.run.stages import Stages
from holodeck_action.suite.configuration_errors import ConfigurationError

if TYPE_CHECKING:
    from holodeck_action.run.options.action_inputs import Flags


TARGET = "results"
"""Prefix of the target whose answers are stored results."""


class ResultsStages(Stages):
    """Checks the options about results of other programs."""

    def check_flags(self, flags: Flags) -> None:
        """Refuse options that have no effect in a run of a suite, and values that cannot be read; see
        `Stages.check_flags`."""
        answering = (flags.written_target or "").startswith(f"{TARGET}:")
        useless = {*flags.extra} - ({"accept_stored"} if answering else set())
        name = "--" + min(useless, default="").replace("_", "-")
        if useless and not flags.results:
            raise ConfigurationError([f"{name} is about results of other programs; give them to the command gate"])
        for text in flags.extra.get("pass_at", ()):
            try:
                read_pass_mark(text)
            except ValueError:
                raise ConfigurationError([f"--pass-at {text!r}: write SCORE, or NAME=SCORE"]) from None


def read_cases(text: str) -> int:
    """Return a number of cases.

    Raises:
        ValueError: the text is no whole number of at least 1.
    """
    if not text.isdecimal() or int(text[:10]) < 1:
        raise ValueError
    return int(text[:10])


def read_pass_mark(text: str) -> tuple[str, float]:
    """Return a metric's name, empty for all, and its least passing score, from `NAME=SCORE` or `SCORE`.

    Raises:
        ValueError: the score is not a number.
    """
    name, _, number = text.rpartition("=")
    score = float(number)
    if not -1e9 <= score <= 1e9:
        raise ValueError
    return name.strip(), score
