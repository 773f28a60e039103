"""Datasets of DeepEval, and `ConversationalGolden`s as cases with simulated users."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holodeck_action.extensions.importers.converted_suite import ConvertedTurn
from holodeck_action.extensions.importers.deepeval.recording import Constructed
from holodeck_action.extensions.importers.source import Place, Source, json_problem
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.named_models import LARGE
from holodeck_action.text.foreign import Foreign, ForeignError

KIND = "ConversationalGolden"
_TEXTS = ("scenario", "user_description", "expected_outcome")
_SEPARATORS = {"retrieval_context": "|", "context": "|"}
_PLAYER = {"provider": "openai", "name": LARGE}
"""The model that plays simulated users. OpenAI removes the one of DeepEval's simulator."""
PLAYER_COMMENT = f"{LARGE} plays the user. Name the model of your ConversationSimulator, if it has one."
TURNS_NOTE = "a simulated user begins the conversation; put the user's messages into user_script"


def simulated_turn(golden: Mapping[str, Any]) -> ConvertedTurn | None:
    """Return the turn of a case with a simulated user; None without a scenario, or if users cannot be simulated."""
    texts = {name: golden[name] for name in _TEXTS if isinstance(golden.get(name), str) and golden[name].strip()}
    if "scenario" not in texts or registry.users() is None:
        return None
    return ConvertedTurn({"simulate": {**texts, "model": _PLAYER}})


def goldens_of(source: Source, kind: str) -> Iterator[Constructed]:
    """Yield the goldens of a dataset; `kind` is the suffix of the file.

    Raises:
        ConfigurationError: the file is invalid.
    """
    if kind == ".json":
        root = source.document().root
        goldens = root.get("goldens", root.get("test_cases")) if isinstance(root, dict) else root
        for index, item in enumerate(goldens if isinstance(goldens, list) else ()):
            if isinstance(item, dict):
                place = Place(source.name, getattr(item, "line", index + 1))
                yield _golden(place, {snake_case(key): item[key] for key in item})
        return
    reader = csv.DictReader(io.StringIO(source.content().lossy_text(), newline=""))
    try:
        for row in reader:
            yield _golden(Place(source.name, reader.line_num), _golden_of_row(row))
    except csv.Error as error:
        raise ConfigurationError([f"{source.shown}:{reader.line_num}:1: is not CSV: {error}"]) from None


def _golden(place: Place, given: dict[str, Any]) -> Constructed:
    is_conversation = not isinstance(given.get("input"), str) or not given["input"].strip()
    return Constructed(KIND if is_conversation else "Golden", own=False, place=place, given=given)


def _golden_of_row(row: Mapping[str, str | None]) -> dict[str, Any]:
    golden: dict[str, Any] = {}
    for key, cell in row.items():
        if key and cell:
            name = snake_case(key)
            golden[name] = cell.split(_SEPARATORS[name]) if name in _SEPARATORS else cell
    for name in ("tools_called", "expected_tools"):
        if name in golden:
            try:
                golden[name] = Foreign(golden[name].encode()).json()
            except ForeignError:
                golden[name] = None
            if json_problem(golden[name]):
                golden[name] = None
    return golden


def snake_case(key: Any) -> str:
    """Return a name in camelCase as snake_case."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", str(key)).lower()
