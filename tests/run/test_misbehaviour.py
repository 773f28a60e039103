"""Agents and graders that misbehave: an error of their own case, the rest unharmed, nothing lost."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.record import CaseRecord, Record
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.workers.support import running, wait_until

GOOD = {"name": "good", "input": "what is 1?", "ground_truth": "1"}
BAD = {"name": "bad", "input": "misbehave", "ground_truth": "1"}
LAST = {"name": "last", "input": "what is 2?", "ground_truth": "2"}


def by_name(record: Record) -> dict[str | None, CaseRecord]:
    return {case.name: case for case in record.cases}


def only_the_bad_one_suffers(
    project: Project, *arguments: str, hangs: bool = False, **environ: str
) -> tuple[str, str, CaseRecord]:
    """Run the three cases; return the bad one's reason, standard output and the bad one's record.

    `hangs` says that the bad one never answers: a deadline ends it, and is no other's.
    """

    def attempt(seconds: float) -> tuple[Finished, Record]:
        return project.evaluate("--turn-timeout", f"{seconds:g}", *arguments, **environ)

    def met(result: tuple[Finished, Record]) -> bool:
        return all(by_name(result[1])[name].trials[0].turns[0].error is None for name in ("good", "last"))

    finished, record = ever_longer(attempt, met) if hangs else attempt(100)
    assert finished.code == 3, finished.stdout + finished.stderr
    outcomes = {case["id"]: case["outcome"] for case in project.verdict()["cases"]}
    assert outcomes == {"good": "passed", "bad": "error", "last": "passed"}
    assert not (project.out / "journal.jsonl").exists()
    cases = by_name(record)
    assert [case.trials[0].turns[0].response for case in (cases["good"], cases["last"])] == ["1", "2"]
    reason = next(case["reason"] for case in project.verdict()["cases"] if case["id"] == "bad")
    return reason, finished.stdout, cases["bad"]


GRADERS = """
import os, time

def raises(context):
    raise ValueError("the price list is \\x1b[31mempty\\n::error::forged \\ud800")

def surrogate(context):
    return type("R", (), {"score": object(), "passed": None, "reason": "\\ud800", "details": None})()

def nonsense(context):
    return ["not", "a", "grade"]

def nan(context):
    return float("nan")

def hangs(context):
    while True:
        time.sleep(1)

def spins(context):
    while True:
        pass

def exits(context):
    os._exit(0)

def quits(context):
    raise SystemExit(0)

def killed(context):
    os.kill(os.getpid(), 9)

def prints(context):
    while True:
        print("x" * 100_000)
