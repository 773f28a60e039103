"""A secret that lies across the place where foreign words are cut: no piece of it is left, whatever said them.

It is made of letters that read like words, so that nothing but its value tells it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.text.foreign import Foreign
from holodeck_action.text.redaction import Redactor
from holodeck_action.workers.processes import OutputTail
from tests.commands.project import Project
from tests.extensions.mcp.mcp_servers.starting import RUDE, mcp, path_with_npx
from tests.llm.models import Answer, FakeModels, Fault, Reply, Request, ToolCall
from tests.reports.pages import told

SECRET = "quazimob-wuxtyvokk-zephqumbud"
PIECES = {SECRET[at : at + 4] for at in range(len(SECRET) - 3) if "-" not in SECRET[at : at + 4]}
SHIFTS = (0, 3, 7, 12, 16, 21, 25, 29)
"""How many of its characters stand before the cut."""
# Where words are cut: characters of a line, bytes of stderr and of output, characters of an exception and of others.
LINE, STDERR, OUTPUT, SHOWN_OUTPUT, EXCEPTION, PROVIDER, KEY = 200, 8192, 65536, 4096, 2000, 300, 40
WORDS = f"""
SECRET = {SECRET!r}

def words(asked):
    # `start 200 7`: what is cut behind 200 characters, 7 of the secret before that; `end 8192 7`: the same from behind.
    way, limit, shift = asked.split()[-3:]
    some = int(limit) - int(shift)
    before, after = (some, 50) if way == "start" else (50, some)
    return "x" * before + SECRET + "y" * after
"""


@given(
    st.sampled_from("x é€😀\n"),
    st.integers(0, 9_000),
    st.integers(0, 9_000),
    st.lists(st.integers(1, 5_000), min_size=1, max_size=5),
)
def test_the_end_of_what_is_kept_begins_with_no_piece(sign: str, before: int, after: int, sizes: list[int]) -> None:
    data, tail = (sign * before + SECRET + sign * after + "the end").encode(), OutputTail(LINE)
    for size in cycle(sizes):
        if not data:
            break
        tail.feed(data[:size])
        data = data[size:]
    shown = tail.content().without_secrets(Redactor([SECRET]).text)
    assert not any(piece in shown for piece in PIECES)
    assert shown.endswith("the end")


@given(st.sampled_from("x é€😀\n"), st.integers(0, 9_000), st.integers(1, 9_000))
def test_what_never_came_leaves_no_piece_before_it(sign: str, before: int, came: int) -> None:
    data = (sign * before + SECRET).encode()
    unfinished = came < len(data)
    shown = Foreign(data[:came], unfinished=unfinished).without_secrets(Redactor([SECRET]).text)
    assert not any(piece in shown for piece in PIECES)
    assert shown.endswith("…") == unfinished


Cut = tuple[str, str, int]
"""What is done, from which side it is cut, and where."""


def cases(cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """A case of each way to cut, for each shift; what it asks for is its name."""
    names = [f"{does} {way} {limit} {shift}" for does, way, limit in cuts for shift in SHIFTS]
    return [{"name": name, "input": name, "ground_truth": "x"} for name in names]


def errors_of(project: Project, code: int = 3, **environ: str) -> dict[str, Any]:
    """Run the suite; no piece of the secret may be in anything that comes of it. Return the errors by case."""
    finished = project.run("run", "-o", "out", PASSPHRASE=SECRET, **environ)
    assert finished.code == code, finished.stdout + finished.stderr
    texts = {"stdout": finished.stdout, "stderr": finished.stderr}
    for path in project.out.rglob("*"):
        if path.is_file():
            texts[path.name] = told(path.read_bytes().decode("utf-8", "replace"))
    assert {"results.json", "report.md", "journal.jsonl"} <= texts.keys() | {"journal.jsonl"}
    found = {place: sorted(piece for piece in PIECES if piece in text.lower()) for place, text in texts.items()}
    assert {place: pieces for place, pieces in found.items() if pieces} == {}
    record = json.loads((project.out / "results.json").read_bytes())
    return {case["name"]: case["trials"][0].get("error") or _error(case) for case in record["cases"]}


def _error(case: dict[str, Any]) -> Any:
    turn = case["trials"][0]["turns"][0]
    return turn.get("error") or turn["evaluations"][0].get("error")


def target(project: Project, target: str | None, **more: Any) -> None:
    project.policy(**({} if target is None else {"target": target}), secrets=["${PASSPHRASE}"], **more)


COMMAND = f"""
import json, sys
{WORDS}
for line in sys.stdin:
    asked = json.loads(line)["input"]
    if asked.startswith("answers"):
        print(words(asked), flush=True)
    else:
        print(words(asked), file=sys.stderr, flush=True)
        sys.exit(3)
