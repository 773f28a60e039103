"""Services whose answers have their own shape: mappings that reach into objects."""

from __future__ import annotations

from typing import Any

import pytest

from holodeck_action.record.record import ModelUsage, RetrievedChunk, ToolInvocation, Usage
from tests.commands.project import Project
from tests.tables import walk
from tests.targets.service import Service

CALLS = {"each": "$.steps[?@.kind == 'tool']", "name": "do.tool", "args": "do.input", "result": "output"}
MORE = {"bytes": "size", "duration_ms": "took.ms", "error": "failure"}
CHUNKS = {"each": "$.sources", "id": "url", "text": "$.body", "score": "rank[0]"}
COUNTS = {
    "prompt_tokens": "in",
    "completion_tokens": "out",
    "cached_tokens": "cache.hit",
    "reasoning_tokens": "thought",
    "cost_usd": "price",
}
USED = {"in": 1000, "out": 100, "cache": {"hit": 400}, "thought": 60, "price": 0.25}
STEPS: list[dict[str, Any]] = [
    {"kind": "thought", "text": "Look it up."},
    {"kind": "tool", "do": {"tool": "find_order", "input": {"id": "A-17"}}, "output": {"city": "Leeds"}, "size": 99},
    {"kind": "tool", "do": {"tool": "refund", "input": '{"id": "A-17"}'}, "took": {"ms": 5}, "failure": "not allowed"},
]


def _ask(project: Project, service: Service, body: Any, **response: Any) -> Any:
    project.suite([{"name": "order", "input": "Where is A-17?", "ground_truth": "In Leeds"}])
    headers = {"Authorization": "Bearer tok-123456"}
    project.policy(
        target={"type": "http", "url": service.url, "headers": headers, "response": {"text": "$.said", **response}}
    )
    service.respond = lambda handler, _: handler.answer(body)
    finished, record = project.evaluate()
    assert not finished.errors
    (turn,) = record.turns
    return finished, turn


@pytest.mark.proves(
    "CallPaths: each name args result bytes duration_ms error",
    "ChunkPaths: each id text score",
    "UsagePaths: each model prompt_tokens completion_tokens cached_tokens reasoning_tokens cost_usd",
)
def test_a_mapping_reaches_into_the_objects_of_any_service(project: Project, service: Service) -> None:
    sources = [{"url": "a.html", "body": "Leeds", "rank": [0.5]}, {"url": "b.html"}]
    body = {"said": "In Leeds", "steps": STEPS, "sources": sources, "llm": {"name": "own", "tokens": USED}}
    usage = {"model": "llm.name", **{key: f"$.llm.tokens.{path}" for key, path in COUNTS.items()}}
    finished, turn = _ask(
        project, service, body, tool_invocations={**CALLS, **MORE}, retrieved_chunks=CHUNKS, usage=usage
    )
    assert (finished.code, turn.model) == (0, "own"), turn.error
    assert turn.tool_invocations == (
        ToolInvocation("find_order", {"id": "A-17"}, {"city": "Leeds"}, 99),
        ToolInvocation("refund", {"id": "A-17"}, None, None, 5.0, "not allowed"),
    )
    assert turn.retrieved_chunks == (RetrievedChunk("a.html", "Leeds", 0.5), RetrievedChunk("b.html"))
    assert turn.usage == Usage(1000, 100, 0.25, 400, 60)

    models = [{"id": "small", **USED}, {"id": "large", **USED}]
    finished, turn = _ask(project, service, {**body, "m": models}, usage={"each": "$.m[*]", "model": "id", **COUNTS})
    parts = (ModelUsage("small", 1000, 100, 400, 60, 0.25), ModelUsage("large", 1000, 100, 400, 60, 0.25))
    assert turn.usage == Usage(2000, 200, 0.5, 800, 120, parts)


@pytest.mark.full
@walk(
    ("body", "calls"),
    [
        ({"steps": []}, ()),
        ({"steps": None}, None),
        ({}, None),
        ({"steps": ["search", "refund"]}, (ToolInvocation("search"), ToolInvocation("refund"))),
    ],
)
def test_what_a_mapping_of_objects_does_not_find_stays_unknown(
    project: Project, service: Service, body: Any, calls: Any
) -> None:
    mapping = {"each": "$.steps[*]", "name": "$"}
    finished, turn = _ask(
        project, service, {"said": "In Leeds", **body}, tool_invocations=mapping, usage={"prompt_tokens": "$.tokens.in"}
    )
    assert (finished.code, turn.tool_invocations, turn.usage) == (0, calls, None)


@pytest.mark.full
@walk(
    ("body", "problem"),
    [
        (
            {"answer": "x", "steps": STEPS, "none": [], "tok-123456": {"in": 1}},
            "response.text, $['said'], matches nothing in the answer; the answer has $.answer, $.steps[*].kind, "
            "$.steps[*].text, $.none, $.***.in",
        ),
        (
            {"said": "x", "steps": [{"kind": "tool", "do": {"name": "search"}}]},
            "response.tool_invocations.name, $['do']['tool'], matches nothing in the answer; the answer has $.said, "
            "$.steps[*].kind, $.steps[*].do.name",
        ),
        (
            {"said": "x", "steps": [{"kind": "tool", "do": {"tool": "search", "input": "no JSON"}}]},
            "tool_invocations[0].args must be an object, not text; the answer has $.said, $.steps[*].kind, "
            "$.steps[*].do.tool, $.steps[*].do.input",
        ),
    ],
)
def test_a_path_without_a_match_shows_what_the_answer_has(
    project: Project, service: Service, body: Any, problem: str
) -> None:
    finished, turn = _ask(project, service, body, tool_invocations=CALLS)
    assert finished.code == 3
    assert turn.error.message == f"{service.url} gave no usable answer: {problem}"


@walk(
    ("entry", "problem"),
    [
        ({"each": "$.s[*]", "tool": "t"}, "target.response.tool_invocations.tool: unknown key (allowed: args,"),
        ({"name": "tool"}, "target.response.tool_invocations.each: is missing (required)"),
        ({"each": "$.s[*]", "name": "a["}, "target.response.tool_invocations.name: the JSONPath does not parse"),
        (["$.s"], "target.response.tool_invocations: must be a mapping"),
    ],
)
def test_a_mapping_of_objects_that_cannot_be_read_is_refused(project: Project, entry: Any, problem: str) -> None:
    project.numbered(1)
    project.policy(target={"type": "http", "url": "http://x", "response": {"text": "$.a", "tool_invocations": entry}})
    finished = project.run("validate", "agent.yaml")
    assert finished.code == 2
    assert problem in finished.stderr
