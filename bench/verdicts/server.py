"""A model server on loopback that plays the agent's model and the judge of a scenario, as OpenAI's chat completions."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal, TypeAlias

from msgspec import UNSET

from bench.verdicts.loopback import ScriptServer, serve_script
from bench.verdicts.scenarios import JUDGE, Call, Case, Faults, Scenario, Step, numbered_case

AGENT_MODEL = "gpt-4o"
JUDGE_MODEL = "gpt-4o-mini"
BASE_MARK = "Release 1"
"""Part of the instructions of the agent at the base."""
Form: TypeAlias = Literal["score", "pass", "grade"]
"""How a program's judge answers: a score from 0 to 10, a JSON object with `pass`, or a grade."""

_HANG_S = 100.0
_LOOP_S = 0.05
_SOUND = Step()


class Script:
    """The replies of a scenario's model server; it counts the requests of each case."""

    def __init__(self, scenario: Scenario, form: Form) -> None:
        added = scenario.change.add
        self._cases = (*scenario.cases, *([numbered_case(added)] if added else []))
        self._scenario = scenario
        self._form = form
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def reply(self, request: Mapping[str, Any]) -> tuple[Step, dict[str, Any]]:
        """Return the step of a request, and the body of its reply."""
        text = "\n".join(_text(message.get("content")) for message in request["messages"])
        if request["model"] == JUDGE_MODEL:
            step, verdict = self._judge(text, structured="response_format" in request)
            return step, _body(JUDGE_MODEL, {"content": verdict}, step.finish)
        return self._agent(request["messages"], text)

    def _next(self, scope: str, faults: Faults, key: str) -> Step:
        """Return the next step of a case; the last step stays."""
        steps = faults.get(key)
        if not steps:
            return _SOUND
        with self._lock:
            at = self._seen[scope, key]
            self._seen[scope, key] += 1
        step = steps[min(at, len(steps) - 1)]
        return Step(content=step) if isinstance(step, str) else step

    def _agent(self, messages: Sequence[Mapping[str, Any]], text: str) -> tuple[Step, dict[str, Any]]:
        base = self._scenario.base
        faults = base.fault if base and BASE_MARK in text else self._scenario.fault
        asked = max(at for at, message in enumerate(messages) if message["role"] == "user")
        question = _text(messages[asked]["content"]).strip()
        found = self._find(question)
        if found is None:
            return _SOUND, _body(AGENT_MODEL, {"content": "How can I help you?"}, "stop")
        case, turn = found
        step = self._next(BASE_MARK if BASE_MARK in text else "", faults, f"{case.name}#{turn}" if turn else case.name)
        called = sum(message["role"] == "tool" for message in messages[asked:])
        calls = case.tools if step.tools is UNSET else step.tools
        if step.loop:
            return Step(slow_s=_LOOP_S), _body(AGENT_MODEL, _tool_message(case.tools[0], called), "tool_calls")
        if called < len(calls):
            return step, _body(AGENT_MODEL, _tool_message(calls[called], called), "tool_calls")
        content = case.dialog[turn][1] if step.content is UNSET else step.content
        body = _body(AGENT_MODEL, {"content": content, "refusal": step.refusal}, step.finish)
        if step.choices == "none":
            body["choices"] = []
        if step.code:
            body["code"] = {"do": step.code, "old": step.old, "new": step.new}
        return step, body

    def _find(self, question: str) -> tuple[Case, int] | None:
        for case in self._cases:
            for turn, (asked, _) in enumerate(case.dialog):
                if asked == question:
                    return case, turn
        return None

    def _judge(self, text: str, *, structured: bool) -> tuple[Step, str]:
        """Return the judge's step and verdict: good if the text has all answers of a sound agent."""
        case = next(each for each in self._cases if any(answer in text for answer in self._answers(each)))
        faults = self._scenario.fault
        key = f"{JUDGE}/{case.name}"
        step = self._next("", faults, key if key in faults else JUDGE)
        if isinstance(step.content, str):
            return step, step.content
        good = all(answer in text for _, answer in case.dialog)
        beyond = step.verdict == "beyond"
        reason = "The answer does what the criteria say." if good else "The answer does not do what the criteria say."
        quote = ""
        if self._scenario.judge == "quotes":
            quote = "The answer is: " + next(answer for answer in self._answers(case) if answer in text) + "\n"
        if structured:
            quote, reason = "", quote + reason
        return step, quote + _verdict(self._form, good or beyond, beyond, reason)

    def _answers(self, case: Case) -> list[str]:
        """Return the texts that a case may be answered with, sound ones last."""
        keys = [case.name, *(f"{case.name}#{turn}" for turn in range(1, len(case.dialog)))]
        steps = [step for key in keys for step in self._scenario.fault.get(key, ())]
        faulty = [step if isinstance(step, str) else step.content for step in steps]
        return [each for each in faulty if isinstance(each, str)] + [answer for _, answer in case.dialog]


def _verdict(form: Form, good: bool, beyond: bool, reason: str) -> str:
    if form == "grade":
        grade = "A+" if beyond else "C" if good else "I"
        return f"{reason}\n\nGRADE: {grade}"
    if form == "pass":
        score: float = 99 if beyond else float(good)
        return json.dumps({"reason": reason, "pass": good, "score": score})
    return json.dumps({"score": 99 if beyond else 10 * good, "reason": reason})


def _text(content: Any) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def _tool_message(call: Call, number: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.args)}
    return {"content": None, "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}


def _body(model: str, message: Mapping[str, Any], finish: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
    }


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: ScriptServer[Script]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step, body = self.server.script.reply(request)
        if step.slow_s or step.hang:
            self.server.closing.wait(_HANG_S if step.hang else step.slow_s)
        if step.hang:
            self.close_connection = True
        elif step.status != 200:
            error = {"error": {"message": "The server has a problem.", "type": "server_error", "code": None}}
            self._send(step.status, json.dumps(error).encode(), retry_after=step.retry_after)
        elif step.raw is not None:
            self._send(200, step.raw.encode(), kind="text/html")
        else:
            self._send(200, json.dumps(body).encode(), cut=step.cut)

    def _send(
        self,
        status: int,
        content: bytes,
        *,
        kind: str = "application/json",
        cut: bool = False,
        retry_after: int | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def serve(scenario: Scenario, form: Form) -> Iterator[str]:
    """Serve a scenario's models; yields the base URL of the interface."""
    with serve_script(_Handler, Script(scenario, form)) as address:
        yield f"{address}/v1"
