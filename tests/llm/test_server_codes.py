"""Errors as llama.cpp and LiteLLM tell them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels, Fault

# llama.cpp, tools/server/server.cpp: `exceed_context_size_error` with status 400.
LLAMA_CPP = {
    "error": {
        "code": 400,
        "message": "request (5210 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 5210,
        "n_ctx": 4096,
    }
}
TERSE = {"error": {"code": 400, "message": "too many tokens", "type": "exceed_context_size_error"}}
# LiteLLM, litellm/proxy/route_llm_request.py: ProxyModelNotFoundError.
CALL = "Invalid model name passed in model=strong. Call `/v1/models` to view available models for your key."
LITELLM = {
    "error": {
        "message": str({"error": f"/chat/completions: {CALL}"}),
        "type": "None",
        "param": "None",
        "code": "400",
    }
}


def suite(project: Project, **runner: Any) -> dict[str, str]:
    project.suite(
        [{"name": "only", "input": "hi", "ground_truth": "echo: hi"}],
        model={"provider": "openai", "name": "strong"},
        **runner,
    )
    return {"OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (LLAMA_CPP, "context_length", "the conversation is longer than OpenAI model strong accepts (status 400)"),
        (TERSE, "context_length", "the conversation is longer than OpenAI model strong accepts (status 400)"),
        (LITELLM, "model_not_found", "OpenAI model strong is unknown or not accessible"),
    ],
)
def test_codes_of_servers(project: Project, models: FakeModels, body: Any, code: str, said: str) -> None:
    environ = suite(project)
    models.fail(Fault(status=400, body=json.dumps(body), headers={"content-type": "application/json"}, times=None))
    _, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, **environ)
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == code
    assert error.message.startswith(said)


def test_a_model_that_a_gateway_lacks_has_its_fallback(project: Project, models: FakeModels) -> None:
    environ = suite(project, openai={"fallback_model": "weak"})
    models.fail(
        Fault(
            status=400,
            body=json.dumps(LITELLM),
            headers={"content-type": "application/json"},
            times=None,
            about=lambda request: request.model == "strong",
        )
    )
    finished, record = project.evaluate(OPENAI_BASE_URL=models.openai_url, **environ)
    assert finished.code == 0, finished.stdout
    assert record.cases[0].trials[0].turns[0].fallback_model == "weak"
