"""`response_format`: the schema that every answer of the suite's model must fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from holodeck_action.llm.chat import ChatAnswer
from holodeck_action.results.agent_errors import AgentError, TargetError
from holodeck_action.suite.agent import AgentConfig
from holodeck_action.suite.checkout import Checkout
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import cut, excerpt
from holodeck_action.tools.schemas import JsonSchema

_MOST_PROBLEMS = 5
_RAW_SHOWN = 2000
"""Characters of an answer that does not fit which the record keeps."""

_FENCED = re.compile(r"\s*```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL | re.IGNORECASE)


class AnswerFormat:
    """The schema, compiled once."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Raises:
            TargetError: it is no JSON schema.
        """
        try:
            self._schema = JsonSchema(schema)
        except ValueError as error:
            raise TargetError(f"response_format is no JSON schema: {error}") from None
        self.schema = schema

    def read(self, answer: ChatAnswer, *, max_tokens: int | None) -> str:
        """Return an answer's JSON value as metrics see it: its JSON text, keys in the given order.

        Args:
            answer: what the model answered. A code fence around it is taken off where the model could only be told
                the schema in words.
            max_tokens: the limit of the answer, for the message; None for the provider's own.

        Raises:
            AgentError: `refused`, `cut_off` at the limit, or `bad_output`: it is no JSON, or does not fit. The context
                holds the beginning of the answer, and of a misfit the path in the schema.
        """
        context: dict[str, object] = {"answer": cut(answer.text, _RAW_SHOWN)}
        if answer.refused:
            raise AgentError(f"the model refused to answer: {excerpt(answer.text)}", "refused", context)
        if answer.truncated:
            limit = "its limit" if max_tokens is None else f"max_tokens {max_tokens}"
            raise AgentError(
                f"the answer stops at {limit}, before its JSON is complete; raise model.max_tokens", "cut_off", context
            )
        text = answer.text
        if answer.prompted and (fenced := _FENCED.fullmatch(text)):
            text = fenced[1]
        try:
            value = parse_json(text)
        except ValueError as error:
            message = f"the answer is not JSON, which response_format asks for ({error}): {excerpt(answer.text)}"
            raise AgentError(message, "bad_output", context) from None
        misfits = self._schema.misfits(value, whole="the answer", most=_MOST_PROBLEMS)
        if misfits:
            shown = "; ".join(misfit.problem for misfit in misfits)
            context["schema_path"] = misfits[0].schema_path
            message = f"the answer does not fit response_format: {shown} (at {misfits[0].schema_path} of the schema)"
            raise AgentError(message, "bad_output", context)
        return json.dumps(value, ensure_ascii=False)


def answer_format(agent: AgentConfig, checkout: Checkout) -> AnswerFormat | None:
    """Return the format of a suite's answers, None when it asks for none.

    Raises:
        TargetError: the file cannot be read, is no JSON, or holds no JSON schema.
    """
    written = agent.response_format
    if written is None:
        return None
    if isinstance(written, Mapping):
        return AnswerFormat(written)
    try:
        schema = parse_json(checkout.read(written).decode("utf-8-sig"))
    except OSError as error:
        raise TargetError(f"response_format: {written} cannot be read: {error.strerror}") from error
    except ValueError as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise TargetError(f"response_format: {written} is not JSON: {reason}") from None
    if not isinstance(schema, Mapping):
        raise TargetError(f"response_format: {written} must hold a JSON schema, an object")
    return AnswerFormat(schema)
