"""Runs that rows of the tables are about: real suites, and real requests to models on loopback."""

from __future__ import annotations

import asyncio
import importlib
import json
from contextlib import ExitStack
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.providers import ProviderEnum
from scripts.build_conformance import documents, samples
from tests.commands.project import Project
from tests.conformance.samples import Site, reply, run
from tests.extensions.gllm.gllm import GOOD, ITEM, SUMMED
from tests.extensions.honeyhive.test_export import EQUALITY, F1, LENGTH, compared
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import KEY, FakeModels, Reply, Request, serve_models
from tests.metrics.judging.test_dimensions import SAID
from tests.metrics.judging.test_dimensions import Judge as DimensionJudge

GRADERS = """
from holodeck.lib.test_runner.code_grader import GraderResult

def broken(ctx):
    raise ValueError("no citations found")

def tone(ctx):
    return GraderResult(score=1.0, reason="polite", confidence=0.92, details={"language": "en"})

def stars(ctx):
    return 4

def word(ctx):
    return "excellent"

def strict(ctx):
    return True

def no(ctx):
    return False

def half(ctx):
    return 0.5

def stern(ctx):
    return GraderResult(score=1.0, passed=False)

def far(ctx):
    return 1.5

def called(ctx):
    return "search" in [call.name for call in ctx.tool_invocations]
"""
JUDGED = ("quality", "factual_accuracy", "toxicity", "relevance")
TRUTH = Truth({**GOOD, **SUMMED}, chunks=("no", "yes"), sentences=("yes", "no"), trajectory="no")


def grader(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "code", "grader": f"graders:{name}", "name": name, **more}


def grade(request: Request) -> Reply:
    """Grade as the judge of dimensions does; a vague answer claims nothing."""
    if "Who knows?" in request.text:
        said = {**SAID, "factual_accuracy": {"reason": "looked at", "claims": [], "citations": []}}
        said["factual_accuracy"]["hallucination_detected"] = False
        return DimensionJudge(said)(request)
    return DimensionJudge()(request)


