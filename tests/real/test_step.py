"""The step of a workflow on the fake GitHub, with the real model as the agent."""

from __future__ import annotations

import pytest

from tests.commands.project import Project
from tests.github.events import HEAD, MERGE
from tests.github.fake import FakeGitHub
from tests.github.life import FILES, latest_check, only_comment
from tests.github.workflow import REPOSITORY, Workflow
from tests.real.runs import ANY_ANSWER, CAPITALS
from tests.real.server import KEY, Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_a_pull_request_gets_a_verdict_without_the_models_key(
    hub: FakeGitHub, project: Project, server: Server
) -> None:
    shop = hub.add_repository(REPOSITORY)
    shop.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=FILES)
    workflow = Workflow(hub, project)
    model = {**server.model(), "api_key": "${MODEL_KEY}"}

    project.suite(CAPITALS, [ANY_ANSWER], model=model)
    passed = workflow.job(MODEL_KEY=KEY)
    assert (passed.code, passed.outputs["verdict"], passed.outputs["passed"]) == (0, "passed", "2"), passed.text
    assert latest_check(shop, HEAD)["conclusion"] == "success"

    project.suite(CAPITALS[:1], [{"type": "contains", "value": "no model says this"}], model=model)
    failed = workflow.job(MODEL_KEY=KEY)
    assert (failed.code, failed.outputs["verdict"]) == (1, "failed"), failed.text
    comment = only_comment(shop)
    assert "no model says this" in comment

    refused = workflow.job(MODEL_KEY="sk-of-somebody-else")
    assert (refused.code, refused.outputs["verdict"]) == (3, "incomplete"), refused.text
    said = only_comment(shop)
    assert "status 401" in said
    assert latest_check(shop, HEAD)["conclusion"] != "success"
    assert KEY not in passed.text + failed.text + comment + said
