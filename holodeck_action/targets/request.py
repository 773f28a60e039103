"""The request that Python callables, commands and HTTP services receive."""

from __future__ import annotations

from holodeck_action.targets.shapes import Field, Json, JsonObject, ListOf, Object, Text, WholeNumber

_MESSAGE = Object(
    {"role": Field(Text(not_empty=True), "Role of the speaker, such as `user`.", required=True)}, accept_other_keys=True
)
REQUEST = Object(
    {
        "session": Field(
            Text(not_empty=True), "Id of the conversation, different in each trial and run.", required=True
        ),
        "case": Field(Text(not_empty=True), "Id of the case.", required=True),
        "name": Field(Text(), "Name of the case."),
        "tags": Field(ListOf(Text()), "Tags of the case.", required=True),
        "trial": Field(WholeNumber(), "The trial of the case, counted from 0.", required=True),
        "turn": Field(WholeNumber(), "The turn of the conversation, counted from 0.", required=True),
        "seed": Field(
            WholeNumber(), "Seed for random choices: the same in every run, different for each trial.", required=True
        ),
        "input": Field(Text(), "The turn's input.", required=True),
        "messages": Field(ListOf(_MESSAGE), "The conversation, with the turn's input as last message.", required=True),
        "files": Field(ListOf(Text()), "Paths (relative to the folder of agent.yaml) or URLs.", required=True),
        "turn_config": Field(JsonObject(), "The turn's free-form data.", required=True),
        "traceparent": Field(
            Text(not_empty=True), "Trace context (W3C) of the turn's spans; absent if spans are not read."
        ),
        "warm_up": Field(Json(), "True in the request of a warm-up, which belongs to no case; absent otherwise."),
    }
)
"""The shape of a request. It does not contain the expected answer."""
