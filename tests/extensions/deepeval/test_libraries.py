"""The process of the libraries: what happens when it ends, hangs or is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holodeck_action.extensions.deepeval.config import DeepEvalModelConfig
from holodeck_action.extensions.deepeval.geval import GEvalEvaluator
from holodeck_action.metrics.base import RetryConfig
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.suite.model.providers import ProviderEnum
from tests.llm.judging import Judge, Truth
from tests.llm.models import KEY, FakeModels, Request
from tests.llm.models.values import Reply

ROOT = Path(__file__).parents[3]
TRUTH = Truth(1)
pytestmark = pytest.mark.models(answer=Judge(TRUTH))


def geval(models: FakeModels, timeout: float = 60.0) -> GEvalEvaluator:
    config = DeepEvalModelConfig(
        provider=ProviderEnum.OPENAI, model_name="gpt-4o", api_key=KEY, endpoint=models.openai_url
    )
    once = RetryConfig(max_retries=0)
    return GEvalEvaluator(
        "Tone", "polite", evaluation_steps=["Look."], model_config=config, timeout=timeout, retry_config=once
    )


def process_of(program: int) -> int:
    """The number of the process of the libraries that a program has started; 0 for none."""
    for entry in Path("/proc").iterdir():
        try:
            command, stat = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
        except OSError:
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if b"libraries_serving" in command and int(parent) == program and state != "Z":
            return int(entry.name)
    return 0


def gone(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_every_event_loop_and_thread_shares_one(models: FakeModels) -> None:
    evaluator = geval(models)
    numbers = set()
    for _ in range(3):
        assert asyncio.run(evaluator.evaluate(**TRUTH.case)).score == 0.8
        numbers.add(process_of(os.getpid()))

    async def in_threads() -> list[float]:
        def alone() -> float:
            score = asyncio.run(geval(models).evaluate(**TRUTH.case)).score
            assert isinstance(score, float)
            return score

        return await asyncio.gather(*(asyncio.to_thread(alone) for _ in range(3)))

    assert asyncio.run(in_threads()) == [0.8] * 3
    numbers.add(process_of(os.getpid()))
    assert len(numbers) == 1


@pytest.mark.full
@pytest.mark.races
def test_one_that_dies_fails_its_evaluations_and_is_replaced(models: FakeModels) -> None:
    judge = Judge(TRUTH)

    def answer(request: Request) -> Reply:
        os.kill(process_of(os.getpid()), signal.SIGKILL)
        return judge(request)

    models.answer(answer)
    with pytest.raises(EvaluationError, match="was killed by SIGKILL before it finished") as caught:
        asyncio.run(geval(models).evaluate(**TRUTH.case))
    assert caught.value.code == "crashed"
    models.answer(judge)
    assert asyncio.run(geval(models).evaluate(**TRUTH.case)).score == 0.8


@pytest.mark.full
@pytest.mark.races
def test_one_that_hangs_is_killed_after_a_deadline_and_replaced(models: FakeModels) -> None:
    assert asyncio.run(geval(models).evaluate(**TRUTH.case)).score == 0.8
    number = process_of(os.getpid())
    os.kill(number, signal.SIGSTOP)
    with pytest.raises(TimeoutError, match=r"Tone took longer than 0\.2 s"):
        asyncio.run(geval(models, timeout=0.2).evaluate(**TRUTH.case))
    until(lambda: gone(number))
    assert asyncio.run(geval(models).evaluate(**TRUTH.case)).score == 0.8


def test_an_evaluation_that_meets_its_deadline_ends_there_too(models: FakeModels) -> None:
    models.latency = 60.0
    with pytest.raises(TimeoutError):
        asyncio.run(geval(models, timeout=0.3).evaluate(**TRUTH.case))
    number = process_of(os.getpid())
    models.latency = 0.0
    # It goes on: nothing waits there for the answer that nobody gives.
    assert asyncio.run(geval(models).evaluate(**TRUTH.case)).score == 0.8
    assert process_of(os.getpid()) == number


ENDLESS = """
import asyncio, os, sys, time
from holodeck_action.metrics.judging.libraries import import_library

asyncio.run(import_library("deepeval"))
print("ready", flush=True)
time.sleep(100)
"""


@pytest.mark.races
@pytest.mark.parametrize("moment", ["at once", "later"])
def test_none_is_left_behind(moment: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", ENDLESS], env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE
    )
    try:
        until(lambda: process_of(program.pid))
        if moment == "later":
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
        number = process_of(program.pid)
        program.kill()
        until(lambda: gone(number))
    finally:
        program.kill()
        program.communicate()
