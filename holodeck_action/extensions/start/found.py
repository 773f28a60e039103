"""What `init` finds in a repository: agents, services, functions, suites of other programs, skills and prompts."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from msgspec import Struct

from holodeck_action.extensions.start.functions import find_functions
from holodeck_action.extensions.start.python_agents import FoundAgent, find_agents
from holodeck_action.extensions.start.services import Service, find_services
from holodeck_action.seam import registry
from holodeck_action.seam.manifest import Framework
from holodeck_action.text.foreign import read_file
from holodeck_action.text.given_paths import GivenPath

CREW, ASKING = "ask_crew.py", "ask_agent.py"
_MOST_FILES = 20_000
_MOST_BYTES = 1_000_000
_EXCLUDED = frozenset({"node_modules", "site-packages", "build", "dist", "__pycache__", "holodeck-results"})
_HIDDEN_SEARCHED = frozenset({".claude"})
"""Hidden folders that are searched: they hold skills."""


class Found(Struct, frozen=True):
    """Something that can answer the cases of a suite, or a suite that can be imported.

    Attributes:
        about: what it is, such as `a compiled graph of LangGraph`.
        place: its file, with a line if there is one.
        target: the target as YAML; empty if the suite's own model answers with `instructions`.
        instructions: the file with the instructions for the suite's own model.
        program: the program whose suite the file is, such as `promptfoo`.
        url: the URL of the service; empty if it is no service.
        imported: MODULE:NAME that the file `caller` imports.
        caller: name of the Python file to write, which calls the agent; empty if the target calls it.
        is_async: whether the imported function is a coroutine function.
        framework: the agent's framework; None if it has none that is known.
        calls_model: whether it is certain that a model is called, whose key a job needs.
        note: what to do before it can be evaluated.
    """

    about: str
    place: str
    target: str = ""
    instructions: str = ""
    program: str = ""
    url: str = ""
    imported: str = ""
    caller: str = ""
    is_async: bool = False
    framework: Framework | None = None
    calls_model: bool = False
    note: str = ""

    @property
    def name(self) -> str:
        """A short name for lists."""
        if self.program:
            return f"import {self.program} {self.place}"
        return self.url or self.imported or self.target or self.instructions

    @property
    def description(self) -> str:
        """The name with what it is and where."""
        return f"{self.name}: {self.about}" + ("" if self.name.endswith(self.place) else f", {self.place}")

    def outcome(self, folder: GivenPath) -> str:
        """Return a clause on how it answers the cases of the suite in `folder`, which was searched."""
        place = folder / self.place
        if self.program:
            return f"{place} is imported, {self.about}"
        if self.instructions:
            return f"the model of agent.yaml answers by the instructions in {self.instructions}, {self.about}"
        calls = f"{self.target} calls {self.imported}" if self.caller else f"{self.name} answers"
        return f"{calls}, from {place}"


def look(folder: Path) -> list[Found]:
    """Return the proposals for a folder, the best first; nothing of the folder is run or imported."""
    files = [*_files(folder)]
    return [
        *_suites(folder, files, "promptfoo"),
        *(each for framework in registry.frameworks().values() for each in agents(folder, framework)),
        *map(_of_service, find_services(folder)),
        *(_of_function(agent, takes_messages, is_async) for agent, takes_messages, is_async in find_functions(folder)),
        *_suites(folder, files, "deepeval", "evals"),
        *_instructions(files),
    ]


def agents(folder: Path, framework: Framework) -> list[Found]:
    """Return the agents of a framework in a folder."""
    return [agent_of(framework, agent.reference, agent) for agent in find_agents(folder, framework)]


def agent_of(framework: Framework, reference: str, agent: FoundAgent | None = None) -> Found:
    """Return the agent that MODULE:NAME names; without `agent` it was not found."""
    spanned = not framework.adapter
    needed = (
        f"tool calls and tokens are read from spans, so the agent's packages must include {', '.join(framework.spans)}"
    )
    return Found(
        about=framework.agent,
        place="" if agent is None else agent.place,
        target="python:ask_crew:answer" if spanned else f"{framework.name}:{reference}",
        imported=reference if spanned else "",
        caller=CREW if spanned else "",
        framework=framework,
        calls_model=True,
        note=needed if framework.spans else "",
    )


def _of_service(service: Service) -> Found:
    return Found(
        about="a route of a FastAPI service",
        place=service.place,
        target="\n" + textwrap.indent(yaml.safe_dump(service.target, sort_keys=False), "  ").rstrip(),
        url=service.url,
        note=f"start the service before the run, for example by: uvicorn {service.application}; "
        "in a job, use the Action without its container: docs/action.md#without-a-container",
    )


def _of_function(agent: FoundAgent, takes_messages: bool, is_async: bool) -> Found:
    direct = f"python:{agent.reference}"
    return Found(
        about="a function that answers",
        place=agent.place,
        target=direct if takes_messages else "python:ask_agent:answer",
        imported="" if takes_messages else agent.reference,
        caller="" if takes_messages else ASKING,
        is_async=is_async,
    )


_SUITES = {
    "promptfoo": ("*/promptfooconfig.yaml", "*/promptfooconfig.yml", "*/promptfooconfig.json"),
    "deepeval": ("*/test_*.py", "*_test.py"),
    "evals": ("*/evals/evals.json",),
}
"""Patterns of the files that hold suites, by program."""
_INSTRUCTIONS = {
    "a skill": ("*/SKILL.md",),
    "a prompt": ("*/prompts/*.md", "*/prompts/*.txt", "*/system_prompt.*", "*/system-prompt.*", "*/instructions.md"),
}
"""Patterns of the files that hold instructions, by what they are."""


def _matching(files: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [file for file in files if any(fnmatchcase(f"/{file}", pattern) for pattern in patterns)]


def _suites(folder: Path, files: Sequence[str], *programs: str) -> Iterator[Found]:
    for program, file in [(name, file) for name in programs for file in _matching(files, _SUITES[name])]:
        if not file.endswith(".py") or _imports(folder / file, program):
            yield Found(about=f"a suite of {program}", place=file, program=program)


def _imports(file: Path, package: str) -> bool:
    """Return whether a line of a Python file imports from a package."""
    beginnings = (f"import {package}", f"from {package}")
    return any(line.startswith(beginnings) for line in read_text(file).splitlines())


def read_text(file: Path) -> str:
    """Return a file's text; empty if the file cannot be read, or is too large to be searched."""
    try:
        return read_file(file, _MOST_BYTES).lossy_text()
    except OSError:
        return ""


