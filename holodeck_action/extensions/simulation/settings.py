"""`simulate`: the settings of a simulated user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.extensions.simulation.prompt import PROMPT_DIGEST
from holodeck_action.suite.model.base import Flag, FormatModel, Integer, MaybeText, NonBlank, Number
from holodeck_action.suite.model.expected_tools import ExpectedToolsField
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.metric_types import CheckMetric
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.model.simulation import Simulation

_TOOLS = "expected_tools"
_OTHER_NAMES = (("goal", "scenario"), ("persona", "user_description"))


def _kind_of_stop(value: Any) -> str:
    return "tools" if isinstance(value, StopTools) or (isinstance(value, dict) and _TOOLS in value) else "check"


def _text_or_list(value: Any) -> str:
    return "list" if isinstance(value, list) else "text"


class StopTools(FormatModel):
    """An entry of `stop` that ends the conversation after the agent has made certain tool calls."""

    expected_tools: ExpectedToolsField
    """The calls of one answer, as in a case. Example: `[refund]`."""


StopEntry = Annotated[
    Annotated[CheckMetric, Tag("check")] | Annotated[StopTools, Tag("tools")], Discriminator(_kind_of_stop)
]
Facts = Annotated[
    Annotated[NonBlank, Tag("text")] | Annotated[list[NonBlank], Tag("list")], Discriminator(_text_or_list)
]


class Simulate(Simulation):
    """`simulate` of a case: the user that a model plays."""

    goal: MaybeText = None
    """The goal of the user. Required. Example: `Get the money back for a kettle that leaks.`."""
    persona: MaybeText = None
    """Who the user is and how the user talks. Example: `Ada, in a hurry, who writes short sentences.`."""
    knows: Facts | None = None
    """What the user can tell, a text or a list of texts. Example: `[The order is A-17., It arrived on Monday.]`."""
    opening: MaybeText = None
    """The first message, word for word. Example: `My kettle leaks.`."""
    user_script: list[NonBlank] | None = None
    """The next messages, word for word and in this order, before the model writes freely. Example: `[It is A-17.]`."""
    max_turns: Annotated[Integer, Field(ge=1, le=100)] = 8
    """Largest number of turns."""
    stop: list[StopEntry] | None = None
    """Checks of an answer; the conversation ends when one holds. They are written as in `expect`, or as
    `expected_tools`. Example: `[{contains: refunded}, {expected_tools: [refund]}]`."""
    model: LLMProvider
    """The model that plays the user."""
    temperature: Annotated[Number, Field(ge=0.0, le=2.0)] | None = 0.7
    """Its sampling temperature; null for the provider's default."""
    check_user: Flag = False
    """True: a judge says whether the user stayed in its role and within `knows`; this decides nothing."""
    scenario: MaybeText = None
    """DeepEval's name of `goal`. Example: `Ada wants her money back.`."""
    user_description: MaybeText = None
    """DeepEval's name of `persona`. Example: `Ada, in a hurry.`."""
    expected_outcome: MaybeText = None
    """The expected answer, as `ground_truth` of the case. The user does not know it. Example: `Ada gets 30 euros.`."""

    @model_validator(mode="after")
    def _check(self) -> Simulate:
        for name, other in _OTHER_NAMES:
            if getattr(self, name) is not None and getattr(self, other) is not None:
                raise PydanticCustomError(other, "is another name of {name}; give only one of them", {"name": name})
        if self.goal is None and self.scenario is None:
            raise PydanticCustomError("goal", "is missing (required: what the user wants)")
        if {"temperature"} <= self.model_fields_set & self.model.model_fields_set:
            raise PydanticCustomError("temperature", "is also given in model; give only one of them")
        if len(self.lines) > self.max_turns:
            raise PydanticCustomError(
                "max_turns",
                "is below the number of messages in opening and user_script, which is {count}",
                {"count": len(self.lines)},
            )
        for check in self.stop or ():
            if isinstance(check, Metric) and check.needs_judge:
                raise PydanticCustomError(
                    "stop", "the check {kind} calls a model; give checks that are computed", {"kind": check.type}
                )
        return self

    @property
    def goal_text(self) -> str:
        """The goal of the user."""
        return self.goal or self.scenario or ""

    @property
    def character(self) -> str:
        """Description of the user; empty if it is not given."""
        return self.persona or self.user_description or ""

    @property
    def known_facts(self) -> str:
        """The facts that the user can tell the agent, one per line; empty if none are given."""
        return "\n".join(self.knows) if isinstance(self.knows, list) else self.knows or ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The first messages of the user, which are sent word for word."""
        return (*(() if self.opening is None else (self.opening,)), *(self.user_script or ()))

    @property
    def player(self) -> LLMProvider:
        """The model that plays the user, with its temperature."""
        own = {} if "temperature" in self.model.model_fields_set else {"temperature": self.temperature}
        return self.model.model_copy(update=own)

    @property
    def most_turns(self) -> int:
        """Largest number of turns of the conversation."""
        return self.max_turns

    @property
    def expected_answer(self) -> str | None:
        """The expected answer in `simulate`; None if `simulate` has no expected answer."""
        return self.expected_outcome

    @property
    def stop_checks(self) -> Sequence[Metric | ExpectedToolsField]:
        """The checks of an answer that end the conversation."""
        return [each.expected_tools if isinstance(each, StopTools) else each for each in self.stop or ()]

    @property
    def metrics_of_user(self) -> Sequence[Metric]:
        """The metric that `check_user` adds."""
        from holodeck_action.extensions.simulation.user_metric import SimulatedUserMetric

        return [SimulatedUserMetric()] if self.check_user else []

    def identity(self) -> Mapping[str, Any]:
        """Return the settings that determine the user, as JSON values, except the API key and URL of the model."""
        model = self.player.model_dump(mode="json", include={"provider", "name", "temperature", "top_p", "max_tokens"})
        return {
            "goal": self.goal_text,
            "persona": self.character,
            "knows": self.known_facts,
            "opening": self.opening,
            "script": list(self.user_script or ()),
            "stop": [
                {"type": _TOOLS, **each.model_dump(mode="json")}
                if isinstance(each, StopTools)
                else {**each.model_dump(mode="json", exclude_defaults=True), "type": each.type}
                for each in self.stop or ()
            ],
            "max_turns": self.max_turns,
            "model": model,
            "prompt": PROMPT_DIGEST,
        }

    def facts(self) -> Mapping[str, str]:
        """Return the texts about the user for the prompt, by title."""
        given = {"goal": self.goal_text, "persona": self.character, "knows": self.known_facts}
        return {title: text for title, text in given.items() if text}

    def record_fields(self) -> Mapping[str, Any]:
        """Return the values for the fields of `record.record.SimulatedUser`."""
        from holodeck_action.llm.model_facts import accepts_sampling, known_model

        player = self.player
        sampled = accepts_sampling(known_model(player.provider, player.name), {})
        return {
            "model": f"{player.provider}/{player.name}",
            "temperature": player.temperature if sampled else None,
            "prompt_digest": PROMPT_DIGEST,
            **self.facts(),
        }
