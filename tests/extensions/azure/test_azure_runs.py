"""Azure AI metrics through `holodeck-action run`: real processes against a model server on loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.extensions.azure.azure_judge import judging, verdict
from tests.extensions.azure.native_azure import score_of
from tests.extensions.deepeval.test_isolation import Imports
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request

TESTED = "agent"
METRICS = ("groundedness", "relevance", "coherence", "fluency", "similarity")
CASE = {
    "name": "one",
    "input": "What is case-1?",
    "ground_truth": "It is case-1.",
    "retrieval_context": ["Text of case-1.", "More of case-1."],
}


def answering(request: Request) -> Any:
    """The model under test echoes; all others judge."""
    return f"echo: {request.text}" if request.model == TESTED else judging(request)


pytestmark = pytest.mark.models(answer=answering)


def azure(models: FakeModels, name: str = "judge", **more: Any) -> dict[str, Any]:
    return {"provider": "azure_openai", "name": name, "endpoint": models.azure_url, **more}


def standard(metric: str, **more: Any) -> dict[str, Any]:
    return {"type": "standard", "metric": metric, "threshold": 0, **more}


def suite(
    project: Project,
    models: FakeModels,
    metrics: list[dict[str, Any]],
    judge: dict[str, Any] | None = None,
    cases: list[dict[str, Any]] | None = None,
    **top: Any,
) -> None:
    evaluations: dict[str, Any] = {"metrics": metrics, "model": judge or azure(models)}
    given = {"model": azure(models, TESTED), "evaluations": evaluations, **top}
    project.suite(cases or [CASE], **given)


def run(project: Project, *flags: str) -> tuple[Finished, Record]:
    finished, record = project.evaluate(*flags, AZURE_OPENAI_API_KEY=KEY)
    assert KEY not in finished.stdout + finished.stderr + (project.out / "results.json").read_text()
    return finished, record


def found(record: Record) -> list[Evaluation]:
    return list(record.cases[0].trials[0].turns[0].evaluations)


def canonical(project: Project, folder: str) -> str:
    finished = project.run("report", f"{folder}/results.json", "--canonical", "--format", "json")
    return finished.stdout


@pytest.mark.proves("StandardMetric: metric")
def test_all_five_run_and_replay_to_the_same_bytes(project: Project, models: FakeModels) -> None:
    suite(project, models, [standard(metric) for metric in METRICS])
    finished, record = run(project, "--record", "tape")
    assert finished.code == 0, finished.stdout + finished.stderr
    for metric, evaluation in zip(METRICS, found(record), strict=False):
        raw = score_of(1, metric)
        assert (evaluation.status, evaluation.score) == ("completed", (raw - 1) / 4)
        assert evaluation.explanation == f"{metric} of case-1"
        assert evaluation.metadata["raw_score"] == evaluation.metadata[metric] == raw
        assert evaluation.metadata["judge"] == "azure_openai/judge"
        assert evaluation.metadata["usage"]["prompt_tokens"] > 500
        assert f"{metric} is deprecated: migrate to type " in finished.stdout
    asked = len(models.requests)
    assert asked == 6
    replayed = project.run("run", "-o", "second", "--replay", "tape", AZURE_OPENAI_API_KEY="")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert len(models.requests) == asked
    assert canonical(project, "out") == canonical(project, "second")


@pytest.mark.proves("StandardMetric: model")
def test_the_nearest_model_judges(project: Project, models: FakeModels) -> None:
    metrics = [standard("relevance", model=azure(models, "own")), standard("fluency")]
    suite(project, models, metrics)
    _, record = run(project)
    assert [evaluation.metadata["judge"] for evaluation in found(record)] == ["azure_openai/own", "azure_openai/judge"]
    suite(project, models, metrics, evaluations={"metrics": metrics})
    models.answer(lambda request: judging(request) if "JSON" in request.text else f"echo: {request.text}")
    _, record = run(project)
    assert [evaluation.metadata["judge"] for evaluation in found(record)] == ["azure_openai/own", "azure_openai/agent"]


@pytest.mark.proves("StandardMetric: threshold scale")
@pytest.mark.parametrize(
    ("entry", "score", "code"),
    [
        ({"threshold": 0.75}, 4, 0),
        ({"threshold": 0.75}, 3, 1),
        ({"threshold": 0.8}, 4, 1),
        ({"threshold": 4, "scale": 5}, 4, 0),
        ({"threshold": 4, "scale": 5}, 3, 1),
        ({"threshold": 75, "scale": 100}, 4, 0),
    ],
)
def test_a_threshold_decides(
    project: Project, models: FakeModels, entry: dict[str, Any], score: int, code: int
) -> None:
    models.answer(lambda request: verdict(score) if request.model == "judge" else "An answer.")
    suite(project, models, [standard("relevance", **entry)])
    finished, _ = run(project)
    assert finished.code == code, finished.stdout + finished.stderr


def test_the_context_is_the_texts_of_files_or_what_was_retrieved(project: Project, models: FakeModels) -> None:
    project.write("facts.txt", "Fact of the file.")
    file = {"path": "facts.txt", "type": "text"}
    bare = {"input": "What is case-1?"}
    cases: list[dict[str, Any]] = [{**CASE, "name": "file", "files": [file]}, CASE, {"name": "neither", **bare}]
    suite(project, models, [standard("groundedness")], cases=cases)
    finished, record = run(project)
    assert finished.code == 3, finished.stdout + finished.stderr
    asked = {
        "file" if "Fact of the file." in request.text else "retrieved": request.text
        for request in models.requests
        if request.model == "judge"
    }
    assert "More of case-1." not in asked["file"].partition("RESPONSE: ")[0]
    assert "CONTEXT: Text of case-1.\n\nMore of case-1.\nQUERY: What is case-1?\n" in asked["retrieved"]
    statuses = {case.id: case.trials[0].turns[0].evaluations[0] for case in record.cases}
    assert statuses["file"].status == statuses["one"].status == "completed"
    missing = statuses["neither"]
    assert missing.status == "failed"
    assert missing.error is not None
    assert missing.error.code == "missing_input"
    assert missing.explanation == "it needs context or retrieval_context, which the agent did not report"


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (
            {},
            (
                "is graded only by models of the provider azure_openai, and OpenAI model gpt-4o is not one of them: "
                "give it"
            ),
        ),
        ({}, "migrate to type rag with metric_type answer_relevancy"),
        ({"custom_prompt": "{{answer}}?"}, "custom_prompt has a placeholder answer, which relevance does not fill"),
        ({"threshold": 0.8, "scale": 5}, "has a threshold of 0.8 on scale 5, where the lowest score is 1"),
        ({"judges": {"models": [{"provider": "ollama", "name": "m"}]}}, "Ollama model m is not o"),
    ],
)
def test_what_cannot_be_judged_is_refused_before_the_run(
    project: Project, models: FakeModels, entry: dict[str, Any], sentence: str
) -> None:
    judge = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    suite(project, models, [standard("relevance", **entry)], judge)
    finished = project.run("run", "-o", "out", AZURE_OPENAI_API_KEY=KEY, OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert sentence in finished.stderr
    assert "relevance" in finished.stderr
    assert "agent.yaml:" in finished.stderr
    assert models.requests == []


def test_a_missing_key_is_a_configuration_error(project: Project, models: FakeModels) -> None:
    suite(project, models, [standard("relevance")])
    finished = project.run("run", AZURE_OPENAI_API_KEY="")
    assert finished.code == 2
    assert "AZURE_OPENAI_API_KEY" in finished.stderr


@pytest.mark.proves("StandardMetric: custom_prompt response_path")
def test_a_custom_prompt_and_a_part_of_the_answer(project: Project, models: FakeModels) -> None:
    asked: list[str] = []

    def rule(request: Request) -> Any:
        if request.model == TESTED:
            return json.dumps({"said": {"text": "Only this."}, "other": "Not this."})
        asked.append(request.text)
        return verdict(5)

    models.answer(rule)
    entry = standard("relevance", response_path="said.text", custom_prompt="Is {{response}} polite?", threshold=1)
    suite(project, models, [entry, standard("coherence", response_path="said.absent", threshold=0.5)])
    finished, record = run(project)
    assert finished.code == 1, finished.stdout + finished.stderr
    assert len(asked) == 1
    assert asked[0].startswith("Is <response>\nOnly this.\n</response> polite?\n\n<query>\nWhat is case-1?\n</query>")
    polite, absent = found(record)
    assert polite.score == 1
    assert polite.criteria.settings["custom_prompt"] == "Is {{response}} polite?"
    assert (absent.status, absent.score) == ("completed", 0.0)
    assert absent.explanation is not None
    assert "response_path said.absent: " in absent.explanation


def test_a_judge_that_babbles_leaves_the_suite_incomplete(project: Project, models: FakeModels) -> None:
    models.answer(lambda request: "I give it a 5." if request.model == "judge" else "An answer.")
    suite(project, models, [standard("relevance")])
    finished, record = run(project)
    assert finished.code == 3, finished.stdout + finished.stderr
    (evaluation,) = found(record)
    assert evaluation.error is not None
    assert (evaluation.status, evaluation.score, evaluation.error.code) == ("failed", None, "bad_verdict")
    suite(project, models, [standard("relevance", fail_on_error=True)])
    assert run(project)[0].code == 1


def test_a_broken_judge_is_an_error(project: Project, models: FakeModels) -> None:
    down = Fault("server_error", times=None, about=lambda request: request.model == "judge")
    models.fail(down)
    suite(project, models, [standard("fluency", timeout_ms=1500)])
    finished, record = run(project)
    assert finished.code == 3, finished.stdout + finished.stderr
    (evaluation,) = found(record)
    assert evaluation.status == "failed"
    assert evaluation.score is None


def test_an_empty_answer_fails(project: Project, models: FakeModels) -> None:
    suite(project, models, [standard("fluency", threshold=0.25)])
    project.answers([{"case": "one", "response": ""}])
    finished, record = run(project, "--target", "recorded:answers.jsonl")
    assert finished.code == 1, finished.stdout + finished.stderr
    (evaluation,) = found(record)
    assert (evaluation.status, evaluation.score, evaluation.explanation) == ("completed", 0.0, "the answer is empty")
    assert models.requests == []


def test_judges_count_against_the_budget(project: Project, models: FakeModels) -> None:
    suite(project, models, [standard(metric) for metric in METRICS[1:]])
    finished, record = run(project, "--max-tokens", "6000")
    assert finished.code == 4, finished.stdout + finished.stderr
    assert record.stopped is not None
    assert "the budget of 6,000 tokens is used up" in record.stopped
    assert 2 <= len(models.requests) <= 4


def test_a_panel_of_deployments(project: Project, models: FakeModels) -> None:
    scores = {"a": 5, "b": 4, "c": 2}
    models.answer(lambda request: verdict(scores[request.model]) if request.model in scores else "An answer.")
    judges = {"models": [azure(models, name) for name in scores], "aggregation": "median"}
    suite(project, models, [standard("relevance", threshold=0.75, judges=judges)])
    finished, record = run(project)
    assert finished.code == 0, finished.stdout + finished.stderr
    (evaluation,) = found(record)
    assert evaluation.score == 0.75
    verdicts = evaluation.metadata["panel"]["verdicts"]
    assert [(each["model"], each["score"]) for each in verdicts] == [
        ("azure_openai/a", 1.0),
        ("azure_openai/b", 0.75),
        ("azure_openai/c", 0.25),
    ]


TELL = (
    "import atexit, json, os, sys\n"
    "atexit.register(lambda: open(os.environ['MODULES'], 'w').write(json.dumps(sorted(sys.modules))))\n"
    "from holodeck_action.cli import start\n"
    "start()\n"
)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "needed", "other"),
    [("azure", "azure.ai.evaluation", "deepeval"), ("geval", "deepeval", "azure.ai.evaluation")],
)
def test_only_the_library_that_judges_is_imported(
    project: Project, models: FakeModels, kind: str, needed: str, other: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    imports = Imports(tmp_path_factory.mktemp("imports"))
    models.answer(lambda request: Answer(verdict(4)) if request.model == "judge" else "An answer.")
    steps = {"criteria": "Is it good?", "evaluation_steps": ["Look at it."], "name": "quality", "type": "geval"}
    suite(project, models, [steps if kind == "geval" else standard("relevance", threshold=0.5)])
    file = Path(project.folder / "modules.json")
    ended = subprocess.run(
        [sys.executable, "-c", TELL, "run"],
        cwd=project.folder,
        env=project.environ(MODULES=str(file), AZURE_OPENAI_API_KEY=KEY, **imports.environ),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode in (0, 1), ended.stderr
    modules = json.loads(file.read_text())
    assert {needed, other}.isdisjoint(modules)
    assert needed in imports.seen()
    assert other not in imports.seen()
