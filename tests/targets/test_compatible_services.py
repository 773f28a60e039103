"""Services that speak OpenAI's language: agent, judge and embeddings, recorded, replayed and priced like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.suite.model.providers import ADDRESS_VARIABLES, COMPATIBLE, ProviderName
from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels

pytestmark = pytest.mark.needs("deepeval")

PRICED: dict[ProviderName, str] = {
    "gemini": "gemini-2.5-flash",
    "vertex": "google/gemini-2.5-flash",
    "bedrock": "openai.gpt-oss-120b-1:0",
    "mistral": "mistral-large-latest",
    "groq": "llama-3.3-70b-versatile",
    "cohere": "command-a-03-2025",
    "deepseek": "deepseek-chat",
    "openrouter": "openai/gpt-4o",
}
"""A model of each service whose price is known."""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def of(provider: ProviderName) -> dict[str, str]:
    return {"provider": provider, "name": PRICED.get(provider, "org/some-model")}


@pytest.mark.proves("LLMProvider.provider", *(f"LLMProvider.provider={name}" for name in COMPATIBLE))
@pytest.mark.parametrize("provider", COMPATIBLE)
def test_agent_and_judge_are_asked_recorded_replayed_and_priced(
    project: Project, models: FakeModels, provider: ProviderName
) -> None:
    geval = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Read it."]}
    project.suite([{"name": "hello", "input": "ping"}], [geval], model=of(provider))
    models.answer(lambda request: '{"reason": "so", "score": 9}' if "Read it." in str(request.body) else "pong")
    service = {COMPATIBLE[provider].key: KEY, ADDRESS_VARIABLES[provider]: models.openai_url}
    finished, record = project.evaluate("--record", "tape", **service)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert {request.model for request in models.requests} == {of(provider)["name"]}
    assert record.provenance.target == f"model:{provider}/{of(provider)['name']}"
    assert record.run.model_calls is not None
    assert (record.run.model_calls.cost_usd is not None) is (provider in PRICED)
    asked = len(models.requests)
    address = {ADDRESS_VARIABLES[provider]: models.openai_url}
    assert project.run("run", "--replay", "tape", **address).code == 0
    assert len(models.requests) == asked


@pytest.mark.parametrize("provider", COMPATIBLE)
def test_a_missing_key_names_the_variable(project: Project, provider: ProviderName) -> None:
    model = {**of(provider), "endpoint": "https://models.example.com/v1"}
    project.suite([{"name": "hello", "input": "ping", "ground_truth": "pong"}], model=model)
    finished = project.run("run", "-o", "out")
    assert finished.code == 2
    assert f"{COMPATIBLE[provider].title} needs a key for the model {of(provider)['name']}" in finished.stderr
    assert f"set the environment variable {COMPATIBLE[provider].key}" in finished.stderr


@pytest.mark.parametrize("provider", [name for name, service in COMPATIBLE.items() if not service.address])
def test_a_service_with_an_address_for_each_customer_needs_one(project: Project, provider: ProviderName) -> None:
    project.suite([{"name": "hello", "input": "ping", "ground_truth": "pong"}], model=of(provider))
    finished = project.run("run", "-o", "out", **{COMPATIBLE[provider].key: KEY})
    assert finished.code == 2
    assert "model.endpoint is missing" in finished.stderr
    assert ADDRESS_VARIABLES[provider] in finished.stderr


def test_documents_are_embedded_by_such_a_service(project: Project, models: FakeModels) -> None:
    project.write("docs/help.md", "Refunds take five days.\n")
    tool = {"type": "vectorstore", "name": "help", "description": "Help.", "source": "docs", "embedding_model": "e-1"}
    project.suite(
        [{"name": "hello", "input": "ping", "ground_truth": "echo: ping"}],
        model=of("mistral"),
        tools=[tool],
    )
    finished, _ = project.evaluate(MISTRAL_API_KEY=KEY, MISTRAL_BASE_URL=models.openai_url)
    assert finished.code == 0, finished.stdout + finished.stderr
