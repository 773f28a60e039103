"""Configurations of promptfoo are imported, validated and run; verdicts are those of promptfoo itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from holodeck_action.extensions.importers.converted_suite import NOT_IMPORTED
from tests.commands.project import Project
from tests.extensions.importers.accounts import account, assertions_in
from tests.llm.models import KEY, Answer, FakeModels
from tests.targets.service import Handler, Received, Service

HERE = Path(__file__).parent / "promptfoo"
VERDICTS: dict[str, dict[str, bool]] = yaml.safe_load((HERE / "verdicts.yaml").read_text(encoding="utf-8"))
TOOLS = """
def answer(messages):
    return {"response": "Done.", "tool_invocations": [
        {"name": "find_order", "args": {"order": "A-17"}},
        {"name": "refund", "args": {"order": "A-17", "amount": 12}},
    ]}
"""


@pytest.fixture
def configured(project: Project) -> Project:
    """The folder with all configurations."""
    shutil.copytree(HERE, project.folder, dirs_exist_ok=True)
    return project


def imported(project: Project, name: str, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """Import a configuration into the folder `new`, and return its account."""
    finished = project.run(
        "import", "promptfoo", f"{name}.yaml", "-o", "new", "--report", "new/account.json", *arguments
    )
    assert finished.code == code, finished.stdout + finished.stderr
    return account(project, "new")


def verdicts(project: Project, *suites: str, code: int, **environ: str) -> dict[str, str]:
    """Run suites and return the outcome of each case by its name."""
    # Else each case would be in a process of its own.
    finished, record = project.evaluate(*suites, "--concurrency", "1", **environ)
    assert finished.code == code, finished.stdout + finished.stderr
    names = {case.id: str(case.name) for case in record.cases}
    return {names[each["id"]]: each["outcome"] for each in project.verdict()["cases"]}


@pytest.mark.full
@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_are_those_of_promptfoo(name: str, configured: Project) -> None:
    rows = imported(configured, name)
    configured.write("new/tools.py", TOOLS)
    validated = configured.run("validate", "new")
    assert validated.code == 0, validated.stderr
    target = ("--target", "python:tools:answer") if name == "tools" else ()
    found = verdicts(configured, "new", *target, code=1)
    assert found == {case: "passed" if passes else "failed" for case, passes in VERDICTS[name].items()}
    written = assertions_in(yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8")))
    told = [row["source"] for row in rows if row["asserts"] and row["file"] == f"{name}.yaml"]
    resolved = {"#/assertionTemplates/order": "is-json"}
    assert sorted(told) == sorted(resolved.get(kind, kind) for kind in written)
    assert not [row for row in rows if row["outcome"] == "missing"]


@pytest.mark.full
@pytest.mark.proves("import.PROGRAM", "import.FILE", "import.--output-dir", "import.--report", "import.--allow-missing")
def test_what_has_no_equal_is_told_and_cannot_pass(configured: Project) -> None:
    rows = imported(configured, "missing", code=1)
    root = yaml.safe_load((HERE / "missing.yaml").read_text(encoding="utf-8"))
    told = [row for row in rows if row["asserts"]]
    assert sorted(row["source"] for row in told) == sorted(assertions_in(root))
    lost = [row for row in told if row["outcome"] == "missing"]
    # Two of a mean that is not computed, and two of cases that cannot be asked.
    assert len(lost) == len(told) - 4
    assert all(row["note"] for row in lost)
    assert {row["source"] for row in rows if not row["asserts"] and row["outcome"] == "missing"} == {
        "threshold",
        "no assertion",
        "tests",
        "providers",
        "options.storeOutputAs",
    }
    agent = (configured.folder / "new/agent.yaml").read_text(encoding="utf-8")
    assert "# Not imported: moderation (missing.yaml:8): moderation services are not called; use toxicity" in agent
    assert configured.run("validate", "new").code == 0
    # Nothing decides what was not imported, so no case passes.
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer("I would rather not say."))
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
        found = verdicts(configured, "new", code=1, **environ)
        assert set(found.values()) == {"failed"}
        assert len(found) == 12
        shutil.rmtree(configured.folder / "new")
        # With comments only, what is left decides.
        rows = imported(configured, "missing", "--allow-missing")
        assert len([row for row in rows if row["asserts"] and row["outcome"] == "missing"]) == len(lost)
        found = verdicts(configured, "new", code=3, **environ)
    del found["a mean with a judge"]
    assert set(found.values()) == {"informational"}
    # What cannot be asked is a comment only.
    agent = (configured.folder / "new/agent.yaml").read_text(encoding="utf-8")
    assert "# another provider: Not imported: providers (missing.yaml:48): none of these is known" in agent
    assert len(found) == 7


@pytest.mark.full
def test_no_existing_file_is_changed(configured: Project) -> None:
    configured.write("holodeck-action.yaml", "{}\n")
    finished = configured.run("import", "promptfoo", "texts.yaml")
    assert finished.code == 2
    assert finished.stderr == (
        "error: holodeck-action.yaml: already exists, and nothing was written; remove it, or choose another "
        "folder with -o\n"
    )
    assert not (configured.folder / "agent.yaml").exists()
    (configured.folder / "holodeck-action.yaml").unlink()
    finished = configured.run("import", "promptfoo", "texts.yaml", "--report", "account.md")
    assert finished.code == 0
    assert "36 assertions: 15 as metrics, 16 as graders, 5 as similar metrics\n" in finished.stdout
    report = (configured.folder / "account.md").read_text(encoding="utf-8")
    assert "| texts.yaml:5 | equals | equality |  |" in report
    assert configured.run("validate").code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "promptfooconfig.yaml: cannot be read: No such file or directory"),
        ("tests: [1\n", "promptfooconfig.yaml:1:8: is not valid YAML"),
        ("- a list\n", "promptfooconfig.yaml:1:1: is not a promptfoo configuration"),
        ("prompts: [hello]\n", "promptfooconfig.yaml:1:1: has no test; give tests or scenarios"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused(content: str | None, said: str, project: Project) -> None:
    if content is not None:
        project.write("promptfooconfig.yaml", content)
    finished = project.run("import", "promptfoo", "promptfooconfig.yaml", "-o", "new")
    assert (finished.code, finished.stdout) == (2, "")
    assert said in finished.stderr
    assert not (project.folder / "new").exists()


@pytest.mark.full
def test_models_get_prompts_as_instructions_and_input(configured: Project) -> None:
    rows = imported(configured, "models", code=1)
    assert [row["source"] for row in rows if row["outcome"] == "missing"] == ["provider some-service:model"]
    folders = sorted(path.parent.name for path in configured.folder.glob("new/*/agent.yaml"))
    assert folders == ["claude", "openai-chat-gpt-4o-prompt-1", "openai-chat-gpt-4o-prompt-2", "some-service-model"]
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer("Leeds"))
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
        environ |= {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": models.anthropic_url}
        suites = [f"new/{folder}" for folder in folders if "some-service" not in folder]
        finished = configured.run("run", *suites, **environ)
        assert finished.code == 0, finished.stdout + finished.stderr
        asked = {
            (request.model, *((message.role, message.text) for message in request.messages))
            for request in models.requests
        }
    whole = ("user", "Say it in one word: Where?")
    system = ("system", "Answer the message of the user.")
    assert asked == {
        ("gpt-4o", ("system", 'You are "brief".'), ("user", "Where?")),
        ("gpt-4o", system, whole),
        ("claude-sonnet-4-5", system, whole),
    }
    # Two repetitions of each, and what cannot be asked refuses to answer.
    assert len(models.requests) == 6
    refused = configured.run("run", "new/some-service-model")
    assert refused.code == 3
    assert "was not imported: call your agent here" in refused.stdout
    policy = yaml.safe_load((configured.folder / "new/claude/holodeck-action.yaml").read_text(encoding="utf-8"))
    assert policy == {"trials": {"repeat": 2}, "limits": {"concurrency": 3, "turn_timeout_s": 30.0}}


@pytest.mark.full
def test_programs_and_services_answer_as_before(configured: Project) -> None:
    imported(configured, "programs")
    service = Service()

    def respond(handler: Handler, received: Received) -> None:
        told = received.body
        handler.answer({"answer": [{"text": f'{told["who"]} asked "{told["message"]}" in Leeds'}]})

    service.respond = respond
    try:
        environ = {"SERVICE": service.url, "SERVICE_TOKEN": "token-of-the-service"}
        suites = [f"new/{name}" for name in ("in-python", "in-a-process", "a-service")]
        finished = configured.run("run", *suites, **environ)
    finally:
        service.close()
    assert finished.code == 0, finished.stdout + finished.stderr
    [received] = service.received
    assert received.headers["authorization"] == "Bearer token-of-the-service"


TEXTS = (
    "",
    " ",
    "\n",
    "a",
    "A",
    "ab",
    " a",
    "a ",
    "a  b",
    "a b",
    "a\nb",
    "\u00a0",
    "é",
    "e\u0301",
    "ß",
    "😀",
    "a\x00b",
    "<b>|`*",
)


@pytest.mark.full
def test_metrics_give_the_verdicts_of_graders(project: Project) -> None:
    # In a set with a threshold an assertion stays a grader.
    kinds = {"contains": TEXTS, "starts-with": TEXTS, "regex": ("a", "^a", r"a\s+b", "b$", r"\ba\b", "[^a]*", "é|ß")}
    several = {"contains-any": (["a", "é"], ["A", "ß"]), "contains-all": (["a", "b"], ["<b>", "|"])}
    values = [(kind, value) for kind, listed in {**kinds, **several}.items() for value in listed if value]
    tests: list[dict[str, Any]] = []
    for kind, value in values:
        metric = {"type": kind, "value": value}
        for answer in TEXTS:
            for check in (metric, {"type": "assert-set", "threshold": 1, "assert": [metric]}):
                tests.append({"description": f"{len(tests)}", "providerOutput": answer, "assert": [check]})
    project.write("c.yaml", json.dumps({"prompts": ["q"], "providers": ["echo"], "tests": tests}))
    rows = imported(project, "c")
    assert {row["becomes"] for row in rows if row["asserts"] and row["outcome"] == "metric"} == {
        *("contains", "starts_with", "contains_any", "contains_all", "regex"),
    }
    assert len([row for row in rows if row["outcome"] == "metric"]) > 30 * len(TEXTS)
    found = verdicts(project, "new", code=1)
    pairs = [(found[f"{at}"], found[f"{at + 1}"], tests[at]) for at in range(0, len(tests), 2)]
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
    assert {pair[0] for pair in pairs} == {"passed", "failed"}


@pytest.mark.full
def test_judged_assertions_become_metrics_of_the_same_kind(configured: Project) -> None:
    rows = imported(configured, "judged")
    assert {row["source"]: (row["becomes"], row["outcome"]) for row in rows if row["asserts"]} == {
        **dict.fromkeys(("llm-rubric", "g-eval", "factuality", "model-graded-closedqa"), ("geval", "similar")),
        "answer-relevance": ("answer_relevancy", "similar"),
        "context-faithfulness": ("faithfulness", "similar"),
        "context-relevance": ("contextual_relevancy", "similar"),
        "context-recall": ("contextual_recall", "similar"),
        **dict.fromkeys(("is-refusal", "not-is-refusal"), ("refusal", "similar")),
        **dict.fromkeys(("similar", "similar:cosine"), ("similar", "similar")),
    }
    suite = yaml.safe_load((configured.folder / "new/agent.yaml").read_text(encoding="utf-8"))
    good, bad = suite["test_cases"]
    assert good["input"] == "Question: When do you open?"
    assert good["ground_truth"] == "The shop opens at nine."
    assert good["retrieval_context"] == ["We open at nine.", "We close at five."]
    metrics = good["evaluations"]
    thresholds = {metric.get("metric_type", metric.get("name")): metric.get("threshold") for metric in metrics}
    assert thresholds == {
        "answers": 0.5,
        "g-eval (line 13)": 0.7,
        "factuality (line 14)": 0.5,
        "model-graded-closedqa (line 15)": 0.5,
        "answer_relevancy": 0.6,
        "faithfulness": 0.5,
        "contextual_relevancy": 0.1,
        "contextual_recall": 0.5,
        None: None,
    }
    assert good["evaluations"][0]["criteria"] == 'Answers "When do you open?"'
    judges = [metric["model"] for metric in metrics]
    assert judges.pop(3) == {"provider": "openai", "name": "gpt-4.1"}
    assert judges == [{"provider": "openai", "name": "gpt-4o-mini"}] * 8
    assert bad["evaluations"][0]["name"] == "answers: bad"
    large, small = ("text-embedding-3-large", "text-embedding-3-small")
    assert suite["embedding_provider"] == {"provider": "openai", "name": large}
    similar = {"type": "similar", "value": "We close at five.", "embedding_model": large, "threshold": 0.75}
    assert bad["evaluations"][2] == similar
    assert bad["evaluations"][3] == {**similar, "value": "At five.", "embedding_model": small, "threshold": 0.9}
    # The recorded answers are judged, and nothing else is asked.
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer("I would rather not say."))
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
        found = verdicts(configured, "new", code=1, **environ)
        assert {request.model for request in models.requests} == {"gpt-4o-mini", "gpt-4.1", large, small}
    assert found == {"good": "error", "bad": "failed"}
    criteria = next(metric["criteria"] for metric in metrics if metric.get("name") == "factuality (line 14)")
    assert criteria.endswith("and may say less or more: The shop opens at nine.")


@pytest.mark.full
def test_answers_with_a_schema_reach_code_as_data(configured: Project) -> None:
    rows = imported(configured, "schemas", code=1)
    assert {(row["source"], row["line"], row["note"]) for row in rows if row["outcome"] == "missing"} == {
        ("assertScoringFunction", 23, "code combines the scores of all assertions; write a code grader that decides"),
        ("llm-rubric", 30, "its rubricPrompt has the criteria; write them as those of a geval metric"),
    }
    assert rows[0]["note"] == "not used: response_format"
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda request: Answer('{"mood": "good"}'))
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}
        found = verdicts(configured, "new", code=1, **environ)
        asked = {request.messages[-1].text for request in models.requests}
    # The other prompt is not for this provider.
    assert "Sort a dull film into good or bad." in asked
    assert all(text.startswith("Sort ") or text == NOT_IMPORTED for text in asked)
    assert found == {"good": "passed", "bad": "failed", "scored": "failed", "graded": "failed"}


def test_a_text_without_case_is_a_metric_and_keys_without_effect_are_named(project: Project) -> None:
    project.write(
        "promptfooconfig.yaml",
        'sharing: true\nprompts: ["{{question}}"]\nproviders: [openai:gpt-4o]\nhooks: [a]\n'
        "tests:\n  - vars: {question: Where?}\n    assert: [{type: icontains, value: Leeds}]\n",
    )
    finished = project.run("import", "promptfoo", "promptfooconfig.yaml", "-o", "new", "--report", "account.json")
    assert finished.code == 0
    rows = {row["source"]: (row["line"], row["becomes"], row["outcome"]) for row in account(project)}
    assert rows["sharing"] == (1, "nothing", "similar")
    assert rows["hooks"] == (4, "nothing", "similar")
    assert rows["icontains"] == (7, "contains", "similar")
    assert "for a workflow on pull requests: holodeck-action init new\n" in finished.stdout
    for answer, code in (("LEEDS it is", 0), ("York", 1)):
        project.answers([{"case": "Where?", "response": answer}])
        assert project.run("run", "new", "--target", "recorded:answers.jsonl").code == code
