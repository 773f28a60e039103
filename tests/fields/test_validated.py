"""Fields that only later parts use: a good value is kept, a bad one is one sentence at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fields import agent_blocks, policy_blocks, runner_blocks, tool_blocks
from tests.fields.blocks import Block, each
from tests.suite.folders import complaints, load
from tests.tables import walk

BLOCKS = (*agent_blocks.BLOCKS, *tool_blocks.BLOCKS, *runner_blocks.BLOCKS, *policy_blocks.BLOCKS)
FIELDS = [f"{block.model}.{name}" for block, name in each(BLOCKS)]


def _kept(folder: Path, files: dict[str, str]) -> str:
    suite = load(folder, files["agent.yaml"], files)
    return repr((suite.agent, suite.policy, suite.project, [turn.files for turn in suite.cases[0].turns]))


@pytest.mark.needs
@pytest.mark.proves(*FIELDS)
@walk(("block", "name"), each(BLOCKS))
def test_a_bad_value_is_refused_at_its_line(tmp_path: Path, block: Block, name: str) -> None:
    files = block.files(name, block.fields[name].bad)
    assert complaints(tmp_path, files["agent.yaml"], files) == [block.complaint(name)]


@pytest.mark.full
@walk("block", BLOCKS)
def test_a_good_value_is_kept(tmp_path: Path, block: Block) -> None:
    base = _kept(tmp_path, block.files())
    for name, values in block.fields.items():
        found = [_kept(tmp_path, block.files(name, good)) for good in values.good]
        assert len(set(found)) == len(found), name
        assert found != [base], name


HONOURED = (
    *("max_turns", "allowed_tools", "disallowed_tools", "permissions", "effort", "max_budget_usd"),
    *("fallback_model", "extended_thinking"),
)
OWNERS = {"claude": "{provider: ollama, name: m}", "openai": "{provider: openai, name: m}"}


@pytest.mark.proves(
    "AgentConfig: deployment",
    "ClaudeConfig: working_directory permission_mode max_concurrent_sessions session_memory_estimate_mib",
    "ClaudeConfig: web_search bash file_system agents setting_sources i_understand_this_is_unsafe",
    "ClaudeConfig: disable_default_hooks disable_subprocess_env_scrub",
    "OpenAIConfig: max_concurrent_sessions session_memory_estimate_mib i_understand_this_is_unsafe",
    "OpenAIConfig: disable_default_hooks disable_subprocess_env_scrub",
    "ProjectConfig: deployment",
)
@walk(
    ("block", "name"),
    [
        *each((runner_blocks.CLAUDE, runner_blocks.OPENAI)),
        (agent_blocks.AGENT, "deployment"),
        (agent_blocks.PROJECT[0], "deployment"),
    ],
)
def test_what_no_runner_uses_is_said(tmp_path: Path, block: Block, name: str) -> None:
    files = block.files(name, block.fields[name].good[0])
    if block.path in OWNERS:
        lines = files["agent.yaml"].splitlines()
        files["agent.yaml"] = "\n".join(
            f"model: {OWNERS[block.path]}" if line.startswith("model:") else line for line in lines
        )
    suite = load(tmp_path, files["agent.yaml"], files)
    place = f"{block.path}.{name}" if block.path else name
    expected = () if name in HONOURED else (f"not used by this runner: {place}",)
    assert suite.notices == expected
