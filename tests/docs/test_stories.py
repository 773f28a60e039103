"""Newcomers who start at the first page of the documentation, with the built wheel in an environment of its own.

Each story is a repository, the link of docs/index.md that its owner follows, and what they do. Commands and files are
cut out of the pages. Where the program proposes commands or lines, they are taken as it prints them.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.docs.beginner import type_command
from tests.docs.pages import ROOT, blocks
from tests.llm.models import KEY, Answer, FakeModels, Request, ToolCall
from tests.tables import walk
from tests.targets.service import Handler, Received, Service
from tests.workers.installing import bare_python, uv

TRACES = ROOT / "tests" / "extensions" / "traces" / "recordings" / "langgraph.jsonl"
PRICES = """
PRICES = {"tea": 4, "coffee": 6}
"""
SELLER = """
from shop.prices import PRICES


def answer(messages):
    question = messages[-1]["content"]
    found = [f"A pound of {name} costs {price} dollars." for name, price in PRICES.items() if name in question]
    return found[0] if found else "We do not sell that."
"""
ECHO = """
def answer(messages):
    return messages[-1]["content"]
"""
TABLE = """No.,Question to the bot,Expected answer,Reviewed by
1,What is tea?,"A pound of tea costs 4 dollars.",Ann
2,What is coffee?,"A pound of coffee costs 6 dollars.",
"""
ASKED = """name: shop
model: {provider: openai, name: gpt-6-luna}
instructions: {inline: The agent has its own instructions.}
"""
TEA = "test_cases: [{name: tea, input: What is tea?, expect: [contains: 4 dollars]}]\n"
ORDER = "test_cases: [{name: order, input: Where is A-17?, expect: [contains: Leeds], expected_tools: [find_order]}]\n"
F1 = "evaluations: {metrics: [{type: standard, metric: f1_score, threshold: 0.6}]}\n"
PROMPTFOO = """prompts: ["Answer in a word: {{question}}"]
providers: [openai:gpt-6-luna]
tests:
  - vars: {question: Where is the shop?}
    assert: [{type: icontains, value: leeds}, {type: not-contains, value: York}]