"""


@pytest.mark.parametrize(
    ("grader", "reason"),
    [
        ("raises", "it raised ValueError: the price list is"),
        ("surrogate", "the result's score is of unsupported type object"),
        ("nonsense", "grader returned unsupported type list"),
        ("nan", "grader returned the score nan, which is not from 0 to 1"),
        ("hangs", "it took longer than 0.5 s; its process was ended"),
        ("spins", "it took longer than 0.5 s; its process was ended"),
        ("exits", "its process exited with code 0"),
        ("quits", "it called sys.exit(0)"),
        ("killed", "its process was killed by SIGKILL"),
        ("prints", "it printed more than 64 MiB; its process was ended"),
    ],
)
def test_a_grader(project: Project, grader: str, reason: str) -> None:
    project.write("checks.py", GRADERS)
    metric = {
        "type": "code",
        "grader": f"checks:{grader}",
        "timeout_ms": 500 if grader in ("hangs", "spins") else 100_000,
    }
    bad = {**BAD, "evaluations": [metric]}
    project.suite([GOOD, bad, LAST])
    project.answers(
        [{"case": name, "response": answer} for name, answer in (("good", "1"), ("bad", "1"), ("last", "2"))]
    )
    project.policy(target="recorded:answers.jsonl")
    found, stdout, case = only_the_bad_one_suffers(project)
    assert reason in found
    assert f"checks:{grader}: " in stdout
    evaluation = case.trials[0].turns[0].evaluations[0]
    assert evaluation.status == "failed"
    assert evaluation.error is not None
    assert case.trials[0].turns[0].response == "1"


@pytest.mark.parametrize(
    "result",
    [
        "details={'\\ud800': ['\\udfff']}",
        "reason='\\ud800'",
        "details={'n': 10 ** 2900}",
        "details={'a': {'b': [1, None]}}",
        "confidence=1",
    ],
)
def test_whatever_a_grader_says_can_be_stored(project: Project, result: str) -> None:
    project.write(
        "checks.py",
        "from holodeck.lib.test_runner.code_grader import GraderResult\n"
        f"def grade(context):\n    return GraderResult(score=1.0, **dict({result}))\n",
    )
    project.suite([{**GOOD, "evaluations": [{"type": "code", "grader": "checks:grade"}]}])
    chunk = {"id": "a", "text": "b", "score": 1}
    project.answers([{"case": "good", "response": "1", "cost_usd": 0, "retrieved_chunks": [chunk]}])
    project.policy(target="recorded:answers.jsonl")
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    assert record.cases[0].trials[0].turns[0].evaluations[0].score == 1.0
    # Whole numbers, too, have the same canonical form before and after the file.
    assert json.loads((project.out / "verdict.json").read_bytes())["record_digest"] == record_digest(record)


@pytest.mark.full
def test_a_pattern_that_backtracks_for_ever(project: Project) -> None:
    expected = [{"name": "search", "args": {"text": {"regex": r"(a|a)*(b|b)*(a|aa)+$"}}}]
    project.suite([GOOD, {"name": "bad", "input": "search", "expected_tools": expected, "evaluations": []}, LAST])
    calls = [{"name": "search", "args": {"text": "a" * 5000 + "!"}}]
    project.answers(
        [
            {"case": "good", "response": "1"},
            {"case": "bad", "response": "", "tool_invocations": calls},
            {"case": "last", "response": "2"},
        ]
    )
    project.policy(target="recorded:answers.jsonl")
    finished, _ = project.evaluate()
    # Undecided within its time, the pattern does not match: the assertion does not hold.
    assert finished.code == 1
    assert "was stopped because it took longer than 1 s on one value" in finished.stdout
    outcomes = {case["id"]: case["outcome"] for case in project.verdict()["cases"]}
    assert outcomes == {"good": "passed", "bad": "failed", "last": "passed"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"case": "bad", "response": "1"', "the row of case bad cannot be used: the line is not JSON"),
        ('{"case": "bad", "response": 1}', "response must be text, an object or a list, not a number"),
        ('{"case": "bad", "reply": "1"}', "unknown key `reply`"),
        ('{"case": "bad", "response": NaN}', "NaN is not a JSON value"),
        ('["bad", "1"]', "has no answer for case bad"),
        ('{"case": "bad", "response": "\xff"}', "has no answer for case bad"),
        ("", "has no answer for case bad"),
        ('{"case": "bad", "response": "1"}\n{"case": "bad", "response": "2"}', "both answer case bad"),
    ],
)
def test_a_transcript_with_broken_lines(project: Project, line: str, reason: str) -> None:
    project.suite([GOOD, BAD, LAST])
    content = f'{{"case": "good", "response": "1"}}\n{line}\n{{"case": "last", "response": "2"}}\n'
    project.write("answers.jsonl", content.encode("latin-1"))
    project.policy(target="recorded:answers.jsonl")
    if "\xff" in line:
        reason = "the row of case bad cannot be used"
    found, stdout, _ = only_the_bad_one_suffers(project)
    assert reason in found
    assert reason in stdout


COMMAND_AGENT = """
import json, os, subprocess, sys, time

mode = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    if request["name"] != "bad":
        print(json.dumps(request["input"].removeprefix("what is ").removesuffix("?")), flush=True)
    elif mode == "garbage":
        print("Loading the model \\x1b[1m...", flush=True)
    elif mode == "flood":
        while True:
            sys.stdout.write("x" * 1_000_000)
    elif mode == "many lines":
        while True:
            print("{", flush=True)
    elif mode == "dies":
        print("cannot find the price list", file=sys.stderr, flush=True)
        os._exit(3)
    elif mode == "hangs":
        time.sleep(600)
    elif mode == "children":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        with open(os.environ["CHILD"], "w") as file:
            file.write(str(child.pid))
        time.sleep(600)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("garbage", "the command wrote a line that is not JSON"),
        ("flood", "the command wrote a line of more than"),
        ("many lines", "the command wrote a line that is not JSON"),
        (
            "dies",
            "the command exited with code 3 without answering; its last line on stderr: cannot find the price list",
        ),
        ("hangs", "the agent did not answer within "),
        ("children", "the agent did not answer within "),
    ],
)
def test_a_command_agent(project: Project, mode: str, reason: str) -> None:
    project.suite([GOOD, BAD, LAST])
    project.write("agent.py", COMMAND_AGENT)
    project.policy(target=f"command:python3 agent.py '{mode}'")
    child = project.folder / "child"
    hangs = mode in ("hangs", "children")
    found, stdout, case = only_the_bad_one_suffers(project, hangs=hangs, CHILD=str(child))
    assert reason in found
    assert reason in stdout
    assert case.trials[0].turns[0].error is not None
    if mode == "children":
        assert wait_until(lambda: not running(int(child.read_text())))


