"""A real model on loopback: SmolLM2-135M-Instruct, served by llama.cpp over every wire that the product speaks."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.release.loopback import free_port
from tests.workers.support import wait_until

KEY = "sk-real-4711"
NAME = "smollm2"
CONTEXT = 4096
"""Tokens of one request and its answer."""
LOADING = 10_000
"""Rounds in the template of a server that loads for some seconds."""
CITIES = ("Paris", "Rome")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": [*CITIES]}},
    "required": ["city"],
    "additionalProperties": False,
}
"""A schema of answers of a few tokens."""
_SCRIPT = Path(__file__).with_name("serve_model.py")
_LONGEST_S = 300


@dataclass(frozen=True)
class Wire:
    """How a suite calls the model.

    Attributes:
        provider: the provider in agent.yaml.
        path: what is below the server's address in `endpoint`.
        block: keys at the top of agent.yaml that choose the wire.
        grammar: whether the server enforces the schema of an answer, if it is sent at all.
        end: the reason with which the server ends an answer that is cut off.
    """

    provider: str
    path: str
    block: Mapping[str, Any] = field(default_factory=dict)
    grammar: bool = True
    end: str = "length"


WIRES: Mapping[str, Wire] = {
    "chat": Wire("openai", "/openai/v1"),
    "azure": Wire("azure_openai", ""),
    "messages": Wire("anthropic", "/openai", grammar=False),
    "ollama": Wire("ollama", "/openai/v1"),
    "responses": Wire("openai", "/openai/v1", {"openai": {"api": "responses"}}, grammar=False, end="stop"),
}
"""The wires that `test_wires.py` walks. One that a setting chooses is a row with its `block`."""


class Server:
    """A server in its own process, on one port for its whole life."""

    def __init__(self, python: str, folder: Path) -> None:
        self.port = free_port()
        self._python, self._log = python, folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, loading: int = 0) -> None:
        """Start the process, and return as soon as it answers, which is before it has loaded the model."""
        options = json.dumps({"port": self.port, "key": KEY, "loading": loading})
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([self._python, _SCRIPT, options], stdout=log, stderr=log)
        assert wait_until(lambda: self.health() != 0, _LONGEST_S), self._log.read_text()

    def wait(self) -> None:
        """Return when the model is loaded."""
        assert wait_until(lambda: self.health() == 200, _LONGEST_S), self._log.read_text()

    def kill(self) -> None:
        """End the process as the kernel does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def health(self) -> int:
        """The status of the server: 503 while it loads; 0 if nothing answers."""
        try:
            return self._get("health")[0]
        except (URLError, ConnectionError, TimeoutError):
            return 0

    def tokens(self) -> tuple[int, int]:
        """The tokens of all prompts and all answers that the server has counted since it started."""
        rows = [line.split() for line in self._get("metrics")[1].splitlines() if not line.startswith("#")]
        counts = {name: int(float(value)) for name, value in rows}
        return counts["llamacpp:prompt_tokens_total"], counts["llamacpp:tokens_predicted_total"]

    def model(self, wire: str = "chat", **settings: Any) -> dict[str, Any]:
        """Return the reference to the model for agent.yaml; it repeats its answers, unless settings say otherwise."""
        kind = WIRES[wire]
        address = {"provider": kind.provider, "name": NAME, "endpoint": f"{self.url}{kind.path}", "api_key": KEY}
        return {**address, "temperature": 0, "max_tokens": 12, **settings}

    def _get(self, path: str) -> tuple[int, str]:
        request = Request(f"{self.url}/openai/{path}", headers={"authorization": f"Bearer {KEY}"})
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            with error:
                return error.code, ""


@contextmanager
def serving(python: str, folder: Path) -> Iterator[Server]:
    """Yield a server that is not started, and end it when the block ends."""
    server = Server(python, folder)
    try:
        yield server
    finally:
        server.kill()
