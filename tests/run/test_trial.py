"""One trial as a value: trouble of any kind ends in its record."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from holodeck_action.metrics.registry import built_in
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.facts import Fact
from holodeck_action.record.record import ToolAssertion, ToolInvocation
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.scoring.scoring import Answer
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.values import Case, Turn
from holodeck_action.targets.protocol import Agent, PartialTurn, Reply
from holodeck_action.text.redaction import Redactor


class Echo(Agent):
    """An agent that repeats what it is asked, and its own session."""

    timed = True
    session_id: str | None = None

    async def open(self, case: Case, trial: int) -> Echo:
        return self

    async def prepare(self) -> None:
        return None

    async def send(self, turn: Turn) -> Reply:
        return Reply(turn.input)

    async def complete_reply(self, reply: Reply) -> Reply:
        return reply

    def partial_turn(self) -> PartialTurn:
        return PartialTurn()

    async def close(self) -> None:
        pass


class Broken:
    """A scorer with a defect."""

    async def score(self, answer: Answer) -> tuple[Evaluation, ...]:
        raise RuntimeError("a defect")

    async def check_tools(self, turn: Turn, calls: Fact[tuple[ToolInvocation, ...]]) -> tuple[ToolAssertion, ...]:
        return ()

    def uses_context(self, turn: Turn) -> bool:
        return False

    def pending_evaluations(self, turn: Turn, reason: str) -> tuple[Evaluation, ...]:
        return ()


def test_a_defect_in_scoring_is_the_case_s_error(tmp_path: Path) -> None:
    suite = {
        "name": "s",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": "a", "input": "1", "ground_truth": "1"}],
    }
    (tmp_path / "agent.yaml").write_text(json.dumps(suite))
    [case] = load_suite(tmp_path / "agent.yaml", environ={}, home=None, metrics=built_in()).cases
    clock = Clock(lambda: datetime.now(UTC), time.monotonic)
    runner = TrialRunner(Echo(), Broken(), Deadlines(60, 60), clock, Redactor(()))
    trial = asyncio.run(runner.run(case, 0, contextlib.nullcontext()))
    [turn] = trial.turns
    assert turn.response == "1"
    assert turn.error is not None
    assert turn.error.message == "the answer could not be graded: RuntimeError: a defect"
