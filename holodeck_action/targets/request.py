"""The request that Python callables, commands and HTTP services receive."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from holodeck_action.targets.reply import SpokenMessage
from holodeck_action.targets.shapes import Name, Schema, WholeNumber, about, schema_of


class TurnRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request. It does not contain the expected answer."""

    session: Annotated[Name, about("Id of the conversation, different in each trial and run.")]
    case: Annotated[Name, about("Id of the case.")]
    name: Annotated[str | None, about("Name of the case.")] = None
    tags: Annotated[list[str], about("Tags of the case.")]
    trial: Annotated[WholeNumber, about("The trial of the case, counted from 0.")]
    turn: Annotated[WholeNumber, about("The turn of the conversation, counted from 0.")]
    seed: Annotated[WholeNumber, about("Seed for random choices: the same in every run, different for each trial.")]
    input: Annotated[str, about("The turn's input.")]
    messages: Annotated[list[SpokenMessage], about("The conversation, with the turn's input as last message.")]
    files: Annotated[list[str], about("Paths (relative to the folder of agent.yaml) or URLs.")]
    turn_config: Annotated[dict[str, Any], about("The turn's free-form data.")]
    traceparent: Annotated[
        Name | None, about("Trace context (W3C) of the turn's spans; absent if spans are not read.")
    ] = None
    warm_up: Annotated[Any, about("True in the request of a warm-up, which belongs to no case; absent otherwise.")] = (
        None
    )


def request_schema() -> Schema:
    """Return the JSON Schema of a request."""
    return schema_of(TurnRequest)