"""


@pytest.mark.full
def test_what_a_command_writes(project: Project) -> None:
    project.write("agent.py", COMMAND)
    cuts = (
        ("fails", "start", LINE),
        ("fails", "end", STDERR),
        ("fails", "end", STDERR + 4096),
        ("answers", "start", LINE),
    )
    project.suite(cases(cuts))
    target(project, f"command:{sys.executable} agent.py")
    errors = errors_of(project)
    assert (
        "exited with code 3 without answering; its last line on stderr: xxx" in errors["fails start 200 7"]["message"]
    )
    assert "a line that is not JSON" in errors["answers start 200 7"]["message"]
    # What is not beside the cut is still there.
    assert errors["fails end 8192 7"]["context"]["stderr"].endswith("y" * 8000 + "\n")


PYTHON = f"""
import os
{WORDS}

def answer(messages):
    asked = messages[-1]["content"]
    if asked.startswith("raises"):
        raise ValueError(words(asked))
    if asked.startswith("exits"):
        raise SystemExit(words(asked))
    if asked.startswith("keys"):
        return {{"response": "x", "metadata": {{words(asked): {{1}}}}}}
    print(words(asked), flush=True)
    if asked.startswith("ends"):
        os._exit(3)
    raise ValueError("no")

def grade(context):
    asked = context.turn_input
    print(words(asked), flush=True)
    raise ValueError(words(asked))
"""
PYTHON_CUTS = (
    ("raises", "start", EXCEPTION),
    ("raises", "start", EXCEPTION - len("ValueError: ")),
    ("raises", "start", 2 * EXCEPTION),
    ("exits", "start", 80),
    ("keys", "start", KEY),
    ("ends", "end", OUTPUT),
    ("ends", "end", SHOWN_OUTPUT),
    ("prints", "end", SHOWN_OUTPUT),
)


@pytest.mark.full
def test_what_a_worker_says(project: Project) -> None:
    project.write("shop.py", PYTHON)
    project.suite(cases(PYTHON_CUTS))
    target(project, "python:shop:answer")
    errors = errors_of(project)
    assert errors["raises start 2000 7"]["message"].startswith("shop:answer: it raised ValueError: xxx")
    assert errors["raises start 2000 7"]["message"].endswith(" (shop.py:17)")
    assert errors["ends end 65536 7"]["context"]["output"].endswith("y" * 4000 + "\n")


@pytest.mark.full
def test_what_a_grader_says(project: Project) -> None:
    project.write("shop.py", PYTHON)
    cuts = ("raises", "start", EXCEPTION), ("prints", "end", 500), ("prints", "end", SHOWN_OUTPUT)
    asked = cases(cuts)
    project.suite(asked, metrics=[{"type": "code", "grader": "shop:grade"}])
    project.answers([{"case": case["name"], "response": "x"} for case in asked])
    target(project, "recorded:answers.jsonl")
    errors = errors_of(project)
    assert "raised ValueError: xxx" in errors["raises start 2000 7"]["message"]


SERVER = f"""
import sys
{WORDS}
print(words(" ".join(sys.argv[1:])), file=sys.stderr, flush=True)
if sys.argv[1] == "waits":
    print(words(" ".join(sys.argv[1:])), flush=True)
    sys.stdin.read()
sys.exit(7)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("does", "way", "limit"), [("ends", "start", LINE), ("ends", "end", STDERR), ("waits", "start", LINE)]
)
def test_what_an_mcp_server_writes(project: Project, does: str, way: str, limit: int) -> None:
    program = project.write("server.py", SERVER)
    said = "its last line on stderr: " + ("xxx" if way == "start" else "")
    # Who waits is left at the deadline, at which a slow machine may not have started it.
    for seconds in (60,) if does == "ends" else (2, 8, 32):
        more = {"request_timeout": seconds}
        servers = [mcp(f"s{shift}", str(program), does, way, str(limit), str(shift), **more) for shift in SHIFTS]
        project.suite(cases([("one", "start", 1)])[:1], tools=servers)
        target(project, None)
        (error,) = errors_of(project, OPENAI_API_KEY="sk-unused", PATH=path_with_npx(project.folder)).values()
        if said in error["message"]:
            break
    assert said in error["message"]


