"""One real model over every wire: its answers, tokens, grammars, refusals, and recordings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holodeck_action.llm.codecs.openai_responses import LEAST_OUTPUT_TOKENS as LEAST
from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.real.runs import ANY_ANSWER, CAPITALS, check_replay
from tests.real.server import CITIES, KEY, SCHEMA, WIRES, Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

LONG = 5_000
"""More words than the model's context has tokens."""


def ask(project: Project, server: Server, wire: str, *arguments: str, **top: Any) -> tuple[Finished, Record]:
    """Evaluate two questions over a wire, one after the other."""
    project.suite(CAPITALS, [ANY_ANSWER], **{"model": server.model(wire), **WIRES[wire].block, **top})
    return project.evaluate("--concurrency", "1", *arguments)


def test_all_wires_give_the_same_texts_and_the_tokens_that_the_server_counted(project: Project, server: Server) -> None:
    answers: dict[str, list[str | None]] = {}
    long = {"inline": "Tell the history of the country in ten long sentences."}
    for wire in WIRES:
        before = server.tokens()
        model = server.model(wire, max_tokens=LEAST)
        finished, record = ask(project, server, wire, "--record", "tape", model=model, instructions=long)
        assert finished.code == 0, finished.stdout + finished.stderr
        turns = [*record.turns]
        assert [turn.finish_reason for turn in turns] == [WIRES[wire].end] * 2, wire
        usage = [turn.usage for turn in turns if turn.usage]
        counted = tuple(after - earlier for earlier, after in zip(before, server.tokens(), strict=True))
        told = (sum(each.prompt_tokens or 0 for each in usage), sum(each.completion_tokens or 0 for each in usage))
        assert told == counted
        assert counted[1] == 2 * LEAST
        written = [project.out / "results.json", project.folder / "tape" / "cassette.jsonl"]
        assert not any(KEY in file.read_text() for file in written)
        answers[wire] = [turn.response for turn in turns]

        check_replay(project, "--concurrency", "1")
        assert tuple(after - earlier for earlier, after in zip(before, server.tokens(), strict=True)) == counted
    assert len({json.dumps(each) for each in answers.values()}) == 1, answers


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_fits_its_schema_or_is_an_error(project: Project, server: Server, wire: str) -> None:
    _, record = ask(
        project, server, wire, "--limit", "1", model=server.model(wire, max_tokens=40), response_format=SCHEMA
    )
    (turn,) = record.turns
    if turn.error is not None:
        assert not WIRES[wire].grammar
        assert turn.error.code == "bad_output"
        assert [each.score for each in turn.evaluations] == [None]
    else:
        assert json.loads(turn.response or "")["city"] in CITIES


@pytest.mark.parametrize("wire", WIRES)
def test_what_the_server_refuses_is_an_error_after_one_call(project: Project, server: Server, wire: str) -> None:
    before = server.tokens()
    elsewhere = server.model(wire)["endpoint"].replace("/openai", "") + "/nowhere"
    refusals: dict[str, dict[str, Any]] = {
        "authentication": {"model": server.model(wire, api_key="sk-of-somebody-else")},
        "model_not_found": {"model": server.model(wire, endpoint=elsewhere)},
        "context_length": {"instructions": {"inline": "word " * LONG}},
    }
    for code, top in refusals.items():
        finished, record = ask(project, server, wire, "--limit", "1", **top)
        assert finished.code == 3, (code, finished.stdout)
        (turn,) = record.turns
        assert turn.error is not None
        assert (turn.error.code, [each.score for each in turn.evaluations]) == (code, [None]), turn.error
        assert record.run.model_calls is not None
        assert (record.run.model_calls.calls, record.run.model_calls.failed) == (1, 1)
    assert server.tokens() == before
