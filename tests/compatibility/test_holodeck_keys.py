"""Every key of HoloDeck's files, with values that HoloDeck accepts, against our models of them."""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.model.agent import AgentConfig, ProjectConfig
from holodeck_action.suite.model.schema_marks import METRICS
from tests.suite.folders import HEAD, load
from tests.tables import walk

BLOCKS: dict[str, dict[str, Any]] = yaml.load(
    (Path(__file__).parent / "data" / "holodeck-keys.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)
MODELS: dict[str, type[BaseModel]] = {"agent": AgentConfig, "project": ProjectConfig}


def document(name: str, block: Any) -> tuple[str, Any]:
    """Return which file it is, and its data with the block in it."""
    if name in MODELS:
        return name, block
    within = BLOCKS[name].get("within", "agent")
    around = copy.deepcopy(BLOCKS[within]["base"])
    last = BLOCKS[name]["at"][-1]
    place = around
    for step, following in pairwise(BLOCKS[name]["at"]):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(step, int):
            place[:] = [empty]
        elif not isinstance(place.get(step), type(empty)):
            place[step] = empty
        place = place[step]
    if isinstance(last, int):
        place[:] = [block]
    else:
        place[last] = block
    return document(within, around)


def refusal(name: str, block: Any) -> str | None:
    """Return why our model of the file refuses the block; None when it takes it."""
    file, data = document(name, block)
    try:
        MODELS[file].model_validate(data, context={METRICS: built_in()})
    except ValidationError as error:
        return str(error)
    return None


@pytest.mark.needs
@walk("name", BLOCKS)
def test_what_holodeck_accepts_is_accepted(name: str) -> None:
    block = BLOCKS[name]
    base = block["base"]
    found = {key: [refusal(name, {**base, key: value}) for value in values] for key, values in block["keys"].items()}
    assert {key: reasons for key, reasons in found.items() if any(reasons)} == {}
    assert all(block["keys"].values())
    assert [refusal(name, mapping) for mapping in (base, *block.get("also", ()))] == [None] * (
        1 + len(block.get("also", ()))
    )


@pytest.mark.needs
@walk("name", [name for name, block in BLOCKS.items() if "refused" in block])
def test_what_says_nothing_is_refused(name: str) -> None:
    block = BLOCKS[name]
    for key, values in block["refused"].items():
        assert all(refusal(name, {**block["base"], key: value}) for value in values), key


@pytest.mark.needs
@walk("name", [name for name in BLOCKS if name not in ("DatabaseConfig", "DeploymentConfig")])
def test_a_key_that_nobody_knows_is_refused(name: str) -> None:
    """Else the list would prove nothing."""
    free = {"RegistryConfig", "CloudTargetConfig", "PrometheusExporterConfig", "AzureMonitorExporterConfig"}
    assert (refusal(name, {**BLOCKS[name]["base"], "unheard_of": 1}) is None) == (name in free)


def test_a_suite_with_settings_of_others_and_empty_variables_loads(tmp_path: Path) -> None:
    agent = (
        HEAD.replace("name: llama}", 'name: llama, endpoint: "${NO_ENDPOINT}", api_version: ""}')
        + "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
        + "test_cases: [{input: hi, ground_truth: hello}]\n"
        + "observability: {enabled: true, traces: {capture_evaluation_content: true, schedule_delay_millis: 500}}\n"
    )
    config = "mcp_servers: [{name: files, description: reads files, command: npx, env_file: ''}]\n"
    suite = load(tmp_path, agent, {"config.yaml": config}, environ={"NO_ENDPOINT": ""})
    assert suite.agent.model.endpoint is None
    assert [(tool.name, tool.type) for tool in suite.agent.tools or ()] == [("files", "mcp")]