class Lab:
    """Makes each run when a row needs it, once for all rows."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._suites = 0
        self._played: dict[tuple[str, str, int], dict[str, Any]] = {}

    def _project(self, name: str) -> Project:
        (self._folder / name).mkdir()
        return Project(self._folder / name)

    def _models(self, answer: Any) -> FakeModels:
        return self._stack.enter_context(serve_models(answer=answer))

    @cached_property
    def presets(self) -> FakeModels:
        return self._models(PresetJudge({"a": TRUTH}))

    def judge(self, name: str = "judge") -> DeepEvalModelConfig:
        """A configuration of the models that know what is true about items of presets."""
        url = self.presets.openai_url
        return DeepEvalModelConfig(provider=ProviderEnum.OPENAI, model_name=name, api_key=KEY, endpoint=url)

    @cached_property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """The exported evaluations of an answer by kinds of metrics; `pending` has no answer, `unscored` no facts."""
        project = self._project("evaluations")
        project.write("graders.py", GRADERS)
        model = {"provider": "openai", "name": "gpt-4o", "endpoint": self._models(grade).openai_url}
        metrics: list[dict[str, Any]] = [
            *({"type": kind, "threshold": 0.5} for kind in JUDGED),
            {"type": "length", "min_words": 5},
            EQUALITY,
            F1,
            {"type": "standard", "metric": "bleu"},
            {"type": "standard", "metric": "meteor", "enabled": False},
            grader("tone"),
            grader("stars", scale={"min": 0, "max": 5}),
            grader("word", pass_values=["excellent"]),
            grader("strict"),
            grader("broken"),
        ]
        vague = [{"type": "factual_accuracy"}]
        cases: list[dict[str, Any]] = [
            {"name": "sound", "input": "Where is Paris?", "ground_truth": "In France."},
            {"name": "vague", "input": "Where is Paris?", "evaluations": vague},
            {"name": "silent", "input": "?", "evaluations": [EQUALITY], "ground_truth": "x"},
        ]
        project.suite(cases, metrics, model=model)
        project.answers([{"case": "sound", "response": "In France."}, {"case": "vague", "response": "Who knows?"}])
        project.policy(target="recorded:answers.jsonl")
        project.run("run", "-o", "out", OPENAI_API_KEY=KEY)
        *found, unscored, pending = exported(project)["evaluation_batch"]["evaluations"]
        return {**{each["evaluator_name"]: each for each in found}, "unscored": unscored, "pending": pending}

    @cached_property
    def export(self) -> Project:
        """A run whose answers have a weighted score."""
        project = self._project("export")
        project.suite(
            [{"name": name, "input": "?", "ground_truth": name} for name in ("a", "b")], [EQUALITY, LENGTH, F1]
        )
        project.answers([{"case": "a", "response": "a"}, {"case": "b", "response": "x"}])
        gate = {"method": "weighted_average", "weights": {"f1_score": 3, "length": 1}, "min": 0.1}
        project.policy(target="recorded:answers.jsonl", gates={"summary": gate})
        project.run("run", "-o", "out")
        return project

    @cached_property
    def exported(self) -> dict[str, Any]:
        return exported(self.export)

    @cached_property
    def after(self) -> dict[str, Any]:
        """An export of a run with a base."""
        project = self._project("after")
        compared(project, set(range(10)), set())
        return exported(project)

    @cached_property
    def readers(self) -> FakeModels:
        """The models of the samples."""
        return self._stack.enter_context(serve_models(answer=reply, keys=None))

    def reader(self) -> DeepEvalModelConfig:
        """A configuration of the models of the samples."""
        return DeepEvalModelConfig(endpoint=self.readers.ollama_url)

    def sample(self, document: str, heading: str, at: int) -> dict[str, Any]:
        """What happens in a sample of a document: the one at a place, from 0, below a heading."""
        if (document, heading, at) not in self._played:
            found = [sample for sample in samples() if (sample.document, sample.heading) == (document, heading)]
            project = self._project(f"sample {len(self._played)}")
            site = Site(project, self.readers, documents()[document].modules)
            self._played[document, heading, at] = run(found[at], site)[1]
        return self._played[document, heading, at]

    def suite(
        self, metrics: list[dict[str, Any]], response: str = "a", calls: Any = None, policy: Any = None, **case: Any
    ) -> dict[str, Any]:
        """What a run gives of one case with a recorded answer: exit code, texts, outcome, and evaluations by name."""
        self._suites += 1
        project = self._project(f"suite {self._suites}")
        project.write("graders.py", GRADERS)
        model = {"provider": "ollama", "name": "llama3.2", "endpoint": self.readers.ollama_url}
        asked = {} if "turns" in case else {"input": "?"}
        project.suite([{"name": "a", **asked, **case}], metrics, model=model)
        invocations = {} if calls is None else {"tool_invocations": calls}
        answer = {"case": "a", "response": response, **invocations}
        project.answers([{**answer, "turn": turn} for turn in range(len(case.get("turns", [case])))])
        project.policy(target="recorded:answers.jsonl", **(policy or {}))
        done = project.run("run", "-o", "out")
        told = {"code": int(done.code), "errors": done.errors, "stdout": done.stdout}
        if not (project.out / "results.json").exists():
            return told
        turn = read_record(project.out / "results.json").cases[0].trials[0].turns[-1]
        outcome = project.verdict()["cases"][0]["outcome"]
        return {**told, "outcome": outcome, **{found.evaluator_name: found for found in turn.evaluations}}

    @cached_property
    def agent(self) -> Any:
        """What gllm-evals' evaluator of agents gives for an item with a trajectory."""
        evaluators, metrics = (importlib.import_module(f"gllm_evals.{name}") for name in ("evaluator", "metrics"))
        accuracy = metrics.LangChainAgentTrajectoryAccuracyMetric()
        evaluator = evaluators.AgentEvaluator(self.judge(), trajectory_accuracy_metric=accuracy)
        return asyncio.run(evaluator.evaluate(ITEM))

    def valid(self, schema: str, *path: str | int, without: str = "", **changes: Any) -> bool:
        """Whether the part of the export with a schema stays valid when what is at a path loses or changes fields."""
        parts = {
            "evaluation-batch": self.exported["evaluation_batch"],
            "multi-evaluation-result": self.exported["multi_evaluation_results"][0],
        }
        document = deepcopy(parts[schema])
        place = document
        for step in path:
            place = place[step]
        place.pop(without, None)
        place.update(changes)
        printed = json.loads(self.export.run("schema", schema).stdout)
        return jsonschema.Draft202012Validator(printed).is_valid(document)


def exported(project: Project) -> dict[str, Any]:
    finished = project.run("export", "out/results.json", "--format", "honeyhive")
    assert finished.code == 0, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    return document
