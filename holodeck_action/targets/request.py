"""What agents are asked with: the request that Python callables, commands and HTTP services share."""

from __future__ import annotations

from holodeck_action.targets.shapes import Field, Json, JsonObject, ListOf, Object, Schema, Text, Whole

_MESSAGE = Object({"role": Field(Text(name=True), "Who speaks.", required=True)}, more=True)
REQUEST = Object(
    {
        "session": Field(Text(name=True), "Id of the conversation, another one in each trial and run.", required=True),
        "case": Field(Text(name=True), "Id of the case.", required=True),
        "name": Field(Text(), "Name of the case."),
        "tags": Field(ListOf(Text()), "Its tags.", required=True),
        "trial": Field(Whole(), "The trial of the case, counted from 0.", required=True),
        "turn": Field(Whole(), "The turn of the conversation, counted from 0.", required=True),
        "seed": Field(Whole(), "For random choices: the same in every run, another one for each trial.", required=True),
        "input": Field(Text(), "The turn's input.", required=True),
        "messages": Field(ListOf(_MESSAGE), "The conversation, with the turn's input as last message.", required=True),
        "files": Field(ListOf(Text()), "Paths (relative to the folder of agent.yaml) or URLs.", required=True),
        "turn_config": Field(JsonObject(), "The turn's free-form data.", required=True),
        "traceparent": Field(Text(name=True), "Trace of the turn's spans, where they are read (W3C); else left out."),
        "warm_up": Field(Json(), "True in the request of a warm-up, which belongs to no case; else left out."),
    }
)
"""Every key of a request; the expected answer is none of them."""


def request_schema() -> Schema:
    """Return the JSON Schema of a request."""
    return REQUEST.schema()
