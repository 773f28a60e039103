"""The samples of the documents, and what happens when one is run in an empty folder against models on loopback."""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import inspect
import io
import os
import re
import warnings
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple
from unittest.mock import patch

from holodeck_action.record.result_files import read_record
from scripts.build_conformance import Sample, samples
from tests.commands.project import Project
from tests.extensions.azure.azure_judge import metric_of, verdict
from tests.extensions.deepeval.test_documented import judge
from tests.extensions.gllm.gllm import ITEM
from tests.llm.models import FakeModels, Reply, Request

AZURE = re.compile(r"https://\w[\w-]*\.openai\.azure\.com/")
OLLAMA = "http://localhost:11434"
COMPAT = "import holodeck_action.compat"
STAND_INS = {
    "SomeDeepEvalMetric": "from deepeval.metrics import AnswerRelevancyMetric as SomeDeepEvalMetric",
    "data": f"data = {ITEM!r}",
}
"""Lines that define what a document leaves to its reader."""
ANSWERS = {
    "What was the weighted average exercise price per share in 2007?": "60.94",
    "And in 2005?": "25.14",
    "What was the change over the years?": "35.8",
}
AGENT = "name: sample\nmodel: {provider: openai, name: gpt-4o}\ninstructions: {inline: Answer.}\n"
CASES = """\
test_cases:
  - name: "Exercise price"
    input: "What was the weighted average exercise price per share in 2007?"
    ground_truth: "60.94"
    retrieval_context: ["The exercise price was 60.94.", "It was 25.14 in 2005."]
"""


class Site(NamedTuple):
    """Where a sample runs: an empty folder, models on loopback, and the modules of the document's names."""

    project: Project
    models: FakeModels
    modules: Sequence[str]


def reply(request: Request) -> Reply:
    """Answer as the agent of the samples, or grade as a judge with sense."""
    if "Answer." in request.system:
        return ANSWERS.get(request.text, "As the documents say.")
    try:
        return verdict(4, f"{metric_of(request)} is good")
    except StopIteration:
        return judge(request)


def run_python(code: str, site: Site) -> tuple[str, dict[str, Any]]:
    """Return the lines that were added to a script, what it printed, and what it defined last or its error; and its
    variables.
    """
    added = [COMPAT, *definitions(code, site.modules)]
    azure = AZURE.search(code)
    local = AZURE.sub(site.models.azure_url, code).replace(OLLAMA, site.models.ollama_url)
    output = io.StringIO()
    variables: dict[str, Any] = {"__name__": "sample"}
    folder = site.project.folder
    with chdir(folder), redirect_stdout(output), redirect_stderr(output), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            asyncio.run(execute("\n".join([*added, local]), variables))
            ended = last_definition(code, variables)
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
    assert not [*folder.iterdir()], "a sample left files"
    notices = [f"{type(notice.message).__name__}: {notice.message}" for notice in told]
    printed = output.getvalue().splitlines()
    happened = "\n".join([*(f"+ {line}" for line in added), *notices, *printed, *ended.splitlines()])
    happened = happened.replace(site.models.azure_url, azure[0] if azure else "").replace(
        site.models.ollama_url, OLLAMA
    )
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+", "(now)", happened), {**variables, "notices": notices}


async def execute(source: str, variables: dict[str, Any]) -> None:
    """Run a script that may await at its top, as documents write it."""
    value = eval(compile(source, "sample", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), variables)
    if inspect.iscoroutine(value):
        await value


def definitions(code: str, modules: Sequence[str]) -> list[str]:
    """The lines that import or define what a sample uses without defining it."""
    nodes = [*ast.walk(ast.parse(code))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    known = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {*dir(builtins)}
    known |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    known |= {alias.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    lines = []
    for name in dict.fromkeys(node.id for node in names if node.id not in known):
        home = next((module for module in modules if name in dir(importlib.import_module(module))), "")
        if home or name in STAND_INS:
            lines.append(f"from {home} import {name}" if home else STAND_INS[name])
    return lines


def last_definition(code: str, variables: dict[str, Any]) -> str:
    """What the last statement of a sample defined."""
    match ast.parse(code).body[-1]:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return f"{name}: {shown(variables[name])}"
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            return f"{name}: a {type(variables[name]).__name__}"
        case _:
            return "(ended without an error)"


def shown(value: Any) -> str:
    """The text of a value, with sets in order."""
    match value:
        case frozenset():
            return f"frozenset({{{', '.join(sorted(map(repr, value)))}}})"
        case tuple() if hasattr(value, "_fields"):
            fields = ", ".join(f"{name}={shown(getattr(value, name))}" for name in value._fields)
            return f"{type(value).__name__}({fields})"
        case _:
            return repr(value)


def run_yaml(code: str, site: Site, files: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the lines that were added to a suite, the files that it names, what `run` printed, and its exit code; and
    the code, the errors, and the evaluations by case and metric.
    """
    text = f"evaluations:\n  metrics:\n{indent(code, '    ')}" if code.startswith("- ") else code
    text = ("" if text.startswith("name:") else AGENT) + text + "\n" + ("" if "test_cases" in text else CASES)
    needed = {name: file for name, file in files.items() if name in text or Path(name).stem in text}
    for name, file in {**needed, "agent.yaml": text}.items():
        site.project.write(name, file)
    done = site.project.run("run", "-o", "out", OPENAI_API_KEY="sk-...")
    added = [line for line in text.splitlines() if line.strip() not in code]
    added += [f"# {name} beside it" for name in needed]
    # What a run paid depends on requests that were sent again.
    printed = [line.rstrip() for line in done.stdout.splitlines() if not re.match(r"\d+ model calls?\b", line)]
    happened = [*(f"+ {line}" for line in added), *printed, *done.errors, f"exit code {int(done.code)}"]
    results = site.project.out / "results.json"
    cases = read_record(results).cases if results.exists() else ()
    found = {
        case.name: {each.evaluator_name: each for turn in case.trials[0].turns for each in turn.evaluations}
        for case in cases
    }
    return "\n".join(happened), {"code": int(done.code), "errors": done.errors, "evaluations": found}


def run(sample: Sample, site: Site) -> tuple[str, dict[str, Any]]:
    """Run a sample; return what happened as the pages show it, and as values, with all requests to models."""
    others = {other.code.split("\n")[0][2:]: other.code for other in samples()}
    graders = {name: code for name, code in others.items() if name.startswith("graders/")}
    places = {"OPENAI_BASE_URL": site.models.openai_url, "OLLAMA_BASE_URL": site.models.ollama_url}
    before = len(site.models.requests)
    with patch.dict(os.environ, places):
        if sample.language == "python":
            happened, values = run_python(sample.code, site)
        else:
            happened, values = run_yaml(sample.code, site, {**graders, "data/convfinqa_subset.yaml": CASES})
    return happened, {**values, "requests": site.models.requests[before:]}