class Handler(BaseHTTPRequestHandler):
    """Repeats the words that a case asks for, as an error, as an answer that is none, or as a redirect."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        found: dict[str, Any] = {}
        exec(WORDS, found)
        body = found["words"](asked).encode()
        self.send_response(500 if asked.startswith("fails") else 200)
        self.send_header("content-type", "text/event-stream" if asked.startswith("streams") else "application/json")
        body = b"data: " + body + b"\n\n" if asked.startswith("streams") else body
        body = b"<html>" + body[6:] if asked.startswith("page") else body
        body = json.dumps({"response": 1, body.decode(): 1}).encode() if asked.startswith("keys") else body
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_a_service_answers(project: Project, service: str) -> None:
    cuts = [(does, "start", LINE) for does in ("fails", "answers", "page", "streams")]
    project.suite(cases([*cuts, ("fails", "start", 8192), ("keys", "start", KEY)]))
    target(project, service)
    errors = errors_of(project)
    assert "answered with status 500: xxx" in errors["fails start 200 7"]["message"]
    assert "a body that is not JSON" in errors["answers start 200 7"]["message"]


def words(asked: str) -> str:
    found: dict[str, Any] = {}
    exec(WORDS, found)
    said: str = found["words"](asked)
    return said


def rule(request: Request) -> Reply:
    asked = request.text
    does = asked.split()[0]
    if does == "fails":
        return Fault(status=400, body={"error": {"message": words(asked), "type": "invalid_request_error"}})
    if does == "page":
        return Fault(status=500, body=words(asked), headers={"content-type": "text/plain", "x-should-retry": "false"})
    if does == "refuses":
        return Answer(refusal=words(asked))
    if does == "answers" or request.results:
        return Answer(words(asked) if does == "answers" else "done")
    if does == "broken":
        return Answer(tools=(ToolCall("act", words(asked)),))
    if does == "unknown":
        return Answer(tools=(ToolCall(words(asked), {}),))
    return Answer(tools=(ToolCall("act", {"say": words(asked)}),))


@pytest.mark.full
def test_what_a_model_and_its_tools_say(project: Project) -> None:
    cuts = [
        ("fails", "start", PROVIDER),
        ("page", "start", PROVIDER),
        ("refuses", "start", LINE),
        ("answers", "start", LINE),
    ]
    cuts += [("broken", "start", LINE), ("unknown", "start", LINE), ("raises", "start", 500), ("raises", "start", 2000)]
    with FakeModels() as models:
        models.answer(rule)
        model = {"provider": "openai", "name": "chosen", "endpoint": models.openai_url}
        # A schema, so that an answer that is not JSON is quoted.
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        project.suite(cases(cuts), model=model, tools=[mcp("rude", RUDE, "failing")], response_format=schema)
        target(project, None)
        errors = errors_of(project, OPENAI_API_KEY="sk-unused", PATH=path_with_npx(project.folder))
    assert ": xxx" in errors["fails start 300 7"]["message"]
    assert "refused to answer: xxx" in errors["refuses start 200 7"]["message"]


def verdict(request: Request) -> Reply:
    asked = next(line for line in request.text.splitlines() if line.startswith(("reasons", "babbles", "refuses")))
    if asked.startswith("refuses"):
        return Answer(refusal=words(asked))
    return Answer(json.dumps({"reason": words(asked), "score": 8}) if asked.startswith("reasons") else words(asked))


def test_what_judges_say(project: Project) -> None:
    cuts = ("reasons", "start", 400), ("babbles", "start", 200), ("babbles", "start", 300), ("refuses", "start", LINE)
    with FakeModels() as models:
        models.answer(verdict)
        judges = [{"provider": "openai", "name": name, "endpoint": models.openai_url} for name in ("one", "two")]
        metric = {"type": "geval", "name": "good", "criteria": "Is it?", "evaluation_steps": ["Look."]}
        asked = cases(cuts)
        project.suite(asked, metrics=[{**metric, "judges": {"models": judges}}])
        project.answers([{"case": case["name"], "response": case["name"]} for case in asked])
        target(project, "recorded:answers.jsonl")
        errors = errors_of(project, OPENAI_API_KEY="sk-unused")
    assert "x" * 150 in errors["refuses start 200 7"]["message"]