"""


class Newcomer:
    """A shell in an empty repository."""

    def __init__(self, folder: Path, program: Path, addresses: Mapping[str, str]) -> None:
        self.folder = folder / "repository"
        self.addresses = addresses
        self.environ = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
        self.printed = ""
        subprocess.run(["git", "init", "--quiet", self.folder], check=True)

    def put(self, file: str, text: str) -> None:
        """Write a file, in which `<NAME>` is the address of a service."""
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.filled(text), encoding="utf-8")

    def filled(self, text: str) -> str:
        for name, address in self.addresses.items():
            text = text.replace(f"<{name}>", address)
        return text

    def type(self, command: str, code: int, *shows: str) -> None:
        ended = type_command(command, self.folder, self.environ, 60)
        self.printed = ended.stdout
        said = f"{command} ended with {ended.returncode}:\n{self.printed}"
        assert ended.returncode == code, said
        assert not [text for text in ("Traceback", "Warning:") if text in self.printed], said
        assert not [text for text in shows if text not in self.printed], f"{shows}: {said}"


@dataclass(frozen=True)
class Write:
    """Write a file of the repository, or copy one of the tests of an extension that may be deleted."""

    file: str
    text: str | Path

    def do(self, newcomer: Newcomer) -> None:
        text = self.text if isinstance(self.text, str) else self.text.read_text(encoding="utf-8")
        newcomer.put(self.file, text)


@dataclass(frozen=True)
class Paste:
    """Write the block of a page that contains a text, with changes."""

    page: str
    having: str
    file: str
    changes: tuple[tuple[str, str], ...] = ()

    def do(self, newcomer: Newcomer) -> None:
        [text] = {block.text for block in blocks(ROOT / "docs" / self.page) if self.having in block.text}
        for before, after in self.changes:
            assert before in text
            text = text.replace(before, after)
        newcomer.put(self.file, text)


@dataclass(frozen=True)
class Type:
    """Type the command of a page that is, or alone begins with, `start`; it must end with a code and print texts."""

    page: str
    start: str
    code: int = 0
    shows: tuple[str, ...] = ()

    _COMMAND: ClassVar = re.compile(r"(?:^(?:\$ )?|`)(?:uvx )?holodeck-action ([^`\n]+)", re.MULTILINE)

    def do(self, newcomer: Newcomer) -> None:
        text = (ROOT / "docs" / self.page).read_text(encoding="utf-8")
        found = {command for command in self._COMMAND.findall(text) if f"{command} ".startswith(f"{self.start} ")}
        exact = found & {self.start}
        [command] = exact or found
        newcomer.type(f"holodeck-action {command}", self.code, *self.shows)


@dataclass(frozen=True)
class Next:
    """Type the commands that were proposed; the last one must end with a code, and print texts."""

    code: int = 0
    shows: tuple[str, ...] = ()

    def do(self, newcomer: Newcomer) -> None:
        proposed = re.findall(r"^  (holodeck-action .*)$", newcomer.printed.partition("next:\n")[2], re.MULTILINE)
        assert proposed
        for command in proposed[:-1]:
            newcomer.type(command, 0)
        newcomer.type(proposed[-1], self.code, *self.shows)


@dataclass(frozen=True)
class Append:
    """Add to a file; without a text, the columns that the last error proposes."""

    file: str
    text: str = ""

    def do(self, newcomer: Newcomer) -> None:
        proposed = re.findall(r"columns: \{(.*?)\}", newcomer.printed)
        text = self.text or f"columns: {{{', '.join(proposed)}}}\n"
        newcomer.put(self.file, (newcomer.folder / self.file).read_text(encoding="utf-8") + text)


@dataclass(frozen=True)
class Export:
    name: str
    value: str

    def do(self, newcomer: Newcomer) -> None:
        newcomer.environ[self.name] = newcomer.filled(self.value)


Step = Write | Paste | Type | Next | Append | Export
START = "getting-started.md"
STORIES: Mapping[str, tuple[str, list[Step]]] = {
    "from zero without a key": (START, [Type(START, "init"), Next(0, ("2 of 2 passed",))]),
    "own agent in a src layout": (
        f"{START}#your-own-agent",
        [
            Write("pyproject.toml", '[project]\nname = "shop"\nversion = "1.0"\n'),
            Write("src/shop/__init__.py", ""),
            Write("src/shop/prices.py", PRICES),
            Write("src/shop/agent.py", SELLER),
            Type(START, "init", 0, ("python:shop.agent:answer answers, from src/shop/agent.py:5",)),
            # The first case is one that the shop's own rules do not answer, as the page says.
            Next(1, ("'We do not sell that.'", "0 of 1 passed")),
            Write("agent.yaml", ASKED + TEA),
            Type(START, "run", 0, ("1 of 1 passed",)),
        ],
    ),
    "HTTP with its own shape": (
        "targets.md",
        [
            Write("agent.yaml", ASKED + ORDER),
            Paste("targets.md", "$.steps", "holodeck-action.yaml", (("https://agent.internal", "<service>"),)),
            Type(START, "validate", 0, ("valid: 1 case",)),
            Type(START, "run", 0, ("1 of 1 passed", "2 of 2 evaluations were completed")),
        ],
    ),
    "a spreadsheet with odd columns": (
        "format.md#cases",
        [
            Write("src/shop/prices.py", PRICES),
            Write("src/shop/agent.py", SELLER),
            Type(START, "init"),
            Write("questions.csv", TABLE),
            Write("agent.yaml", f"{ASKED}test_cases_file: questions.csv\n"),
            Type(START, "validate", 2, ('{"Expected answer": ground_truth}', '{"Reviewed by": null}')),
            Append("holodeck-action.yaml"),
            Type(START, "validate", 2, ("is compared by nothing", "f1_score")),
            Append("agent.yaml", F1),
            Type(START, "run", 0, ("2 of 2 passed",)),
        ],
    ),
    "promptfoo": (
        "importing.md",
        [
            Write("promptfooconfig.yaml", PROMPTFOO),
            Export("OPENAI_API_KEY", KEY),
            Export("OPENAI_BASE_URL", "<models>"),
            Type(
                "importing.md",
                "import promptfoo promptfooconfig.yaml -o",
                0,
                ("2 assertions: 1 as graders, 1 as similar metrics\nnext:",),
            ),
            Next(0, ("1 of 1 passed",)),
        ],
    ),
    "traces": (
        "trace-cases.md",
        [
            Paste("traces.md", "shop-in-production", "agent.yaml"),
            Write("night.jsonl", TRACES),
            Write("traces/2026-11-27/night.jsonl", TRACES),
            Type("traces.md", "run agent.yaml --target traces:night.jsonl -o", 3, ("4 of 5",)),
            Type("trace-cases.md", "cases from-traces traces/2026-11-27 --suite", 0, ("wrote 5 cases",)),
            Write("agent.py", ECHO),
            Append("agent.yaml", "test_cases_file: cases/incidents.yaml\n"),
            Next(0, ("valid: 5 cases",)),
        ],
    ),
    "a key that is wrong": (
        "own-model.md",
        [
            Paste("format.md", "opening hours", "agent.yaml", (("  api_key: ${OPENAI_API_KEY:-unset}\n", ""),)),
            Paste("format.md", "def find_order", "tools.py"),
            Type(START, "run", 2, ("none is set: set the environment variable OPENAI_API_KEY",)),
            Export("OPENAI_API_KEY", "sk-wrong"),
            Export("OPENAI_BASE_URL", "<models>"),
            Type(START, "validate"),
            Type(START, "run", 3, ("refused the key (status 401); check OPENAI_API_KEY",)),
            Type("troubleshooting.md", "doctor agent.yaml", 0, ("OPENAI_API_KEY is set",)),
            Export("OPENAI_API_KEY", KEY),
            Type(START, "run", 0, ("2 of 2 passed",)),
        ],
    ),
    "a monorepo with two suites": (
        "github.md#several-suites",
        [
            Write("services/billing/agent.py", ECHO),
            Write("services/search/agent.py", ECHO),
            Type(START, "init services/billing", 0, ("from services/billing/agent.py:2",)),
            Next(0, ("1 of 1 passed",)),
            Type(START, 'run "services/*"', 0, ("PASSED: billing",)),
        ],
    ),
}


def _serve(handler: Handler, received: Received) -> None:
    """Answer as a service whose objects have other keys than ours."""
    assert received.body == {"question": "Where is A-17?"}
    step = {"kind": "tool", "tool": "find_order", "input": {"order": "A-17"}, "output": "Leeds"}
    tokens = {"in": 12, "out": 3}
    handler.answer({"output": {"text": "It is in Leeds."}, "steps": [step], "llm": "gpt-6-luna", "tokens": tokens})


def _answer(request: Request) -> Answer:
    """Answer as the model of a shop that looks orders up."""
    if request.tools and "A-17" in request.text and not request.results:
        return Answer(tools=(ToolCall("find_order", {"order": "A-17"}),))
    known = {"open": "We open at nine.", "arrive": "It arrives tomorrow.", "shop": "Leeds", "A-17": "It is in Leeds."}
    return Answer(next(answer for word, answer in known.items() if word in request.text))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the built wheel, in an environment that has nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True, timeout=300)
    python = bare_python(folder / "environment")
    [wheel] = folder.glob("*.whl")
    subprocess.run([uv(), "pip", "install", "--quiet", "--python", python, wheel], check=True, timeout=300)
    return python.with_name("holodeck-action")


@pytest.mark.full
@pytest.mark.needs("start", "importers", "traces", "trace_cases", "doctor")
@pytest.mark.timeout(600)
@pytest.mark.models(answer=_answer)
@walk(("story", "link", "steps"), [(name, *story) for name, story in STORIES.items()])
def test_a_newcomer_comes_to_the_end(
    tmp_path: Path, program: Path, models: FakeModels, service: Service, story: str, link: str, steps: list[Step]
) -> None:
    assert f"({link})" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), story
    service.respond = _serve
    newcomer = Newcomer(tmp_path, program, {"models": models.openai_url, "service": service.url})
    for step in steps:
        step.do(newcomer)
