"""The model of the tour: answers by the rules of examples/repository/model.yaml, which explains them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.llm.models import Answer, Request, ToolCall


class ScriptedModel:
    """A rule for `FakeModels`: plays the agent, the customers and the judge.

    Args:
        file: the rules.
    """

    def __init__(self, file: Path) -> None:
        rules: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        self._agent: Mapping[str, list[dict[str, Any]]] = rules["agent"]
        self._customers: Mapping[str, dict[str, Any]] = rules["customers"]
        self._judge: Mapping[str, float] = rules["judge"]
        self._without_tools: Mapping[str, str] = rules["without_tools"]
        self._asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Answer:
        """Answer a request.

        Raises:
            KeyError: no rule has the question.
        """
        if request.system.startswith("You play a person"):
            return self._play_customer(request)
        if request.schema is not None:
            return self._grade(request)
        if not request.results:
            self._asked[request.text] += 1
        reply = next(each for each in self._agent[request.text] if self._holds(each, request))
        calls = reply.get("calls", ())
        if calls and request.model in self._without_tools:
            return Answer(self._without_tools[request.model])
        if calls and not request.results:
            return Answer(tools=tuple(ToolCall(call["name"], call["args"]) for call in calls))
        return Answer(reply["answer"])

    def _holds(self, reply: Mapping[str, Any], request: Request) -> bool:
        return (
            reply.get("told", "") in request.system
            and ("untold" not in reply or reply["untold"] not in request.system)
            and ("asked" not in reply or self._asked[request.text] in reply["asked"])
        )

    def _play_customer(self, request: Request) -> Answer:
        """Say the customer's next message, or how the conversation ended."""
        customer = next(each for goal, each in self._customers.items() if goal in request.system)
        said = sum(json.dumps(text, ensure_ascii=False) in request.text for text in customer["says"])
        if said == len(customer["says"]):
            return Answer(json.dumps({"state": customer["ends"], "message": ""}))
        return Answer(json.dumps({"state": "goes_on", "message": customer["says"][said]}))

    def _grade(self, request: Request) -> Answer:
        """Give each field of the verdict the score of the answer."""
        score = next(score for text, score in self._judge.items() if text in request.text)
        kinds = {"number": score, "string": "This is how the tour is scripted."}
        properties = (request.schema or {})["properties"]
        return Answer(json.dumps({name: kinds.get(each.get("type", ""), score) for name, each in properties.items()}))
