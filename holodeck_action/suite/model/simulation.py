"""A case's `simulate`, as the core reads it; the extension that plays the user defines the settings."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic_core import PydanticCustomError

from holodeck_action.seam.registry import unknown_phrase
from holodeck_action.suite.model.base import FormatModel
from holodeck_action.suite.model.expected_tools import ExpectedToolsField
from holodeck_action.suite.model.metric_base import Metric

Speaker = Literal["", "script", "model"]
"""Who wrote a simulated user's input: the suite, in `opening` or `user_script`, or the model. Empty in other turns."""


class Simulation(FormatModel):
    """A user that a model plays in a conversation with the agent."""

    @property
    def most_turns(self) -> int:
        """Largest number of turns of the conversation."""
        raise NotImplementedError

    @property
    def expected_answer(self) -> str | None:
        """The expected answer that `simulate` gives, which the user does not know; None if it gives none."""
        return None

    @property
    def stop_checks(self) -> "Sequence[Metric | ExpectedToolsField]":
        """The checks of an answer that end the conversation, in the order of the file."""
        return ()

    @property
    def metrics_of_user(self) -> "Sequence[Metric]":
        """Metrics that grade the user, in addition to those of the case."""
        return ()

    def identity(self) -> Mapping[str, Any]:
        """Return the settings that determine the user, as JSON values, so that only equal users are compared."""
        raise NotImplementedError

    def facts(self) -> Mapping[str, str]:
        """Return the texts that the user knows, by title, for metrics that grade the user."""
        raise NotImplementedError

    def record_fields(self) -> Mapping[str, Any]:
        """Return the fields of `record.record.SimulatedUser`."""
        raise NotImplementedError


def refuse_simulation(value: Any) -> Any:
    """Refuse `simulate` in an installation without the extension that plays the user.

    Raises:
        PydanticCustomError: always.
    """
    raise PydanticCustomError("simulation", "{reason}", {"reason": unknown_phrase()})
