"""An answer that its target reports as cut off is an error, whatever its text."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from holodeck_action.targets.reply import CUT_OFF
from tests.commands.project import Project
from tests.docs.pages import ROOT
from tests.targets.service import Service

ABSENT = "absent"
"""An answer without a text: the model thought until the limit."""


def suite(project: Project, target: Any) -> None:
    project.suite([{"name": "only", "input": "?"}], [{"type": "contains", "value": "Leeds"}])
    project.policy(target=target)


def chat(text: str | None, reason: str | None) -> dict[str, Any]:
    message = {} if text == ABSENT else {"content": text}
    return {"choices": [{"message": message, "finish_reason": reason}], "usage": {"prompt_tokens": 3}}


@pytest.mark.parametrize(
    ("text", "reason", "code"),
    [
        ("In Leeds", "length", 3),
        ("In Leeds", "MAX_TOKENS", 3),
        (None, "max_tokens", 3),
        (ABSENT, "length", 3),
        ("In Leeds", "stop", 0),
        ("In Leeds", None, 0),
        ("In Leeds", "a word of ours", 0),
    ],
)
@pytest.mark.proves("ResponseMapping: finish_reason")
def test_a_cut_answer_of_a_service_is_an_error(
    project: Project, service: Service, text: str | None, reason: str | None, code: int
) -> None:
    service.respond = lambda handler, _: handler.answer(chat(text, reason))
    mapping = {
        "text": "$.choices[0].message.content",
        "finish_reason": "$.choices[0].finish_reason",
        "usage": "$.usage",
    }
    suite(project, {"type": "http", "url": service.url, "response": mapping})
    finished, record = project.evaluate()
    assert finished.code == code, finished.stdout
    [turn] = record.cases[0].trials[0].turns
    if code == 0:
        assert (turn.error, turn.finish_reason) == (None, reason)
        return
    assert turn.error is not None
    assert turn.error.code == "cut_off"
    assert turn.error.message == f"the answer is cut off: finish_reason is {reason}; raise the agent's token limit"
    # What the answer took is known.
    assert turn.usage is not None
    assert turn.usage.prompt_tokens == 3


@pytest.mark.parametrize("pieces", [("In ", "Leeds", ""), (None,)])
def test_a_stream_that_ends_at_the_limit_is_an_error(
    project: Project, service: Service, pieces: tuple[str | None, ...]
) -> None:
    def respond(handler: Any, _: Any) -> None:
        send = handler.chunks(content_type="text/event-stream")
        for at, piece in enumerate(pieces, 1):
            reason = "length" if at == len(pieces) else None
            event = {"choices": [{"delta": {"content": piece}, "finish_reason": reason}]}
            send(f"data: {json.dumps(event)}\n\n".encode())
        send(b"data: [DONE]\n\n")
        send(b"")

    service.respond = respond
    mapping = {
        "text": "$.choices[0].message.content",
        "delta": "$.choices[*].delta.content",
        "finish_reason": "$.choices[0].finish_reason",
    }
    suite(project, {"type": "http", "url": service.url, "response": mapping})
    finished, record = project.evaluate()
    assert finished.code == 3, finished.stdout
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == "cut_off"


def test_so_it_is_of_every_other_target(project: Project) -> None:
    reply = {"response": "In Leeds", "finish_reason": "length"}
    project.answers([{"case": "only", **reply}])
    code = f"import json\n\ndef answer(request):\n    return {reply}\n\nprint(json.dumps({reply}))\n"
    project.write("agent.py", code)
    for target in ("recorded:answers.jsonl", f"command:{sys.executable} agent.py", "python:agent:answer"):
        suite(project, target)
        finished, record = project.evaluate()
        assert finished.code == 3, finished.stdout
        error = record.cases[0].trials[0].turns[0].error
        assert error is not None
        assert error.code == "cut_off"


def test_a_cut_answer_to_the_warm_up_is_no_error(project: Project, service: Service) -> None:
    def respond(handler: Any, received: Any) -> None:
        handler.answer({"response": "In Leeds", **({"finish_reason": "length"} if "warm_up" in received.body else {})})

    service.respond = respond
    suite(project, {"type": "http", "url": service.url})
    policy = json.loads((project.folder / "holodeck-action.yaml").read_text())
    project.policy(**policy, warm_up="Hello")
    finished, _ = project.evaluate()
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(service.received) == 2


def test_the_page_has_all_words() -> None:
    text = (ROOT / "docs" / "targets.md").read_text(encoding="utf-8")
    said = text.partition("these values mean so:")[2].partition("\n\n")[0]
    assert tuple(said.replace("`", "").replace("\n", " ").strip(" .").split(", ")) == CUT_OFF
