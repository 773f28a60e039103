"""DeepEval is imported beside the agent's first calls, in order, and only where a metric is graded with it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project, evaluations
from tests.extensions.presets.preset_judge import PresetJudge, Truth
from tests.llm.models import KEY, Answer, FakeModels, Reply, Request

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.full

GEVAL = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Look."], "threshold": 0.5}
RAG = {"type": "rag", "metric_type": "answer_relevancy"}
SCORED = json.dumps({"reason": "polite", "score": 8})
BIAS = json.dumps({"opinions": [], "verdicts": [], "reason": "none"})


def suite(project: Project, models: FakeModels, *metrics: dict[str, Any], **case: Any) -> None:
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    cases = [{"name": name, "input": f"What is [{name}]?", "ground_truth": "It is.", **case} for name in ("a", "b")]
    project.suite(cases, list(metrics), model=model)


class Held:
    """A run in which the import of DeepEval takes until `go` is called."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self._begun, self._go = folder / "begun", folder / "go"
        (folder / "watch").mkdir()
        # For ninety seconds at the most: an import that the first call waits for would never end.
        (folder / "watch" / "sitecustomize.py").write_text(
            "import pathlib, sys, time\n"
            f"begun, go = pathlib.Path({str(self._begun)!r}), pathlib.Path({str(self._go)!r})\n"
            "class Hold:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'deepeval.metrics':\n"
            "            begun.touch()\n"
            "            limit = time.monotonic() + 90\n"
            "            while not go.exists():\n"
            "                if time.monotonic() > limit:\n"
            "                    raise ImportError('held too long')\n"
            "                time.sleep(0.005)\n"
            "sys.meta_path.insert(0, Hold())\n"
        )
        self.environ = {"PYTHONPATH": f"{folder / 'watch'}:{ROOT}", "OPENAI_API_KEY": KEY}

    def hold(self) -> None:
        self._go.unlink(missing_ok=True)

    def go(self) -> None:
        self._go.touch()

    def begun(self) -> bool:
        return self._begun.exists()


@pytest.fixture
def held(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Held:
    return Held(project, tmp_path_factory.mktemp("held"))


@pytest.mark.full
def test_the_agent_is_asked_meanwhile_and_no_deadline_runs(held: Held, models: FakeModels) -> None:
    asked: list[Request] = []

    def attempt(seconds: float) -> tuple[Finished, Record, float]:
        def answer(request: Request) -> Reply:
            if not request.system:
                return Answer(SCORED)
            asked.append(request)
            if len(asked) == 2:
                # Longer than one evaluation may take.
                threading.Timer(1.1 * seconds, held.go).start()
            return Answer(f"It is {len(asked)}.")

        held.hold()
        asked.clear()
        models.answer(answer)
        suite(held.project, models, {**GEVAL, "timeout_ms": int(1000 * seconds)})
        return *held.project.evaluate(**held.environ), seconds

    finished, record, seconds = ever_longer(attempt, lambda ran: ran[0].code == 0, (2, 15, 60))
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [each.score for each in evaluations(record)] == [0.8, 0.8]
    assert all(each.duration_ms is not None and each.duration_ms < 1000 * seconds for each in evaluations(record))
    assert [bool(request.system) for request in models.requests[-4:]] == [True, True, False, False]


@pytest.mark.full
@pytest.mark.races
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_meanwhile_is_in_order(held: Held, models: FakeModels, number: signal.Signals) -> None:
    models.answer(lambda request: Answer("It is." if request.system else SCORED))
    suite(held.project, models, GEVAL)
    process = held.project.start("run", "-o", "out", **held.environ)
    # The import may begin before the run does, which takes signals from its start on.
    held.project.wait_until(lambda: held.begun() and bool(models.requests))
    process.send_signal(number)
    # The results do not wait for the import, which is held for ninety seconds; reports need modules of their own.
    held.project.wait_until(lambda: (held.project.out / "verdict.json").exists())
    held.go()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 4, stderr
    assert "Traceback" not in stdout + stderr
    record = read_record(held.project.out / "results.json")
    assert record.stopped == f"{number.name} was received"
    assert evaluations(record) == []


@pytest.mark.full
@pytest.mark.races
def test_a_second_signal_meanwhile_ends_the_process(held: Held, models: FakeModels) -> None:
    models.answer(lambda request: Answer("It is." if request.system else SCORED))
    suite(held.project, models, GEVAL)
    process = held.project.start("run", "-o", "out", **held.environ)
    held.project.wait_until(lambda: held.begun() and bool(models.requests))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    threading.Timer(0.1, held.go).start()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 4, stderr
    assert "Traceback" not in stdout + stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("broken", "code", "told", "tries"),
    [
        (
            "import nothing_like_it",
            "not_installed",
            "the metrics of DeepEval need a package that is not installed (nothing_like_it); "
            "run pip install 'holodeck-action[judges]'",
            1,
        ),
        (
            "1 / 0",
            "not_importable",
            "cannot be imported: ZeroDivisionError: division by zero; in a new environment, ",
            1,
        ),
        ("raise SystemExit(0)", "not_importable", "cannot be imported: SystemExit: 0", 1),
        # What DeepEval asks of the clients of models beyond names, only the real ones have.
        ("import openai\nopenai.__version__ + 1", "not_importable", "TypeError: can only concatenate str", 2),
    ],
)
def test_what_cannot_be_imported_is_not_tried_for_ever_and_told_by_every_metric(
    project: Project,
    models: FakeModels,
    tmp_path_factory: pytest.TempPathFactory,
    broken: str,
    code: str,
    told: str,
    tries: int,
) -> None:
    folder = tmp_path_factory.mktemp("broken")
    (folder / "deepeval").mkdir()
    tried = folder / "tried"
    (folder / "deepeval" / "__init__.py").write_text(
        f"with open({str(tried)!r}, 'a') as f:\n    f.write('x')\n{broken}\n"
    )
    suite(project, models, GEVAL, RAG)
    finished, record = project.evaluate(PYTHONPATH=f"{folder}:{ROOT}", OPENAI_API_KEY=KEY)
    assert finished.code == 3
    found = evaluations(record)
    assert len(found) == 4
    for each in found:
        assert each.error is not None
        assert each.error.code == code
        assert told in each.error.message
    assert tried.read_text() == "x" * tries
    # The agent was asked all the same.
    assert len(models.requests) == 2


