"""A server on loopback that plays agents, models, judges and embedding models by the rules of a scenario."""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from typing import Any

from msgspec import UNSET

from bench.verdicts.doors.scenarios import Reply, Rule
from bench.verdicts.loopback import ScriptServer, serve_script


class Script:
    """The rules of a scenario's server, and how often each has matched.

    Attributes:
        step: number of the command that runs, from 1.
        unmatched: the requests for which there is no rule.
    """

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.step = 1
        self.unmatched: list[str] = []
        self._rules = rules
        self._seen: Counter[int] = Counter()
        self._lock = threading.Lock()

    def reply(self, path: str, request: Any) -> Reply | None:
        """Return the next reply of the first rule that matches; None without such a rule."""
        text = json.dumps(request, ensure_ascii=False)
        model = request.get("model", "") if isinstance(request, Mapping) else ""
        with self._lock:
            for at, rule in enumerate(self._rules):
                if rule.step not in (0, self.step) or not path.endswith(rule.path) or rule.has not in text:
                    continue
                if rule.model and rule.model != model:
                    continue
                reply = rule.replies[min(self._seen[at], len(rule.replies) - 1)]
                self._seen[at] += 1
                return Reply(say=reply) if isinstance(reply, str) else reply
            self.unmatched.append(f"{path}: {text[:500]}")
        return None


def body_of(path: str, request: Any, reply: Reply) -> bytes:
    """Return the body of a reply: in OpenAI's form for its paths, else as a target's reply."""
    if reply.text is not None:
        return reply.text.encode()
    if reply.body is not UNSET:
        return json.dumps(reply.body).encode()
    if path.endswith("/embeddings"):
        return json.dumps(_embeddings(request, reply.vectors)).encode()
    if path.endswith("/chat/completions"):
        return json.dumps(_completion(request, reply)).encode()
    return json.dumps({"response": reply.say}).encode()


def _completion(request: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    content = reply.say if isinstance(reply.say, str) else json.dumps(reply.say)
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": reply.refusal}
    finish = reply.finish
    if reply.call:
        function = {"name": reply.call, "arguments": "{}"}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
        finish = "tool_calls"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": request.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
    }


def _embeddings(request: Mapping[str, Any], vectors: Mapping[str, tuple[float, ...]]) -> dict[str, Any]:
    texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
    packed = request.get("encoding_format") == "base64"
    found: list[Any] = [list(vectors[text]) for text in texts]
    if packed:
        found = [base64.b64encode(struct.pack(f"<{len(each)}f", *each)).decode() for each in found]
    data = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(found)]
    usage = {"prompt_tokens": 10, "total_tokens": 10}
    return {"object": "list", "data": data, "model": request.get("model", ""), "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptServer[Script]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.server.script.reply(self.path, request)
        if reply is None:
            reply = Reply(status=500, text="the scenario has no rule for this request")
        if reply.wait_s:
            self.server.closing.wait(reply.wait_s)
        if reply.drop:
            self.close_connection = True
            return
        content = body_of(self.path, request, reply)
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if reply.cut else content)
        self.close_connection = self.close_connection or reply.cut

    def log_message(self, *_: object) -> None:
        """Write no log."""


def serve(script: Script) -> AbstractContextManager[str]:
    """Serve a script; yields the address of the server."""
    return serve_script(_Handler, script)
