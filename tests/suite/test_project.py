"""Project and user configuration, and where the cases come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from holodeck_action.extensions.deepeval.metrics_geval import GEvalMetric
from holodeck_action.suite.errors import SourceMark
from tests.suite.folders import CASE, EQUALITY, HEAD, complaints, load, write
from tests.tables import walk

TOOLS = "test_cases: [{input: a, expected_tools: []}]\n"


@pytest.mark.proves("ProjectConfig: providers")
def test_provider_settings_fill_what_the_models_leave_out(tmp_path: Path) -> None:
    agent = (
        "name: a\nmodel: {provider: openai, temperature: 0.9}\ninstructions: {inline: hi}\n"
        "embedding_provider: {provider: openai, name: emb}\n"
        "evaluations:\n  model: {provider: openai, name: judge}\n"
        "  metrics: [{type: geval, name: g, criteria: c, model: {provider: openai, name: own}}]\n" + TOOLS
    )
    config = "providers: {openai: {provider: openai, name: gpt, temperature: 0.1, max_tokens: 7, api_key: k}}\n"
    suite = load(tmp_path, agent, {"config.yaml": config})
    model, evaluations = suite.agent.model, suite.agent.evaluations
    assert (model.name, model.temperature, model.max_tokens) == ("gpt", 0.9, 7)
    assert model.api_key is not None
    assert model.model_fields_set == {"provider", "name", "temperature", "max_tokens", "api_key"}
    assert evaluations is not None
    assert evaluations.model is not None
    assert (evaluations.model.name, evaluations.model.temperature, evaluations.model.max_tokens) == ("judge", 0.1, 7)
    assert isinstance(evaluations.metrics[0], GEvalMetric)
    own = evaluations.metrics[0].model
    assert own is not None
    assert own.model_fields_set == {"provider", "name"}
    assert suite.agent.embedding_provider is not None
    assert suite.agent.embedding_provider.model_fields_set == {"provider", "name"}


def test_the_entry_of_the_provider_is_found_under_another_key(tmp_path: Path) -> None:
    agent = "name: a\nmodel: {provider: openai}\ninstructions: {inline: hi}\n" + TOOLS
    config = "providers: {other: {provider: ollama, name: o}, mine: {provider: openai, name: gpt}}\n"
    assert load(tmp_path, agent, {"config.yml": config}).agent.model.name == "gpt"


def test_without_an_entry_the_name_is_missing(tmp_path: Path) -> None:
    agent = "name: a\nmodel: {provider: openai}\ninstructions: {inline: hi}\n" + TOOLS
    config = "providers: {other: {provider: ollama, name: o}}\n"
    assert complaints(tmp_path, agent, {"config.yaml": config}) == ["agent.yaml:2:8: model.name: is missing (required)"]


def test_project_wins_over_user_configuration_key_by_key_and_unset_stays_unset(tmp_path: Path) -> None:
    agent = "name: a\nmodel: {provider: openai}\ninstructions: {inline: hi}\n" + TOOLS
    user = (
        "providers: {openai: {provider: openai, name: user, max_tokens: 5}}\n"
        "execution: {llm_timeout: 9, cache_dir: u}\nvectorstores: {u: {provider: qdrant}}\n"
    )
    project = "providers: {openai: {provider: openai, name: project}}\nexecution: {cache_dir: p}\n"
    suite = load(
        tmp_path / "suite",
        agent,
        {"config.yaml": project, "../home/.holodeck/config.yaml": user},
        home=tmp_path / "home",
    )
    assert (suite.agent.model.name, suite.agent.model.max_tokens) == ("project", 5)
    assert "temperature" not in suite.agent.model.model_fields_set
    execution = suite.project.execution
    assert execution is not None
    assert (execution.llm_timeout, execution.cache_dir) == (9.0, "p")
    assert execution.model_fields_set == {"llm_timeout", "cache_dir"}
    assert suite.project.vectorstores is not None
    assert list(suite.project.vectorstores) == ["u"]


def test_user_configuration_is_named_with_the_home_sign(tmp_path: Path) -> None:
    write(tmp_path / "home/.holodeck", {"config.yml": "execution: {quiet: loud}\n"})
    assert complaints(tmp_path, HEAD + TOOLS, home=tmp_path / "home") == [
        "~/.holodeck/config.yml:1:20: execution.quiet: must be true or false"
    ]
    assert complaints(tmp_path, HEAD + TOOLS, home=None) == []


@pytest.mark.proves("config.yml and config.yaml")
def test_yml_wins_over_yaml_with_a_notice(tmp_path: Path) -> None:
    suite = load(tmp_path, HEAD + TOOLS, {"config.yml": "execution: {cache_dir: a}\n", "config.yaml": "not: [valid"})
    assert suite.project.execution is not None
    assert suite.project.execution.cache_dir == "a"
    assert suite.notices == ("config.yaml is not read, because config.yml is next to it",)


@pytest.mark.proves("ProjectConfig: mcp_servers")
def test_shared_mcp_servers_are_appended_unless_the_name_is_taken(tmp_path: Path) -> None:
    server = "{type: mcp, name: %s, description: %s, command: npx}"
    agent = f"{HEAD}tools: [{server % ('mine', 'agent')}]\n{TOOLS}"
    config = f"mcp_servers: [{server % ('mine', 'config')}, {server % ('shared', 'config')}]\n"
    suite = load(tmp_path, agent, {"config.yaml": config})
    assert [(tool.name, tool.description) for tool in suite.agent.tools or ()] == [
        ("mine", "agent"),
        ("shared", "config"),
    ]


def test_cases_in_a_file_of_their_own(tmp_path: Path) -> None:
    cases = "- input: one\n  ground_truth: 1\n  files: [{path: img/a.png, type: image}]\n- {input: two}\n"
    for content, first in ((cases, 1), (f"title: x\ntest_cases:\n{cases}", 3)):
        files = {"data/cases.yaml": content, "data/img/a.png": ""}
        suite = load(tmp_path, f"{HEAD}{EQUALITY}test_cases_file: data/cases.yaml\n", files)
        assert [case.turns[0].input for case in suite.cases] == ["one", "two"]
        assert suite.cases[0].mark == SourceMark("data/cases.yaml", first, 3)
        # Relative to the file that names it.
        assert suite.cases[0].turns[0].files[0].path == "data/img/a.png"
        assert suite.agent.test_cases is None


def test_the_cases_file_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    shared = tmp_path / "shared.yaml"
    shared.write_text("- {input: a, ground_truth: b}\n")
    suite = load(tmp_path / "suite", f"{HEAD}{EQUALITY}test_cases_file: ../shared.yaml\n")
    assert suite.cases[0].mark.file == "../shared.yaml"
    suite = load(tmp_path / "suite", f"{HEAD}{EQUALITY}test_cases_file: {shared}\n")
    assert suite.cases[0].mark.file == "../shared.yaml"


NOT_A_LIST = "cases.yaml:1:1: must be a list of cases, or a mapping with the list under test_cases"
NO_CASES = "the suite has no cases (allowed: at least one, or none with allow-empty)"


@walk(
    ("cases", "expected"),
    [
        ("", f"cases.yaml:1:1: test_cases: {NO_CASES}"),
        ("[]", f"cases.yaml:1:1: test_cases: {NO_CASES}"),
        ("test_cases: []", f"cases.yaml:1:13: test_cases: {NO_CASES}"),
        ("test_cases: 3", "cases.yaml:1:13: test_cases: must be a list"),
        ("other: []", NOT_A_LIST),
        ("text", NOT_A_LIST),
        ("- [", "cases.yaml:2:1: is not valid YAML: the text ends inside brackets: close [ with ], and { with }"),
        ("- hi", "cases.yaml:1:3: test_cases[0]: must be a mapping"),
    ],
)
def test_a_cases_file_that_holds_no_cases(tmp_path: Path, cases: str, expected: str) -> None:
    agent = f"{HEAD}{EQUALITY}test_cases_file: cases.yaml\n"
    assert complaints(tmp_path, agent, {"cases.yaml": cases}) == [expected]


@walk(
    ("block", "expected"),
    [
        ("", f"1:1: test_cases: {NO_CASES}"),
        ("test_cases: []\n", f"5:13: test_cases: {NO_CASES}"),
        ("test_cases:\n", f"5:12: test_cases: {NO_CASES}"),
        ("test_cases: {a: 1}\n", "5:13: test_cases: must be a list"),
        (
            "test_cases_file: data/x.yaml\n",
            "5:18: test_cases_file: data/x.yaml does not exist (allowed: a path relative to agent.yaml)",
        ),
        (
            "test_cases_file: .\n",
            "5:18: test_cases_file: . is a folder (allowed: a YAML file)",
        ),
        (
            "test_cases_file: x.jsonl\n",
            "5:18: test_cases_file: x.jsonl does not exist (allowed: a path relative to agent.yaml)",
        ),
        ("test_cases_file: 3\n", "5:18: test_cases_file: must be text: put the value in quotes"),
        ("test_cases_file: ''\n", "5:18: test_cases_file: must not be blank"),
        (
            "test_cases: []\ntest_cases_file: x.yaml\n",
            "6:18: test_cases_file: cannot be combined with test_cases: keep one of them",
        ),
    ],
)
def test_no_cases(tmp_path: Path, block: str, expected: str) -> None:
    assert complaints(tmp_path, f"{HEAD}{EQUALITY}{block}") == [f"agent.yaml:{expected}"]


def test_an_empty_suite_is_accepted_when_asked_for(tmp_path: Path) -> None:
    assert load(tmp_path, f"{HEAD}{EQUALITY}test_cases: []\n", allow_empty=True).cases == ()


def test_the_digest_covers_agent_cases_and_policy_but_not_line_ends(tmp_path: Path) -> None:
    agent = f"{HEAD}{EQUALITY}test_cases_file: cases.yaml\n"
    files = {"cases.yaml": "- {input: a, ground_truth: b}\n", "holodeck-action.yaml": "trials: {repeat: 1}\n"}
    digest = load(tmp_path, agent, files).digest
    assert len(digest) == 64
    assert load(tmp_path, agent.replace("\n", "\r\n"), files).digest == digest
    changed = {
        load(tmp_path, agent + "# x\n", files).digest,
        load(tmp_path, agent, {**files, "cases.yaml": "- {input: a, ground_truth: c}\n"}).digest,
        load(tmp_path, agent, {**files, "holodeck-action.yaml": "trials: {repeat: 2}\n"}).digest,
    }
    assert len(changed | {digest}) == 4
    assert load(tmp_path, agent, {**files, "config.yaml": "execution: {quiet: true}\n"}).digest == digest


@pytest.mark.proves("AgentConfig: name")
def test_a_suite_knows_its_place(tmp_path: Path) -> None:
    suite = load(tmp_path, HEAD + EQUALITY + CASE)
    assert suite.folder == tmp_path
    assert suite.file == "agent.yaml"
    assert suite.name == "support"
