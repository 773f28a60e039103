"""A server on loopback in place of the models behind coding-agent programs: Responses, Chat Completions, Messages and
those of Gemini.

A script decides each of its answers.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple

from holodeck_action.text.foreign import Foreign

Json = dict[str, Any]
Tools = Mapping[str, Mapping[str, Any]]
"""The JSON schemas of the arguments of tools, by the name of the tool."""
FILE = "notes.txt"
_TEXT = "hello from the server"
_MARK = "SCN="
_PATHS, _CONTENTS = ("file_path", "filePath", "path"), ("content", "file_text")


class Step(NamedTuple):
    """What the model does: `text`, `call`, `max` (a text that is cut at the token limit), `status` (an HTTP status),
    `cut` (a stream that breaks after the text, or before the first word) or `hang` (no answer)."""

    kind: str
    text: str = ""
    tool: str = ""
    args: Any = None


class Request(NamedTuple):
    """A request to a model.

    Attributes:
        said: role and text of each message; a result of a tool has the role `tool`.
        tools: the tools that the model may call.
        whole: the request as text.
    """

    said: Sequence[tuple[str, str]]
    tools: Tools
    whole: str

    def scenario(self) -> tuple[str, int]:
        """Return the last scenario that the user names by `SCN=name`, and the number of results of tools after it; an
        empty name for a request that the program makes for itself, such as for a title."""
        asked = [at for at, (role, text) in enumerate(self.said) if role == "user" and _MARK in text]
        if not asked or not self.tools:
            return "", 0
        name = re.findall(rf"{_MARK}(\w+)", self.said[asked[-1]][1])[-1]
        return name, sum(role == "tool" for role, _ in self.said[asked[-1] + 1 :])

    def pick(self, *names: str) -> str:
        """Return the first tool with one of some names in any case; empty if there is none."""
        return next((tool for name in names for tool in self.tools if tool.casefold() == name), "")

    def write(self, folder: str) -> Step:
        """Return the step that writes notes.txt into a folder."""
        tool = self.pick("write", "write_file", "create")
        if not tool:
            return self.shell(f"echo '{_TEXT}' > {FILE}")
        values = {**dict.fromkeys(_PATHS, f"{folder}/{FILE}"), **dict.fromkeys(_CONTENTS, f"{_TEXT}\n")}
        known = self.tools[tool]["properties"]
        return Step("call", tool=tool, args={name: value for name, value in values.items() if name in known})

    def shell(self, command: str) -> Step:
        """Return the step that runs a command."""
        tool = self.pick("bash", "exec_command", "shell_command", "run_shell_command", "shell")
        values = {"command": command, "cmd": command, "description": "a step"}
        known = self.tools[tool]["properties"] if tool else {}
        return Step("call", tool=tool, args={name: value for name, value in values.items() if name in known})


Script = Callable[[Request], Step]


def work(request: Request, step: int, folder: str) -> Step:
    """Return a step of the scenario `work`: write notes.txt, show it, answer."""
    if step == 0:
        return request.write(folder)
    return request.shell(f"cat {FILE} && printf ok-%s 42") if step == 1 else Step("text", "Finished: wrote notes.txt.")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return _text(content.get("text") or content.get("content") or "")
    return "\n".join(map(_text, content or []))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.numbers = count(1)
        self.closed = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = Foreign(self.rfile.read(int(self.headers["Content-Length"] or 0)) or b"{}").json()
        answers = {
            "/responses": self._responses,
            "/completions": self._chat,
            "/messages": self._messages,
            ":streamGenerateContent": self._gemini,
        }
        path = self.path.partition("?")[0]
        answer = next((made for end, made in answers.items() if path.endswith(end)), None)
        try:
            if answer is None:
                self._json(200, {"input_tokens": 10, "totalTokens": 10})
            else:
                answer(body)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _json(self, status: int, value: Json) -> None:
        self._whole(json.dumps(value), status)

    def _whole(self, text: str, status: int = 200) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{next(self.server.numbers):06d}"

    def _other(self, step: Step) -> bool:
        """Answer with a status, or not at all."""
        if step.kind == "status":
            error = {"type": "scripted", "message": f"scripted {step.text}"}
            self._json(int(step.text), {"type": "error", "error": error})
        elif step.kind == "hang":
            self.server.closed.wait()
        return step.kind in ("status", "hang")

    def _stream(self, step: Step, events: list[Json], *, named: bool) -> None:
        """Send events; a cut stream ends after its text, the third event of those with names, else the second."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        begun = 1 + named + bool(step.text)
        for event in events[:begun] if step.kind == "cut" else events:
            name = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()

    def _responses(self, body: Json) -> None:
        tools = {
            each["name"]: each.get("parameters", {}) for each in body.get("tools", []) if each["type"] == "function"
        }
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        said = [
            ("tool" if str(item.get("type")).endswith("_output") else item.get("role", ""), _text(item.get("content")))
            for item in given
        ]
        step = self.server.script(Request(said, tools, json.dumps(body)))
        if self._other(step):
            return
        item: Json = {"type": "message", "id": self._id("msg"), "role": "assistant", "status": "completed"}
        item["content"] = [{"type": "output_text", "text": step.text, "annotations": []}]
        if step.kind == "call":
            item = {"type": "function_call", "id": self._id("fc"), "call_id": self._id("call"), "name": step.tool}
            item |= {"arguments": json.dumps(step.args), "status": "completed"}
        usage: Json = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 400}, "total_tokens": 1050}
        usage |= {"output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 20}}
        whole: Json = {"id": self._id("resp"), "object": "response", "status": "completed", "model": body["model"]}
        whole |= {"output": [item], "usage": usage, "created_at": 0}
        end = "response.completed"
        if step.kind == "max":
            end = "response.incomplete"
            whole |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        started = {
            "type": "response.created",
            "response": {**whole, "status": "in_progress", "output": [], "usage": None},
        }
        added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}}
        done = {"type": "response.output_item.done", "output_index": 0, "item": item}
        self._stream(step, [started, added, done, {"type": end, "response": whole}], named=True)

    def _chat(self, body: Json) -> None:
        tools = {each["function"]["name"]: each["function"].get("parameters", {}) for each in body.get("tools", [])}
        said = [(each["role"], _text(each.get("content"))) for each in body["messages"]]
        step = self.server.script(Request(said, tools, json.dumps(body)))
        if self._other(step):
            return
        delta: Json = {"role": "assistant", "content": step.text}
        if step.kind == "call":
            call = {"name": step.tool, "arguments": json.dumps(step.args)}
            delta = {"tool_calls": [{"index": 0, "id": self._id("call"), "type": "function", "function": call}]}
        message = {"role": "assistant", "content": None, **delta}
        usage: Json = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
        usage |= {
            "prompt_tokens_details": {"cached_tokens": 400},
            "completion_tokens_details": {"reasoning_tokens": 20},
        }
        reason = {"call": "tool_calls", "max": "length"}.get(step.kind, "stop")
        if not body.get("stream"):
            # Its body is cut in the middle.
            text = '{"choices": [' if step.kind == "cut" else ""
            whole: Json = {"id": self._id("c"), "object": "chat.completion", "created": 0, "model": body["model"]}
            whole |= {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
            self._whole(text or json.dumps(whole))
            return
        chunk: Json = {"id": self._id("c"), "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        events = [
            {**chunk, "choices": [first]},
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        self._stream(step, events, named=False)

    def _messages(self, body: Json) -> None:
        tools = {each["name"]: each.get("input_schema", {}) for each in body.get("tools", [])}
        said: list[tuple[str, str]] = []
        for message in body["messages"]:
            parts = (
                message["content"]
                if isinstance(message["content"], list)
                else [{"type": "text", "text": message["content"]}]
            )
            said += [("tool", "") for part in parts if part["type"] == "tool_result"]
            said += [(message["role"], part["text"]) for part in parts if part["type"] == "text"]
        step = self.server.script(Request(said, tools, json.dumps(body)))
        if self._other(step):
            return
        usage = {
            "input_tokens": 600,
            "cache_read_input_tokens": 400,
            "cache_creation_input_tokens": 0,
            "output_tokens": 50,
        }
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": step.text}
        if step.kind == "call":
            block = {"type": "tool_use", "id": self._id("toolu"), "name": step.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.args)}
        reason = {"call": "tool_use", "max": "max_tokens"}.get(step.kind, "end_turn")
        message = {"id": self._id("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
        self._stream(
            step,
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
                {"type": "message_stop"},
            ],
            named=True,
        )

    def _gemini(self, body: Json) -> None:
        declared = [each for group in body.get("tools", []) for each in group.get("functionDeclarations", [])]
        tools = {each["name"]: each.get("parametersJsonSchema") or each.get("parameters", {}) for each in declared}
        said = [
            ("tool" if "functionResponse" in part else content.get("role", ""), part.get("text", ""))
            for content in body["contents"]
            for part in content["parts"]
        ]
        step = self.server.script(Request(said, tools, json.dumps(body)))
        if self._other(step):
            return
        call = {"functionCall": {"name": step.tool, "args": step.args}}
        parts: list[Json] = [{"text": ""}, call if step.kind == "call" else {"text": step.text}]
        events: list[Json] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
        ]
        usage = {"promptTokenCount": 1000, "cachedContentTokenCount": 400, "candidatesTokenCount": 30}
        usage |= {"thoughtsTokenCount": 20, "totalTokenCount": 1050}
        reason = "MAX_TOKENS" if step.kind == "max" else "STOP"
        end: Json = {"content": {"role": "model", "parts": []}, "index": 0, "finishReason": reason}
        self._stream(step, [*events, {"candidates": [end], "usageMetadata": usage}], named=False)


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Serve on loopback; yields the address."""
    server = _Server(script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.closed.set()
        server.shutdown()
        server.server_close()
