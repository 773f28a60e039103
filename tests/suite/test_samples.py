"""The sample suites of HoloDeck (tests/data/samples, with their licence): each loads, or says precisely why not."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.applicability import case_asserts
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.suite_schemas import suite_schema
from tests.tables import walk

SAMPLES = Path(__file__).parent.parent / "data" / "samples"
ENVIRON = {
    "OPENAI_API_KEY": "sk-test",
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
    "AZURE_OPENAI_API_KEY": "azure-test",
}
TELEMETRY = "not used by this runner: observability.metrics, observability.logs"
VARIABLES = {
    "content-moderation/ollama": [],
    "content-moderation/openai": ["OPENAI_API_KEY"],
    "customer-support/azure-openai": ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"],
    "ticket-routing/azure-openai": ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"],
}
VALID = {
    "content-moderation/ollama": 6,
    "content-moderation/openai": 6,
    "customer-support/azure-openai": 5,
    "ticket-routing/azure-openai": 3,
}


def test_every_sample_is_covered() -> None:
    found = {path.parent.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("agent.yaml")}
    assert found == {*VALID, "customer-support/openai"}


@pytest.mark.needs
@walk(("name", "count"), VALID.items())
def test_samples_load(name: str, count: int) -> None:
    suite = load_suite(SAMPLES / name / "agent.yaml", environ=ENVIRON, home=None, metrics=built_in())
    assert len(suite.cases) == count
    assert suite.notices == (TELEMETRY,)
    assert all(case_asserts(case) for case in suite.cases)
    assert all(spec.config.needs_judge for case in suite.cases for turn in case.turns for spec in turn.metrics)
    assert suite.secrets == {"http://localhost:8000", *(ENVIRON[variable] for variable in VARIABLES[name])}


@pytest.mark.needs
def test_the_sample_with_an_unknown_key_is_refused_with_the_key_it_meant() -> None:
    with pytest.raises(SuiteError) as raised:
        load_suite(SAMPLES / "customer-support/openai/agent.yaml", environ=ENVIRON, home=None, metrics=built_in())
    assert str(raised.value) == (
        'config.yaml:20:3: execution.cache_directory: unknown key, did you mean "cache_dir"? (allowed: cache_dir, '
        "cache_enabled, download_timeout, file_timeout, llm_timeout, parallel_test_cases, quiet, verbose)"
    )


@pytest.mark.needs
def test_the_same_sample_loads_once_the_key_is_right(tmp_path: Path) -> None:
    folder = SAMPLES / "customer-support/openai"
    (tmp_path / "instructions").mkdir()
    for name in ("agent.yaml", "config.yaml", "instructions/system-prompt.md"):
        text = (folder / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("cache_directory", "cache_dir"), encoding="utf-8")
    suite = load_suite(tmp_path / "agent.yaml", environ=ENVIRON, home=None, metrics=built_in())
    assert [case.id for case in suite.cases] == [
        "faq-password-reset",
        "billing-cancellation",
        "technical-api-limits",
        "general-support-hours",
        "integration-slack-setup",
    ]
    assert suite.agent.model.temperature == 0.7
    assert suite.agent.model.api_key is not None
    assert suite.agent.model.api_key.get_secret_value() == "sk-test"


@pytest.mark.needs
def test_a_missing_variable_of_a_sample_is_named_everywhere_it_is_used() -> None:
    with pytest.raises(SuiteError) as raised:
        load_suite(SAMPLES / "ticket-routing/azure-openai/agent.yaml", environ={}, home=None, metrics=built_in())
    unset = "the variable AZURE_OPENAI_ENDPOINT is not set: set it, or write ${AZURE_OPENAI_ENDPOINT:-default}"
    assert str(raised.value).splitlines() == [
        f"agent.yaml:10:13: model.endpoint: {unset}",
        f"agent.yaml:71:15: evaluations.model.endpoint: {unset}",
        f"config.yaml:7:15: providers.azure_openai.endpoint: {unset}",
    ]


@pytest.mark.needs
def test_the_key_of_a_model_may_be_unset_until_it_is_asked() -> None:
    environ = {"AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com"}
    suite = load_suite(
        SAMPLES / "ticket-routing/azure-openai/agent.yaml", environ=environ, home=None, metrics=built_in()
    )
    assert suite.agent.model.api_key is not None
    assert suite.agent.model.api_key.get_secret_value() == "${AZURE_OPENAI_API_KEY}"
    # What stands in the file is no secret, and must not be masked in reports.
    assert not [secret for secret in suite.secrets if "AZURE" in secret]


@pytest.mark.needs
@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("agent.yaml")), ids=lambda path: path.parent.name)
def test_editors_accept_the_samples(path: Path) -> None:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(suite_schema("agent", built_in())).validate(document)
