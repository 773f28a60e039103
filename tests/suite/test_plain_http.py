"""Keys and the machines that they are sent to."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.loader import load_suite
from tests.suite.folders import CASE, EQUALITY, HEAD, complaints, write
from tests.tables import walk

WITH_KEY = {"OPENAI_API_KEY": "sk-1"}
OPENAI = "name: s\nmodel: {provider: openai, name: m%s}\ninstructions: {inline: Answer.}\n" + EQUALITY
BASE_URL = {"OPENAI_BASE_URL": "http://gateway.example"}
GATEWAY = ", endpoint: 'http://gateway.example/v1'"
JUDGE = "{provider: openai, name: m, endpoint: 'http://gateway.example/v1'}"
TOLD = (
    "a key would be sent unencrypted to gateway.example (allowed: https, this machine, or any with --allow-plain-http"
)


def judged(metric: str) -> str:
    return f"- {{type: geval, name: g, criteria: c, threshold: 0.5, model: {metric}}}"


@pytest.mark.needs
@walk(
    ("agent", "policy", "environ", "place"),
    [
        (OPENAI % GATEWAY + CASE, "", WITH_KEY, "agent.yaml:2:46: model.endpoint: "),
        (OPENAI % f"{GATEWAY}, api_key: k" + CASE, "", {}, "agent.yaml:2:46: model.endpoint: "),
        (
            OPENAI % "" + CASE,
            "",
            {**WITH_KEY, "OPENAI_BASE_URL": "http://gateway.example"},
            "agent.yaml:2:8: model.endpoint: ",
        ),
        (
            f"{HEAD}evaluations:\n  metrics:\n  {judged(JUDGE)}\n{CASE}",
            "",
            WITH_KEY,
            "agent.yaml:6:102: evaluations.metrics[0].model.endpoint: ",
        ),
        (
            f"{HEAD}test_cases:\n- input: hi\n  evaluations:\n  {judged(JUDGE)}\n",
            "",
            WITH_KEY,
            "agent.yaml:7:5: model.endpoint: ",
        ),
        (
            HEAD + EQUALITY + CASE,
            "target: {type: http, url: 'http://gateway.example/', headers: {authorization: Bearer x}}\n",
            {},
            "holodeck-action.yaml:1:27: target.url: ",
        ),
        (
            HEAD + EQUALITY + CASE,
            "target: {type: http, url: 'http://user:word@gateway.example/'}\n",
            {},
            "holodeck-action.yaml:1:27: target.url: ",
        ),
    ],
)
def test_a_key_does_not_go_to_another_machine_in_clear(
    tmp_path: Path, agent: str, policy: str, environ: dict[str, str], place: str
) -> None:
    files = {"holodeck-action.yaml": policy} if policy else {}
    (line,) = complaints(tmp_path, agent, files, environ=environ)
    assert line.startswith(f"{place}{TOLD}"), line
    write(tmp_path, {"agent.yaml": agent, **files})
    load_suite(tmp_path / "agent.yaml", environ=environ, home=None, metrics=built_in(), plain_http=True)
    secure = agent.replace("http:", "https:"), {name: text.replace("http:", "https:") for name, text in files.items()}
    safe = {name: value.replace("http:", "https:") for name, value in environ.items()}
    assert complaints(tmp_path, *secure, environ=safe) == []


@walk("host", ["localhost:1", "127.0.0.1", "[::1]:8", "models.localhost"])
def test_this_machine_may_be_asked_in_clear(tmp_path: Path, host: str) -> None:
    assert complaints(tmp_path, OPENAI % f", endpoint: 'http://{host}/v1'" + CASE, environ=WITH_KEY) == []


def test_servers_without_a_key_may_be_asked_in_clear(tmp_path: Path) -> None:
    ollama = HEAD.replace("name: llama", "name: llama, endpoint: 'http://gpu:11434'") + EQUALITY + CASE
    assert complaints(tmp_path, ollama) == []
    assert complaints(tmp_path, ollama, environ={"OLLAMA_API_KEY": "k"}) != []
    target = {"holodeck-action.yaml": "target: 'http://agent:8080/chat'\n"}
    assert complaints(tmp_path, HEAD + EQUALITY + CASE, target) == []