class Service(BaseHTTPRequestHandler):
    """Answers the good cases; the path says what it does with the bad one."""

    protocol_version = "HTTP/1.1"
    # Or the body would wait for the acknowledgement of the header, which clients delay by 40 ms.
    disable_nagle_algorithm = True
    closing: threading.Event

    def do_POST(self) -> None:
        import json

        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request["name"] != "bad":
            self.answer(200, json.dumps(request["input"].removeprefix("what is ").removesuffix("?")).encode())
            return
        match self.path:
            case "/500":
                self.answer(500, b"database \x1b[31mlocked\n::error::forged")
            case "/html":
                self.answer(200, b"<!doctype html><h1>Sign in</h1>")
            case "/slow":
                self.begin(200, 100_000)
                self.trickle()
            case "/endless":
                self.begin(200, None)
                self.flood()
            case "/never":
                self.closing.wait()

    def answer(self, status: int, body: bytes) -> None:
        self.begin(status, len(body))
        self.wfile.write(body)

    def begin(self, status: int, length: int | None) -> None:
        self.send_response(status)
        if length is None:
            self.send_header("connection", "close")
        else:
            self.send_header("content-length", str(length))
        self.end_headers()

    def trickle(self) -> None:
        try:
            while not self.closing.wait(0.1):
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            pass

    def flood(self) -> None:
        try:
            for _ in range(1000):
                self.wfile.write(b'"' + b"x" * 1_000_000)
        except OSError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def service() -> Iterator[str]:
    closing = threading.Event()
    handler = type("Serving", (Service,), {"closing": closing})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.socket.close()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/500", "answered with status 500: database"),
        ("/html", "answered HTML or XML instead of JSON: <!doctype html>"),
        ("/slow", "the agent did not answer within "),
        ("/endless", "answered with more than"),
        ("/never", "the agent did not answer within "),
    ],
)
def test_an_http_agent(project: Project, path: str, reason: str) -> None:
    project.suite([GOOD, BAD, LAST])
    with service() as url:
        found, stdout, _ = only_the_bad_one_suffers(project, "--target", url + path, hangs=path in ("/slow", "/never"))
    assert reason in found
    assert reason in stdout
    assert "\x1b" not in stdout
    assert "\n::" not in stdout


def test_a_service_that_is_not_there(project: Project) -> None:
    project.numbered(2)
    finished, _ = project.evaluate("--target", "http://127.0.0.1:9")
    assert finished.code == 3
    assert "http://127.0.0.1:9 cannot be reached" in finished.stdout


HUGE_AGENT = """
def answer(messages):
    question = messages[-1]["content"]
    return "x" * 50_000_000 if question == "misbehave" else question.removeprefix("what is ").removesuffix("?")
"""


def test_an_answer_of_50_mb_is_its_case_s_error(project: Project) -> None:
    project.suite([GOOD, BAD, LAST])
    project.write("agent.py", HUGE_AGENT)
    found, stdout, case = only_the_bad_one_suffers(project, "--target", "python:agent:answer")
    assert "it returned more than 2000000 bytes" in found
    assert "it returned more than 2000000 bytes" in stdout
    assert case.trials[0].turns[0].response is None
    assert (project.out / "results.json").stat().st_size < 100_000


@pytest.mark.full
def test_an_answer_of_50_mb_is_evaluated_when_it_is_allowed(project: Project) -> None:
    project.suite([GOOD, BAD, LAST])
    project.write("agent.py", HUGE_AGENT)
    finished, record = project.evaluate("--target", "python:agent:answer", "--max-response-bytes", "60000000")
    assert finished.code == 1
    assert len(by_name(record)["bad"].trials[0].turns[0].response or "") == 50_000_000
    assert len(finished.stdout) < 5000
    assert "50,000,000 characters" in finished.stdout


