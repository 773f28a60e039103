"""What grading with models leaves alone: other hosts, other files, the environment; and what it does not listen to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.project import Finished, Project
from tests.llm.judging import Judge, Truth
from tests.llm.models import FakeModels, Request
from tests.llm.models.values import Reply

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.slow

KEY = "sk-isolated"
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
"""Writes down what the interpreter does: connections, files that are opened to be written, folders, processes."""
import json
import os
import sys

_kept = open(os.environ.pop("WATCHED_IN"), "a", buffering=1)
_busy = False
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


def _tell(*what):
    _kept.write(json.dumps([str(part) for part in what]) + "\\n")


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


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with FakeModels(keys=[KEY]) as models:
        judge = Judge(TRUTH)

        def answer(request: Request) -> Reply:
            return str(TRUTH.case["actual_output"]) if request.system else judge(request)

        models.answer(answer)
        yield models
        assert models.violations == []


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


@pytest.fixture
def watched(judged: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Path, dict[str, str]]:
    """The suite, the file in which a run's doings are kept, and the environment that keeps them."""
    folder = tmp_path_factory.mktemp("watch")
    (folder / "sitecustomize.py").write_text(WATCH)
    kept = folder / "kept.jsonl"
    return judged, kept, {"PYTHONPATH": f"{folder}:{ROOT}", "WATCHED_IN": str(kept), "PYTHONDONTWRITEBYTECODE": "1"}


def done(kept: Path) -> list[list[str]]:
    return [json.loads(line) for line in kept.read_text().splitlines()]


def test_a_judged_run_touches_its_endpoint_and_its_folders_alone(
    watched: tuple[Project, Path, dict[str, str]], models: FakeModels, tmp_path: Path
) -> None:
    project, kept, environ = watched
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    graded(project, "--record", "tape", **environ, TMPDIR=str(temporary))
    host, port = urlsplit(models.openai_url).hostname, urlsplit(models.openai_url).port
    seen = done(kept)
    assert {what[1] for what in seen if what[0] == "connect"} == {str((host, port))}
    assert {what[1] for what in seen if what[0] == "resolve"} <= {str(host)}
    mine = [str(project.folder / name) for name in ("out", "tape")] + [str(temporary), "/dev/null"]
    assert [what[1] for what in seen if what[0] == "write" and not what[1].startswith(tuple(mine))] == []
    # Python's own module `platform` asks for the name of the processor, for a header of the client.
    assert [what for what in seen if what[0] in ("process", "environment") and what != ["process", "uname"]] == []
    assert {path.name for path in project.folder.iterdir()} <= {"agent.yaml", "out", "tape", "temporary"}
    assert [*temporary.iterdir()] == []


def test_the_watch_sees(watched: tuple[Project, Path, dict[str, str]], tmp_path: Path) -> None:
    """What the test above finds nothing of is found when it happens."""
    _, kept, environ = watched
    script = """
        import os, pathlib, socket, subprocess
        pathlib.Path("written").write_text("x")
        os.environ["NEW"] = "1"
        os.mkdir(".deepeval")
        with socket.socket() as found:
            found.connect_ex(("127.0.0.1", 9))
        subprocess.run(["true"])
    """
    subprocess.run([sys.executable, "-c", dedent(script)], cwd=tmp_path, env=environ | {"PATH": "/bin:/usr/bin"})
    assert {what[0] for what in done(kept)} == {"write", "environment", "connect", "process"}
    assert ["write", str(tmp_path / ".deepeval")] in done(kept)


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


THREADS = """
import json, os, sys, time
os.environ["PLANTED"] = "here"
before, real = dict(os.environ), os.environ
from holodeck_action.metrics.deepeval import library
from holodeck_action.metrics.importing import in_background

wrong, looks = set(), 0
importing = in_background([library.import_for_run])
while not importing.done():
    looks += 1
    for name in ("PLANTED", "LOG_LEVEL", "DEEPEVAL_TELEMETRY_OPT_OUT"):
        if os.environ.get(name) != before.get(name) or os.getenv(name) != before.get(name):
            wrong.add(name)
    time.sleep(0.002)
import anthropic
from deepeval.config.settings import get_settings

settings = get_settings()
print(json.dumps([
    sorted(wrong), looks > 20, os.environ is real, dict(os.environ) == before, "deepeval" in sys.modules,
    settings.LOG_LEVEL, settings.DEEPEVAL_TELEMETRY_OPT_OUT, settings.DEEPEVAL_EVAL_MODE,
]))
os.environ["LOG_LEVEL"] = "bar"
assert get_settings() is settings
"""


def test_the_run_goes_on_beside_the_import_with_its_own_environment(tmp_path: Path) -> None:
    """DeepEval is imported in a thread while the agent is asked; a package hidden from it is there for others."""
    environ = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": "/usr/bin", **HOSTILE}
    ended = subprocess.run(
        [sys.executable, "-c", THREADS], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    wrong, looked, *same, level, opted_out, mode = json.loads(ended.stdout)
    assert (wrong, looked, same) == ([], True, [True, True, True])
    assert (level, opted_out, mode) == (None, True, None)
    assert [*tmp_path.iterdir()] == []
