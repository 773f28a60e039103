"""The recipes of docs/frameworks.md, with the real frameworks: nothing but their spans tells what they did."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holodeck_action.record.result_files import read_record
from holodeck_action.suite.model.named_models import SMALL
from tests.commands.project import Project
from tests.docs.pages import blocks
from tests.extensions.frameworks.framework_examples import FOLDER, check_record, variables
from tests.extensions.frameworks.framework_models import answer_claude, answer_dspy, answer_smolagents
from tests.llm.models import KEY, serve_models
from tests.targets.shop_model import shop_answer
from tests.workers.installing import uv

PAGE = Path(__file__).parents[3] / "docs" / "frameworks.md"
RECIPES = {
    "llama_index_agent.py": "LlamaIndex",
    "adk_agent.py": "Agent Development Kit",
    "strands_agent.py": "Strands Agents",
    "semantic_kernel_agent.py": "Semantic Kernel",
    "agent_framework_agent.py": "Agent Framework",
    "autogen_agent.py": "AutoGen",
    "haystack_agent.py": "Haystack",
    "smolagents_agent.py": "smolagents",
    "dspy_agent.py": "DSPy",
    "claude_agent.py": "Claude Agent SDK",
}
"""The name of each recipe's framework in the table."""
CONTENT = {
    "adk_agent.py": {
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        # No list of prices is fetched.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    "claude_agent.py": {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    "dspy_agent.py": {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    "haystack_agent.py": {"HAYSTACK_TELEMETRY_ENABLED": "False"},
    "semantic_kernel_agent.py": {"SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE": "true"},
}
"""The variables that the page asks for."""
MODELS = {"smolagents_agent.py": answer_smolagents, "dspy_agent.py": answer_dspy, "claude_agent.py": answer_claude}
"""The models of frameworks that call tools in words of their own."""


@pytest.mark.frameworks
@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe(project: Project, recipe: str) -> None:
    found = blocks(PAGE)
    (at,) = [at for at, block in enumerate(found) if block.mark == recipe]
    assert found[at - 1].mark == "requirements.txt"
    project.write("my_agent.py", found[at].text)
    project.write("requirements.txt", found[at - 1].text)
    project.write("agent.yaml", (FOLDER / "crewai" / "agent.yaml").read_text(encoding="utf-8"))
    policy = found[at - 2].text if recipe == "claude_agent.py" else found[0].text
    project.write("holodeck-action.yaml", policy + "limits: {concurrency: 1}\n")
    path = f"{uv().parent}:{project.environ()['PATH']}"
    with serve_models(answer=MODELS.get(recipe, shop_answer)) as models:
        # LlamaIndex has a name of its own for the address.
        addresses = {"OPENAI_API_BASE": models.openai_url, "ANTHROPIC_BASE_URL": models.anthropic_url}
        given = {**variables(models), **addresses, "ANTHROPIC_API_KEY": KEY, **CONTENT.get(recipe, {}), "PATH": path}
        ran = project.run_process("run", "-o", "out", **given)
    assert ran.code == 0, ran.stderr + ran.stdout
    if recipe == "semantic_kernel_agent.py":
        first = next(read_record(project.out / "results.json").turns)
        (call,) = first.tool_invocations or ()
        assert (call.name, call.args, call.result) == ("Shop-find_order", {"id": "A-17"}, "{'place': 'Leeds'}")
        assert first.usage is not None
        assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.model) == (30, 10, f"openai/{SMALL}")
    elif recipe == "claude_agent.py":
        check_record(project.out / "results.json", "mcp__shop__find_order", "claude-haiku-5-5")
    else:
        check_record(project.out / "results.json")


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_table_has_the_lines_of_a_recipe(recipe: str) -> None:
    (block,) = [block for block in blocks(PAGE) if block.mark == recipe]
    _, answer = re.split(r"^(?:async )?def answer", block.text, flags=re.MULTILINE)
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    (lines,) = [row[2] for row in rows if row[0] == f"| {RECIPES[recipe]}"]
    assert int(lines) == sum(1 for line in answer.splitlines() if line.strip())