STARTS = """
import sys
def tell(event, arguments):
    if event == "subprocess.Popen":
        with open({kept!r}, "a") as file:
            file.write(arguments[1][-1] + "\\n")
sys.addaudithook(tell)
"""
# Runs command lines one after the other, and prints their exit codes.
IN_TURN = """
import io, json, os, pathlib, sys
from holodeck_action.cli import main
here, streams = pathlib.Path.cwd(), [io.StringIO() for _ in range(3)]
print(json.dumps([main(each, dict(os.environ), here, *streams) for each in json.loads(sys.argv[1])]))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("metric", "command"),
    [
        (GEVAL, ("run", "agent.yaml", "other/agent.yaml")),
        ({"type": "deepeval", "metric": "BiasMetric"}, ("race", *(f"--vary=model=gpt-4o-{n}" for n in "abcd"))),
    ],
    ids=["suites", "race"],
)
def test_its_process_starts_once_while_the_suite_loads_and_only_if_a_judge_is_asked(
    project: Project,
    models: FakeModels,
    tmp_path_factory: pytest.TempPathFactory,
    metric: dict[str, Any],
    command: tuple[str, ...],
) -> None:
    folder = tmp_path_factory.mktemp("watch")
    kept = folder / "kept"
    (folder / "sitecustomize.py").write_text(STARTS.format(kept=str(kept)))
    environ = {"PYTHONPATH": f"{folder}:{ROOT}", "OPENAI_API_KEY": KEY}

    def started() -> list[str]:
        names = [line.rpartition(".")[2] for line in kept.read_text().split()] if kept.exists() else []
        kept.unlink(missing_ok=True)
        return names

    models.answer(
        lambda request: Answer("It is." if request.system else BIAS if "opinions" in request.text else SCORED)
    )
    project.write("graders.py", "def fine(context):\n    return True\n")
    suite(project, models, metric, {"type": "code", "grader": "graders:fine"})
    project.copy_to(project.folder / "other")
    finished = project.run(*command, "-o", "out", "--record", "tape", **environ)
    assert finished.code == 0, finished.stderr
    # Before the process that imports the suite's graders, which is a part of loading it.
    names = started()
    assert (names[0], names.count("libraries_serving")) == ("libraries_serving", 1), names
    asking_no_judge = [
        ["validate"],
        [*command, "--dry-run"],
        [*command, "-o", "out", "--max-cost-usd", "-1"],
        [*command, "-o", "out", "--replay", "tape"],
    ]
    in_turn = subprocess.run(
        [sys.executable, "-c", IN_TURN, json.dumps(asking_no_judge)],
        cwd=project.folder,
        env=project.environ(**environ),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert in_turn.stdout == "[0, 0, 2, 0]\n", in_turn.stderr
    assert "libraries_serving" not in started()


# Runs the command line, with or without DeepEval, and tells whether it was imported.
TELL = """
import atexit, os, sys
if "WITHOUT" in os.environ:
    sys.modules["deepeval"] = None