PYTHON_AGENT = """
import os, time

def answer(messages):
    question = messages[-1]["content"]
    if question != "misbehave":
        return question.removeprefix("what is ").removesuffix("?")
    mode = os.environ["MODE"]
    if mode == "raises":
        raise RuntimeError("out of \\ud800 stock")
    if mode == "exits":
        os._exit(7)
    if mode == "hangs":
        time.sleep(600)
    if mode == "nonsense":
        return 42
    if mode == "surrogate":
        return {"response": "1", "oops\\ud800": 1}
"""


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("raises", "it raised RuntimeError: out of \ufffd stock"),
        ("exits", "its process exited with code 7"),
        ("hangs", "the agent did not answer within "),
        ("nonsense", "must be text or an object with `response`"),
        ("surrogate", "unknown key `oops"),
        ("nothing", "must be text or an object with `response`, not null"),
    ],
)
def test_a_python_agent(project: Project, mode: str, reason: str) -> None:
    project.suite([GOOD, BAD, LAST])
    project.write("agent.py", PYTHON_AGENT)
    found, _, _ = only_the_bad_one_suffers(project, "--target", "python:agent:answer", hangs=mode == "hangs", MODE=mode)
    assert reason in found


def test_a_conversation_stops_at_the_turn_that_failed(project: Project) -> None:
    turns = [{"input": f"what is {n}?", "ground_truth": str(n)} for n in (1, 2, 3)]
    turns[1]["input"] = "misbehave"
    project.suite([{"name": "talk", "turns": turns}, GOOD])
    project.write("agent.py", PYTHON_AGENT)
    finished, record = project.evaluate("--target", "python:agent:answer", MODE="raises")
    assert finished.code == 3
    first, second, third = by_name(record)["talk"].trials[0].turns
    assert first.response == "1"
    assert first.evaluations[0].status == "completed"
    assert second.error is not None
    assert third.skipped == "not run: turn 1 of the conversation failed"
    assert [turn.evaluations[0].status for turn in (second, third)] == ["pending", "pending"]
    assert "2 of 4 evaluations were completed, all are required" in finished.stdout


def _ended(pid: int) -> bool:
    return wait_until(lambda: not running(pid))


def test_no_process_is_left_behind(project: Project) -> None:
    project.suite([GOOD, BAD, LAST])
    project.write("agent.py", PYTHON_AGENT)
    marker = f"holodeck-{os.getpid()}-{project.folder.name}"
    project.run("run", "--target", "python:agent:answer", "--turn-timeout", "1", MODE="hangs", MARKER=marker)
    left = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in environment.read_bytes() and not _ended(int(environment.parent.name)):
                left.append(environment.parent.name)
        except OSError:
            continue
    assert left == []


SLOW_IMPORT = """
import os, time

time.sleep(1.5 * float(os.environ["SECONDS"]))

def answer(messages):
    if "ends" in messages[-1]["content"]:
        os._exit(3)
    return "Paris"
"""


@pytest.mark.timeout(600)
def test_latency_and_deadlines_are_those_of_answers_not_of_imports(project: Project) -> None:
    names = ["one", "two", "ends its worker", "three", "four"]
    project.suite([{"name": name, "input": name, "ground_truth": "Paris"} for name in names])
    project.write("agent.py", SLOW_IMPORT)

    def attempt(seconds: float) -> tuple[Finished, Record]:
        project.policy(
            target="python:agent:answer",
            gates={"p95_latency_ms": 1000 * seconds, "min_pass_rate": 0.8},
            limits={"turn_timeout_s": seconds, "case_timeout_s": 1.2 * seconds},
        )
        return project.evaluate("--concurrency", "2", SECONDS=str(seconds))

    def met(result: tuple[Finished, Record]) -> bool:
        return sum(turn.error is None for case in result[1].cases for turn in case.trials[0].turns) == 4

    finished, record = ever_longer(attempt, met, (1.5, 12, 60))
    limit_ms = 1000 * json.loads((project.folder / "holodeck-action.yaml").read_bytes())["limits"]["turn_timeout_s"]
    turns = {case.name: case.trials[0].turns[0] for case in record.cases}
    crashed = turns.pop("ends its worker")
    assert crashed.error is not None
    assert crashed.error.code == "crashed"
    # The worker in the place of the one that ended imports before the clock, too.
    assert {turn.response for turn in turns.values()} == {"Paris"}, finished.stdout
    assert all(turn.timing is not None and turn.timing.duration_ms is not None for turn in turns.values())
    [latency] = (gate for gate in project.verdict()["gates"] if gate["name"] == "p95_latency_ms")
    assert latency["actual"] < limit_ms
