"""What grading with models leaves alone: other hosts, other files, the environment; and what it does not listen to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.commands.project import Finished, Project
from tests.llm.judging import Judge, Truth
from tests.llm.models import KEY, FakeModels, Request
from tests.llm.models.values import Reply

ROOT = Path(__file__).parents[3]

METRICS: list[dict[str, Any]] = [
    {"type": "geval", "name": "Tone", "criteria": "polite"},
    *(
        {"type": "rag", "metric_type": kind, "threshold": 0.0}
        for kind in (
            "faithfulness",
            "answer_relevancy",
            "contextual_relevancy",
            "contextual_precision",
            "contextual_recall",
        )
    ),
]
TRUTH = Truth(
    1,
    claim_verdicts=("yes", "no"),
    statement_verdicts=("yes",),
    chunk_statements=(("yes",), ("no",)),
    chunk_verdicts=("yes", "no"),
    sentence_verdicts=("yes",),
)

WATCH = '''
"""Writes down what interpreters do: connections, files that are opened to be written, folders, processes."""
import json
import os
import sys

_kept = open(os.path.join(os.path.dirname(__file__), "kept.jsonl"), "a", buffering=1)
_who = "libraries" if any("libraries_serving" in part for part in sys.orig_argv) else "program"
_busy = False
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


def _tell(*what):
    _kept.write(json.dumps([_who, *(str(part) for part in what)]) + "\\n")


def _hook(event, arguments):
    global _busy
    if _busy:
        return
    _busy = True
    try:
        if event in ("socket.connect", "socket.sendto"):
            _tell("connect", arguments[1])
        elif event == "socket.getaddrinfo":
            _tell("resolve", arguments[0], arguments[1])
        elif event == "open" and (arguments[2] or 0) & _WRITES and not isinstance(arguments[0], int):
            _tell("write", os.path.abspath(os.fsdecode(arguments[0])))
        elif event in ("os.mkdir", "os.remove", "os.rename", "os.symlink", "shutil.rmtree"):
            _tell("write", os.path.abspath(os.fsdecode(arguments[0])))
        elif event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            _tell("process", arguments[0])
        elif event in ("os.putenv", "os.unsetenv"):
            _tell("environment", arguments[0])
    finally:
        _busy = False


sys.addaudithook(_hook)
'''

IMPORTS = '''
"""Writes down which packages the process of the libraries imports."""
import os
import sys


class Tell:
    def find_spec(self, name, path=None, target=None):
        with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as kept:
            kept.write(name + "\\n")


if any("libraries_serving" in part for part in sys.orig_argv):
    sys.meta_path.insert(0, Tell())
'''


def answer(request: Request) -> Reply:
    return str(TRUTH.case["actual_output"]) if request.system else Judge(TRUTH)(request)


pytestmark = [pytest.mark.full, pytest.mark.models(answer=answer)]


@pytest.fixture
def judged(project: Project, models: FakeModels) -> Project:
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    case = {
        "name": "case",
        "input": TRUTH.case["input"],
        "ground_truth": TRUTH.case["expected_output"],
        "retrieval_context": TRUTH.chunks,
    }
    project.suite([case], METRICS, model=model)
    return project


def graded(project: Project, *arguments: str, **environ: str) -> tuple[Finished, dict[str, Any]]:
    """Run; return what happened and the scores by metric."""
    finished, record = project.evaluate(*arguments, OPENAI_API_KEY=KEY, **environ)
    assert finished.code == 0, finished.stdout + finished.stderr
    found = record.cases[0].trials[0].turns[0].evaluations
    assert {each.status for each in found} == {"completed"}
    return finished, {each.evaluator_name: each.score for each in found}


class Watch:
    """What the processes of a run do, from their start."""

    def __init__(self, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(WATCH)
        self._kept = folder / "kept.jsonl"
        self.environ = {"PYTHONPATH": f"{folder}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}

    def seen(self, who: str) -> list[list[str]]:
        """Return what `program` or `libraries` did, as kind and place."""
        events = [json.loads(line) for line in self._kept.read_text().splitlines()]
        return [what for by, *what in events if by == who]


class Imports:
    """What the process of the libraries imports in a run."""

    def __init__(self, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(IMPORTS)
        self._kept = folder / "imports"
        self.environ = {"PYTHONPATH": f"{folder}:{ROOT}"}

    def seen(self) -> set[str]:
        """Return the names of the modules; none where there was no such process."""
        return set(self._kept.read_text().split()) if self._kept.exists() else set()


@pytest.fixture
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    return Watch(tmp_path_factory.mktemp("watch"))


PLUGINS = ["environment", "b'PYDANTIC_DISABLE_PLUGINS'"]
"""What the program sets at its own start, before anything of a suite is there."""
HARMLESS = ("/dev/null", "/proc/self/oom_score_adj")
"""What the process of the libraries may write."""


@pytest.mark.full
def test_a_judged_run_touches_its_endpoint_and_its_folders_alone(
    judged: Project, models: FakeModels, watch: Watch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    graded(judged, "--record", "tape", **watch.environ, TMPDIR=str(temporary))
    host, port = urlsplit(models.openai_url).hostname, urlsplit(models.openai_url).port
    seen = watch.seen("program")
    assert {what[1] for what in seen if what[0] == "connect"} == {str((host, port))}
    assert {what[1] for what in seen if what[0] == "resolve"} <= {str(host)}
    mine = (*(str(judged.folder / name) for name in ("out", "tape")), str(temporary), "/dev/null")
    assert [what[1] for what in seen if what[0] == "write" and not what[1].startswith(mine)] == []
    # Python's own module `platform` asks for the name of the processor, for a header of the client.
    processes = [what for what in seen if what[0] in ("process", "environment") and what != ["process", "uname"]]
    assert processes == [PLUGINS, ["process", sys.executable]]
    # DeepEval sets variables of its own process, and looks whether it could write temporary files.
    done = [what for what in watch.seen("libraries") if not what[1].startswith((*HARMLESS, str(temporary)))]
    assert {what[0] for what in done} == {"environment"}
    assert {path.name for path in judged.folder.iterdir()} <= {"agent.yaml", "out", "tape", "temporary"}
    assert [*temporary.iterdir()] == []


def test_the_watch_sees(watch: Watch, tmp_path: Path) -> None:
    """What the test above finds nothing of is found when it happens."""
    script = """
        import os, pathlib, socket, subprocess
        pathlib.Path("written").write_text("x")
        os.environ["NEW"] = "1"
        os.mkdir(".deepeval")
        with socket.socket() as found:
            found.connect_ex(("127.0.0.1", 9))
        subprocess.run(["true"])
    """
    environ = watch.environ | {"PATH": "/bin:/usr/bin"}
    subprocess.run([sys.executable, "-c", dedent(script)], cwd=tmp_path, env=environ, check=True)
    done = watch.seen("program")
    assert {what[0] for what in done} == {"write", "environment", "connect", "process"}
    assert ["write", str(tmp_path / ".deepeval")] in done


HOSTILE = {
    "APP_ENV": "prod",
    "AZURE_OPENAI_ENDPOINT": "",
    "CONFIDENT_API_KEY": "confident",
    "DEEPEVAL_DEFAULT_SAVE": "dotenv:.env.new",
    "DEEPEVAL_EVAL_MODE": "system_one",
    "DEEPEVAL_LOG_STACK_TRACES": "1",
    "DEEPEVAL_MODE": "nonsense",
    "DEEPEVAL_PER_TASK_TIMEOUT_SECONDS_OVERRIDE": "0.001",
    "DEEPEVAL_RESULTS_FOLDER": "results",
    "DEEPEVAL_RETRY_MAX_ATTEMPTS": "",
    "DEEPEVAL_TELEMETRY_OPT_OUT": "0",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "1",
    "DEEPEVAL_VERBOSE_MODE": "1",
    "LOCAL_MODEL_BASE_URL": "",
    "LOG_LEVEL": "foo",
    "OPENAI_COST_PER_INPUT_TOKEN": "x",
    "OPENAI_MODEL_NAME": "gpt-nobody",
    "TEMPERATURE": "abc",
    "USE_LOCAL_MODEL": "1",
    "USE_OLLAMA_MODEL": "YES",
}
"""What DeepEval takes from the environment, or what makes its import fail."""


def test_neither_the_environment_nor_files_of_the_folder_change_a_judge(judged: Project, models: FakeModels) -> None:
    _, usual = graded(judged)
    asked = [request.body for request in models.requests]
    stolen = "http://127.0.0.1:9/v1"
    dotenv = f"OPENAI_BASE_URL={stolen}\nUSE_LOCAL_MODEL=1\nLOCAL_MODEL_BASE_URL={stolen}\nTEMPERATURE=2\n"
    for name in (".env", ".env.local", ".env.prod"):
        judged.write(name, dotenv)
    judged.write(".deepeval/.deepeval", json.dumps({"LOCAL_MODEL_BASE_URL": stolen, "USE_LOCAL_MODEL": "YES"}))
    judged.write(".deepeval/.env", dotenv)
    before = {
        path: path.read_bytes() for path in judged.folder.rglob("*") if path.is_file() and "out" not in path.parts
    }
    # CI: the suite's own .env is not read either.
    finished, hostile = graded(judged, CI="true", **HOSTILE)
    assert hostile == usual
    assert "deepeval" not in (finished.stdout + finished.stderr).lower()
    bodies = [request.body for request in models.requests[len(asked) :]]
    assert sorted(map(str, bodies)) == sorted(map(str, asked))
    after = {path: path.read_bytes() for path in judged.folder.rglob("*") if path.is_file() and "out" not in path.parts}
    assert after == before


ALONE = """
import asyncio, builtins, json, os, sys, threading
real, before, found, path = os.environ, dict(os.environ), builtins.__import__, list(sys.meta_path)
from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator

config = DeepEvalModelConfig(provider="openai", model_name="gpt-4o", api_key=sys.argv[1], endpoint=sys.argv[2])
evaluator = GEvalEvaluator("Tone", "polite", evaluation_steps=["Look."], model_config=config)
score = asyncio.run(evaluator.evaluate(actual_output="answer of case-1")).score
print(json.dumps([
    score, os.environ is real, dict(os.environ) == before, builtins.__import__ is found, sys.meta_path == path,
    [name for name in ("deepeval", "anthropic") if name in sys.modules], threading.active_count(),
]))
"""


@pytest.mark.full
def test_an_evaluation_leaves_the_program_as_it_is(models: FakeModels, tmp_path: Path) -> None:
    environ = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": "/usr/bin", **HOSTILE}
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, KEY, models.openai_url],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout) == [0.8, True, True, True, True, [], 1]
    assert [*tmp_path.iterdir()] == []