atexit.register(lambda: open("imported", "w").write(str(sys.modules.get("deepeval") is not None)))
from holodeck_action.cli import start
start()
"""


def run(project: Project, *, without: bool) -> Finished:
    environ = {"WITHOUT": "1"} if without else {}
    ended = subprocess.run(
        [sys.executable, "-c", TELL, "run", "-o", "out"],
        cwd=project.folder,
        env=project.environ(OPENAI_API_KEY=KEY, **environ),
        capture_output=True,
        text=True,
        timeout=100,
    )
    return Finished(ended.returncode, ended.stdout, ended.stderr)


ONLY_OURS: list[dict[str, Any]] = [
    {"type": "refusal"},
    {"type": "trajectory_accuracy"},
    {"type": "quality"},
    {"type": "factual_accuracy"},
    {"type": "toxicity"},
    {"type": "relevance"},
    {"type": "composite", "name": "both", "metrics": [{"type": "refusal"}, {"type": "toxicity"}]},
]
DIMENSIONS: dict[str, dict[str, Any]] = {
    "Grade the quality": {
        "dimensions": dict.fromkeys(("relevance", "coherence", "clarity", "completeness", "accuracy"), 1.0)
    },
    "Check the facts": {"claims": [], "citations": [], "hallucination_detected": False},
    "Grade how harmful": {
        "toxicity_categories": dict.fromkeys(
            ("hate_speech", "harassment", "violence", "sexual_content", "profanity", "identity_attack"), 0.0
        ),
        "overall_toxicity": 0.0,
        "content_warnings": [],
    },
    "Grade how well": {"query_intent_match": 1.0, "topic_alignment": 1.0, "information_completeness": 1.0},
}


@pytest.mark.full
@pytest.mark.parametrize("without", [False, True])
def test_metrics_with_questions_of_our_own_neither_import_nor_need_it(
    project: Project, models: FakeModels, without: bool
) -> None:
    judge = PresetJudge({"a": Truth(), "b": Truth()})

    def answer(request: Request) -> Reply:
        for opening, said in DIMENSIONS.items():
            if request.text.startswith(opening):
                return Answer(json.dumps({"reason": "it is", **said}))
        return judge(request)

    models.answer(answer)
    suite(project, models, *ONLY_OURS, expected_tools=["look"])
    calls = [{"name": "look", "args": {}, "result": "It is."}]
    project.answers([{"case": name, "response": "It is.", "tool_invocations": calls} for name in ("a", "b")])
    project.policy(target="recorded:answers.jsonl")
    finished = run(project, without=without)
    assert finished.code == 0, finished.stdout + finished.stderr
    found = evaluations(read_record(project.out / "results.json"))
    assert len(found) == 2 * len(ONLY_OURS)
    assert {each.status for each in found} == {"completed"}
    assert (project.folder / "imported").read_text() == "False"


@pytest.mark.full
@pytest.mark.parametrize(
    "metric",
    [
        GEVAL,
        RAG,
        {"type": "generation"},
        {"type": "query_transformation"},
        {"type": "summarization"},
        {"type": "lm_retrieval"},
        {"type": "agent"},
        {"type": "composite", "name": "both", "metrics": [{"type": "refusal"}, GEVAL]},
    ],
    ids=lambda metric: str(metric["type"]),
)
def test_metrics_that_are_graded_with_it_are_refused_without_it(
    project: Project, models: FakeModels, metric: dict[str, Any]
) -> None:
    case = {"expected_tools": ["look"], "retrieval_context": ["It is."]}
    suite(project, models, metric, **case)
    finished = run(project, without=True)
    assert finished.code == 2, finished.stdout + finished.stderr
    assert "needs packages that are not installed: run pip install 'holodeck-action[judges]'" in finished.stderr
    assert models.requests == []
