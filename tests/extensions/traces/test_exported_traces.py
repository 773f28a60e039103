"""Traces that Langfuse and Phoenix export.

`langfuse.json` was written by the package langfuse 3.15.0: its `TraceWithFullDetails` with `ObservationsView`s, as
`langfuse.api.trace.get(ID).json(indent=1)` writes them. Phoenix's spans have the shape of `Span` in the package
arize-phoenix-client 3.5.0, which `client.spans.get_spans` returns.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.project import Project
from tests.extensions.traces.test_trace_files import A, B, read
from tests.extensions.traces.test_trace_target import outcomes, suite

EXPORT = Path(__file__).parent / "langfuse.json"


def phoenix(number: int, parent: int | None, kind: str, **attributes: Any) -> dict[str, Any]:
    return {
        "id": f"U3Bhbjo{number}",
        "name": kind.lower(),
        "context": {"trace_id": B, "span_id": f"{number:016x}"},
        "span_kind": kind,
        "parent_id": None if parent is None else f"{parent:016x}",
        "start_time": "2026-09-21T15:06:40+00:00",
        "end_time": f"2026-09-21T15:06:4{number}.500000+00:00",
        "status_code": "OK",
        "status_message": "",
        "attributes": attributes,
        "events": [],
    }


SPANS = [
    phoenix(1, None, "AGENT", **{"session.id": "s-2", "input.value": "When?", "output.value": "At nine."}),
    phoenix(2, 1, "TOOL", **{"tool.name": "find_hours", "input.value": '{"day": "Mon"}', "output.value": "nine"}),
    # Nested objects are as good as paths.
    phoenix(3, 1, "RETRIEVER", retrieval={"documents": [{"document": {"id": "d1", "content": "Open at nine."}}]}),
    phoenix(4, 1, "LLM", **{"llm.model_name": "gpt-4o", "llm.token_count.prompt": 7, "llm.token_count.completion": 2}),
]


def test_langfuse(tmp_path: Path) -> None:
    shutil.copy(EXPORT, tmp_path)
    trace = json.loads(EXPORT.read_bytes())
    trace["scores"] = [{"name": "thumb", "value": 0}]
    (tmp_path / "lines.jsonl").write_text(json.dumps(trace) + "\n")
    (tmp_path / "page.json").write_text(json.dumps({"data": [trace], "meta": {"page": 1}}, indent=1))

    (whole,), notices = read(tmp_path, "langfuse.json")
    others = [read(tmp_path, name)[0][0] for name in ("lines.jsonl", "page.json")]

    assert notices == ()
    (turn,) = whole.turns
    assert (whole.id, whole.tags, turn.trace) == ("s-1", ("vip",), A)
    assert (turn.input, turn.output, turn.duration_ms) == ("Where is A-17?", "In Leeds.", 3000.0)
    assert [(call["name"], call["args"], call["result"]) for call in turn.tool_calls or ()] == [
        ("find_order", {"order": "A-17"}, {"place": "Leeds"})
    ]
    assert [chunk["text"] for chunk in turn.retrieved or ()] == ["Parcels leave Leeds at nine."]
    assert [(use["model"], use["prompt_tokens"], use["completion_tokens"]) for use in turn.usage or ()] == [
        ("gpt-4o-mini", 100, 12)
    ]
    assert all(each.turns[0].output == turn.output for each in others)
    assert others[0].turns[0].attributes["score.thumb"] == 0


@pytest.mark.parametrize("form", ["lines", "list", "page"])
def test_phoenix(tmp_path: Path, form: str) -> None:
    content = {
        "lines": "".join(f"{json.dumps(each)}\n" for each in SPANS),
        "list": json.dumps(SPANS, indent=1),
        "page": json.dumps({"data": SPANS, "next_cursor": None}),
    }[form]
    (tmp_path / "spans.json").write_text(content)

    (found,), notices = read(tmp_path, "spans.json")

    assert notices == ()
    (turn,) = found.turns
    assert (found.id, turn.input, turn.output, turn.duration_ms) == ("s-2", "When?", "At nine.", 1500.0)
    assert [(call["name"], call["args"], call["result"]) for call in turn.tool_calls or ()] == [
        ("find_hours", {"day": "Mon"}, "nine")
    ]
    assert [chunk["id"] for chunk in turn.retrieved or ()] == ["d1"]
    assert turn.models == ("gpt-4o",)


def test_broken_exports_are_judged_as_far_as_they_can_be_read(project: Project) -> None:
    trace = json.loads(EXPORT.read_bytes())
    broken = [{**SPANS[1], "start_time": "soon"}, {"context": {}}, {"traceId": 5}, {"observations": [None, {"id": 1}]}]
    lines = [*SPANS, *broken, trace, {"data": {}}, {"traceId": "x", "id": "y", "startTime": 5}]
    project.write("export.jsonl", "".join(f"{json.dumps(each)}\n" for each in lines))
    suite(project, {"type": "contains", "value": "Leeds"})

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:export.jsonl")

    assert done.code == 1, done.stderr
    assert sorted(outcomes(project)) == ["failed", "passed"]