def _instructions(files: Sequence[str]) -> Iterator[Found]:
    for about, patterns in _INSTRUCTIONS.items():
        for file in _matching(files, patterns):
            plugin = next((part for part in _plugins(files) if file.startswith(part)), None)
            of = "" if plugin is None else f" of the plugin in {plugin or 'this folder'}"
            yield Found(about=about + of, place=file, instructions=file, calls_model=True)


def _plugins(files: Sequence[str]) -> list[str]:
    """Return the folders of plugins, each with a slash at its end unless it is the searched folder."""
    return [
        file.removesuffix(".claude-plugin/plugin.json") for file in _matching(files, ["*/.claude-plugin/plugin.json"])
    ]


def _files(folder: Path) -> Iterator[str]:
    """Yield paths of files below a folder, relative to it and sorted by depth, without packages and results."""
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        below = Path(root).relative_to(folder)
        folders[:] = sorted(name for name in folders if _is_searched(Path(root, name)))
        found += [(below / name).as_posix() for name in sorted(names)]
        if len(found) > _MOST_FILES:
            break
    yield from sorted(found[:_MOST_FILES], key=lambda file: file.count("/"))


def _is_searched(folder: Path) -> bool:
    if folder.name == ".claude-plugin" or folder.name in _HIDDEN_SEARCHED:
        return True
    return not (folder.name.startswith(".") or folder.name in _EXCLUDED or (folder / "pyvenv.cfg").exists())
